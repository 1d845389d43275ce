"""The state of a path for questions about it: read, still to be read, or unavailable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.catalog import Catalog, Root
from engine.core import Filters
from engine.protocol import PathState


def path_states(catalog: Catalog, paths: Sequence[str], *, is_reading: bool) -> tuple[PathState, ...]:
    """Returns the state of each path: of a file, by its newest content; of a folder, by whether anything is found.

    `is_reading`: documents are being read or about to be; otherwise waiting documents are "resting".
    """
    roots = _Roots(catalog.roots())
    return tuple(_state(catalog, roots, path, is_reading) for path in paths)


class _Roots:
    """Roots indexed by path: somebody may link thousands of single files, and ask about all of them."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._by_path = defaultdict[str, list[Root]](list)
        for root in roots:
            self._by_path[root.path].append(root)
        self._unseen = [root for root in roots if root.is_folder and not root.is_surveyed]

    def at(self, path: str) -> Sequence[Root]:
        return self._by_path.get(path, ())

    def may_yet_enter(self, path: str) -> bool:
        """Returns whether files at the path or below it may still be found."""
        return any(root.covers(path) for root in self._unseen)


def _state(catalog: Catalog, roots: _Roots, path: str, is_reading: bool) -> PathState:
    here = roots.at(path)
    is_waiting = any(not root.is_surveyed for root in here)
    document = catalog.document_by_path(path)
    document_id = document.document_id if document is not None else None
    if document is not None:
        is_waiting = is_waiting or document.state == "pending"
        is_read = document.num_chunks > 0 and not is_waiting
    else:
        is_read = catalog.extent(None, Filters(paths=(path,))).files > 0
        # Files below it may still be found, or read.
        is_waiting = is_waiting or roots.may_yet_enter(path) or catalog.any_below(path, "pending") is not None
        document = catalog.any_below(path)
    if is_read:
        return PathState(path=path, state="read", document_id=document_id)
    if is_waiting:
        return PathState(path=path, state="waiting" if is_reading else "resting", document_id=document_id)
    if document is None and not here:
        return PathState(path=path, state="absent")
    reason = document.reason if document is not None else here[0].absence
    return PathState(path=path, state="unread", reason=reason or "No file was found there.", document_id=document_id)
