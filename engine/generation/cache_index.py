"""The index of cache files: which model they belong to and which is evicted first, without opening one.

Nothing here takes longer with more files, except what concerns all files of a model, such as opening or closing it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.generation import cache_io
from engine.generation.cache_format import CacheHeader
from engine.generation.replacement import Ranking

_Of = TypeVar("_Of", bytes, int)


@dataclass(slots=True, eq=False)
class CacheFile:
    """A file that exists, or will once it is written; created and removed by `CacheFiles`.

    Once it exists, its header no longer holds the tokens, which are in the file.
    """

    folder: Path
    header: CacheHeader
    mtime_ns: int
    is_removed: bool = False

    @property
    def path(self) -> Path:
        return cache_io.path_in(self.folder, self.header.root, self.header.key)

    @property
    def num_bytes(self) -> int:
        return self.header.file_bytes


class CacheIndex:
    """All known files and their bytes. Its owner ensures that only one thread at a time uses it."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._by_key: dict[bytes, CacheFile] = {}
        self._of_root: dict[bytes, set[CacheFile]] = {}
        self._of_document: dict[int, set[CacheFile]] = {}
        self._open_roots: set[bytes] = set()
        # Files of models that are not open, and those that open models cannot use; the least recently used first.
        self._unused: Ranking[CacheFile] = Ranking()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes) -> CacheFile | None:
        return self._by_key.get(key)

    def is_open(self, root: bytes) -> bool:
        return root in self._open_roots

    def add(self, file: CacheFile) -> None:
        """Adds a file, in place of one with the same key."""
        header = file.header
        if (before := self._by_key.get(header.key)) is not None:
            self.remove(before)
        self._by_key[header.key] = file
        self._of_root.setdefault(header.root, set()).add(file)
        for document in header.piece.documents:
            self._of_document.setdefault(document, set()).add(file)
        self.held_bytes += file.num_bytes
        if header.root not in self._open_roots:
            self._unused.put(file, file.mtime_ns)

    def remove(self, file: CacheFile) -> None:
        """Takes a file out of the index, and marks it as removed."""
        file.is_removed = True
        header = file.header
        del self._by_key[header.key]
        _discard(self._of_root, header.root, file)
        for document in header.piece.documents:
            _discard(self._of_document, document, file)
        self.held_bytes -= file.num_bytes
        self._unused.discard(file)

    def open(self, root: bytes) -> list[CacheFile]:
        """Returns the files under a root, parents first; none of them counts as unused until `close`."""
        self._open_roots.add(root)
        files = self._of_root.get(root, ())
        for file in files:
            self._unused.discard(file)
        return sorted(files, key=lambda file: file.header.start)

    def close(self, root: bytes) -> None:
        """Counts the files under a root as unused, because its keeper has closed."""
        self._open_roots.discard(root)
        for file in self._of_root.get(root, ()):
            self._unused.put(file, file.mtime_ns)

    def leave(self, file: CacheFile) -> None:
        """Counts a file as unused, because the keeper of its root cannot use it."""
        self._unused.put(file, file.mtime_ns)

    def longest_unused(self) -> CacheFile | None:
        """Returns the least recently used file of models that are not open, or that an open model cannot use."""
        found = self._unused.lowest(lambda _: True)
        return found[0] if found else None

    def documents(self) -> frozenset[int]:
        """Returns all documents of which some file holds text."""
        return frozenset(self._of_document)

    def through(self, documents: Collection[int]) -> list[CacheFile]:
        """Returns every file that holds text of the documents, and every path through it, for all models."""
        holders = {file for document in documents for file in self._of_document.get(document, ())}
        found = []
        for root in {file.header.root for file in holders}:
            gone: set[bytes] = set()
            for file in sorted(self._of_root[root], key=lambda file: file.header.start):
                if file in holders or file.header.parent in gone:
                    gone.add(file.header.key)
                    found.append(file)
        return found


def _discard(files: dict[_Of, set[CacheFile]], of: _Of, file: CacheFile) -> None:
    files[of].discard(file)
    if not files[of]:
        del files[of]
