"""Mounts: drives below a linked folder. Where one is away lies an empty folder, or none; no document was deleted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from engine.library.changes import is_below
from engine.library.identities import is_mount
from engine.library.scanner import Scan, ScanProblem

AWAY = "Its drive is not connected."


def is_connected(path: str, drive: str) -> bool:
    """Returns whether a drive is connected that was seen at `path`; `drive` is where a link at `path` led then.

    If the link is gone or leads elsewhere while the drive is still connected, what was behind the link was removed.
    """
    return is_mount(path) or (drive != path and os.path.ismount(drive))


def with_known(look: Scan, mounts: Mapping[str, str], known: Iterable[str]) -> Scan:
    """Returns the look with a problem added for each drive of `mounts` that is away, at, above or below its path.

    `known` are the paths of the documents at the place that was looked at.
    """
    near = [path for path in mounts if is_below(path, look.path) or is_below(look.path, path)]
    if not near:
        return look
    found, known = {file.path for file in look.files}, list(known)
    away = [path for path in near if not (is_connected(path, mounts[path]) or is_a_folder_now(path, known, found))]
    return replace(look, problems=(*look.problems, *(ScanProblem(path, AWAY, hides_files=True) for path in away)))


def is_a_folder_now(mount: str, known: Iterable[str], found: Collection[str]) -> bool:
    """Returns whether a folder in a drive's place holds most of its documents; one stray file does not count."""
    there = [path in found for path in known if is_below(path, mount)]
    return 2 * sum(there) >= len(there)
