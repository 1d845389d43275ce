"""Removed: what the user removed from the library stays removed, also under another name.

By path alone, a removed file that is renamed would silently be read and cited again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from engine.library.identities import MOUNT, Identity, has_its_name, identity_at


@dataclass(frozen=True, slots=True)
class Renamed:
    """What was removed at the path `was` is elsewhere now; `is_gone`: surely nothing removed is left at `was`."""

    was: str
    is_gone: bool


class Removed:
    """What the user removed, during one look: tells for each entry whether it was removed, and learns new names.

    `renamed` has the new paths of removed things; `here` has new identities of what is at removed paths now.
    """

    def __init__(
        self,
        noted: Mapping[str, str] | None = None,
        is_wanted: Callable[[str], bool] = lambda _: False,
        *,
        sees_all: bool = True,
    ) -> None:
        """Takes the removed paths, each with the identity of what was there ("" if unknown).

        `is_wanted` returns whether a path is in the library all the same. `sees_all`: the look covers whole roots, so
        it also meets what was at a removed path before, wherever that is now.
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
        """Notes the identity of what is at a removed path now, so that it is recognised under another name."""
        noted = self._noted[path]
        if noted == MOUNT:
            return
        with suppress(OSError):
            now = identity_at(path)
            before, is_at = Identity.read(noted), Identity.read(now)
            # What was there before may be elsewhere now, where a look at single places does not see it.
            is_replaced = before is not None and (is_at is None or before.inode != is_at.inode)
            if now != noted and (self._sees_all or not is_replaced):
                self.here[path] = now

    def takes(self, path: str, found: os.stat_result) -> bool:
        """Returns whether what is at `path` was removed, there or at an earlier path; `found` is its status."""
        if path in self._noted:
            self.note(path)
            return True
        if found.st_ino not in self._by_inode or path in self.renamed:
            return path in self.renamed
        identity = Identity.of(path, found)
        for was, noted in self._by_inode[found.st_ino]:
            if identity.is_of(noted) and not _lies_at(was, identity) and not self._is_wanted(path):
                # With another device number, it may be a copy on another drive, while the original is only away.
                is_gone = noted.device == identity.device and not has_its_name(was)
                self.renamed[path] = Renamed(was, is_gone)
                return True
        return False

    def takes_above(self, root: str, path: str) -> bool:
        """Returns whether what is at `path`, or a folder between it and `root`, was removed."""
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
    """Returns whether the identified thing is at `path`: a file may have several names."""
    if not has_its_name(path):
        return False
    try:
        return identity.is_of(Identity.read(identity_at(path)))
    except OSError:
        # It cannot be told, so nothing is concluded from it.
        return True
