"""Removed: what the user removed from the library stays removed, also under another name.

Paths alone would forget it as soon as somebody renames it: then it would be read and cited again without a word.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from engine.library.identities import MOUNT, Identity, has_its_name, identity_at


@dataclass(frozen=True, slots=True)
class Renamed:
    """What was removed at a path lies elsewhere; `is_gone` where surely nothing that was removed is left there."""

    was: str
    is_gone: bool


class Removed:
    """For one look: is asked about whatever is met, and notes what it learns of what was removed.

    `renamed` is found at these places under another name; `here` is what lies at the paths now, where that is news.
    """

    def __init__(
        self,
        noted: Mapping[str, str] | None = None,
        is_wanted: Callable[[str], bool] = lambda _: False,
        *,
        sees_all: bool = True,
    ) -> None:
        """Takes the paths, each with the identity of what lay there ("" where nobody knows).

        `is_wanted` says whether what lies at a path is in the library all the same; `sees_all`, whether the look goes
        through whole roots, so that it also meets what was replaced at such a path, wherever that lies now.
        """
        self._noted, self._is_wanted, self._sees_all = noted or {}, is_wanted, sees_all
        self._by_inode: dict[int, list[tuple[str, Identity]]] = {}
        for path, text in self._noted.items():
            if (identity := Identity.read(text)) is not None:
                self._by_inode.setdefault(identity.inode, []).append((path, identity))
        self.renamed: dict[str, Renamed] = {}
        self.here: dict[str, str] = {}

    def __contains__(self, path: object) -> bool:
        return path in self._noted

    def note(self, path: str) -> None:
        """One of the paths is met: what lies there now is known again when it gets another name."""
        noted = self._noted[path]
        if noted == MOUNT:
            return
        with suppress(OSError):
            now = identity_at(path)
            before, is_at = Identity.read(noted), Identity.read(now)
            # What lay there before may lie elsewhere, where a look at single places does not come by.
            is_replaced = before is not None and (is_at is None or before.inode != is_at.inode)
            if now != noted and (self._sees_all or not is_replaced):
                self.here[path] = now

    def takes(self, path: str, found: os.stat_result) -> bool:
        """Whether what lies at `path`, and is `found`, was removed: at this path, or under the name it had then."""
        if path in self._noted:
            self.note(path)
            return True
        if found.st_ino not in self._by_inode or path in self.renamed:
            return path in self.renamed
        identity = Identity.of(path, found)
        for was, noted in self._by_inode[found.st_ino]:
            if identity.is_of(noted) and not _lies_at(was, identity) and not self._is_wanted(path):
                # Under another number it may be the same drive, or a copy of one that is away and will be back.
                is_gone = noted.device == identity.device and not has_its_name(was)
                self.renamed[path] = Renamed(was, is_gone)
                return True
        return False

    def takes_above(self, root: str, path: str) -> bool:
        """Whether what lies at `path`, or a folder above it below `root`, was removed."""
        while path != root and path != os.path.dirname(path):
            if path in self._noted:
                self.note(path)
                return True
            if self._by_inode:
                with suppress(OSError):
                    if self.takes(path, os.lstat(path)):
                        return True
            path = os.path.dirname(path)
        return False


def _lies_at(path: str, identity: Identity) -> bool:
    """Whether that is what lies at a path: a file may have several names."""
    if not has_its_name(path):
        return False
    try:
        return identity.is_of(Identity.read(identity_at(path)))
    except OSError:
        # Nobody can tell.
        return True
