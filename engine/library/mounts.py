"""Mounts: drives below a linked folder. Where one is away lies an empty folder, or none; no document was deleted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace

from engine.library.changes import is_below
from engine.library.scanner import Scan, ScanProblem

AWAY = "Its drive is not connected."


def with_known(look: Scan, mounts: Iterable[str]) -> Scan:
    """The look with what it cannot see: the drives on these `mounts` that are away now, at it, above or below it."""
    near = [path for path in mounts if is_below(path, look.path) or is_below(look.path, path)]
    away = [path for path in near if not is_there(path, [file.path for file in look.files])]
    if not away:
        return look
    return replace(look, problems=(*look.problems, *(ScanProblem(path, AWAY, hides_files=True) for path in away)))


def is_there(mount: str, found: Iterable[str]) -> bool:
    """Whether a drive is mounted, or lies as a folder of its own where one was: some file was found in it."""
    return os.path.ismount(mount) or any(is_below(path, mount) for path in found)


def ended(mounts: Iterable[str], found: Collection[str]) -> list[str]:
    """Those of the mounts at which no drive is any more, but a folder with files."""
    return [path for path in mounts if is_there(path, found) and not os.path.ismount(path)]
