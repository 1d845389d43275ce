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
    """Whether a drive is there that was seen at `path`, and mounted at `drive`: where a link at the path led then.

    A link may be gone, or lead elsewhere: then its drive is there all the same, and what lay behind it was taken away.
    """
    return is_mount(path) or (drive != path and os.path.ismount(drive))


def with_known(look: Scan, mounts: Mapping[str, str], known: Iterable[str]) -> Scan:
    """The look with what it cannot see: the drives on these `mounts` that are away now, at it, above or below it.

    `known` are the paths of the documents where was looked.
    """
    near = [path for path in mounts if is_below(path, look.path) or is_below(look.path, path)]
    if not near:
        return look
    found, known = {file.path for file in look.files}, list(known)
    away = [path for path in near if not (is_connected(path, mounts[path]) or is_a_folder_now(path, known, found))]
    return replace(look, problems=(*look.problems, *(ScanProblem(path, AWAY, hides_files=True) for path in away)))


def is_a_folder_now(mount: str, known: Iterable[str], found: Collection[str]) -> bool:
    """Whether most of the documents on a drive lie in a folder in its place; one stray file says nothing."""
    there = [path in found for path in known if is_below(path, mount)]
    return 2 * sum(there) >= len(there)
