"""How what lies at a path stands for who wants to ask about it: read, still to be read, or not to be had."""

from __future__ import annotations

from collections.abc import Sequence

from engine.catalog import Catalog, Root
from engine.core import Filters
from engine.protocol import PathState


def path_states(catalog: Catalog, paths: Sequence[str], *, is_reading: bool) -> tuple[PathState, ...]:
    """Of a file, its newest content counts; of a folder, whether anything in it can be found.

    `is_reading`: something is being read, or about to be; else what waits goes on waiting.
    """
    roots = catalog.roots()
    return tuple(_state(catalog, roots, path, is_reading) for path in paths)


def _state(catalog: Catalog, roots: Sequence[Root], path: str, is_reading: bool) -> PathState:
    here = [root for root in roots if root.path == path]
    is_waiting = any(not root.is_surveyed for root in here)
    document = catalog.document_by_path(path)
    if document is not None:
        is_waiting = is_waiting or document.state == "pending"
        is_read = document.num_chunks > 0 and not is_waiting
    else:
        is_read = catalog.extent(None, Filters(paths=(path,))).files > 0
        # Files below it may yet be entered, or read.
        is_unseen = any(not root.is_surveyed and root.covers(path) for root in roots)
        is_waiting = is_waiting or is_unseen or catalog.any_below(path, "pending") is not None
        document = catalog.any_below(path)
    if is_read:
        return PathState(path=path, state="read")
    if is_waiting:
        return PathState(path=path, state="waiting" if is_reading else "resting")
    if document is None and not here:
        return PathState(path=path, state="absent")
    reason = document.reason if document is not None else here[0].absence
    return PathState(path=path, state="unread", reason=reason or "No file was found there.")
