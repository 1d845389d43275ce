"""Moves: which vanished document a new file is. Its id, its rows and its vectors stay; only the path changes."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Sequence

from engine.catalog import Catalog, Root
from engine.core import Document, FoundFile
from engine.library.changes import choose_moved, is_below
from engine.library.identities import has_its_name
from engine.library.mounts import is_connected
from engine.library.root_looks import answers
from engine.library.scanner import content_hash

Move = tuple[Document, FoundFile]
# For more files than this, the sizes of all contents that were read are loaded at once.
_MUCH = 1000


def find_moves(
    catalog: Catalog,
    new: Iterable[FoundFile],
    changed: Sequence[Move],
    known: Iterable[Document],
    missing: Iterable[Document],
) -> Generator[str, None, tuple[Move, ...]]:
    """Pairs files with the documents whose content they have; each document is used at most once.

    A document has moved if its file is gone, or if its file has another content now: two files may have swapped names.
    Only files whose size fits are read. Yields each path before it is read; the job can be stopped there.

    Args:
        catalog: Has the documents of all roots, also of those that were not looked at.
        new: Files at paths that no document has.
        changed: Documents, each with the file that is at its path now.
        known: The documents at the places that were looked at.
        missing: Those of `known` whose files were not found.
    """
    new = tuple(new)
    search = _Search(
        catalog,
        {one.document_id for one in known},
        {one.document_id for one in missing},
        changed,
        is_much=len(new) + len(changed) > _MUCH,
    )
    for file in new:
        if search.may_be_known(file):
            yield file.path
            search.look_for(file)
    for document, file in changed:
        if search.may_be_known(file) and search.was_displaced(document):
            yield file.path
            search.look_for(file)
    return tuple(search.moves)


class _Search:
    """The moves found so far, and what was read for them."""

    def __init__(
        self,
        catalog: Catalog,
        known: Collection[int],
        missing: Collection[int],
        changed: Sequence[Move],
        *,
        is_much: bool,
    ) -> None:
        """Prepares the search. `is_much`: so many files are looked for that loading all known sizes is quicker."""
        self._catalog, self._known, self._missing = catalog, known, missing
        self._sizes, self._roots = catalog.sizes_read() if is_much else None, catalog.roots()
        self._in_place = {document.document_id: file for document, file in changed}
        self._hashes: dict[str, str] = {}
        self._can_tell: dict[int, bool] = {}
        self._drives_away = [path for path, drive in catalog.mounts().items() if not is_connected(path, drive)]
        self._gone: dict[int, dict[str, list[Document]]] = {}
        self.moves: list[Move] = []

    def may_be_known(self, file: FoundFile) -> bool:
        size_bytes = file.size_bytes
        return self._catalog.has_read_size(size_bytes) if self._sizes is None else size_bytes in self._sizes

    def look_for(self, file: FoundFile) -> None:
        gone = self._gone_of_size(file.size_bytes)
        if not gone:
            return
        candidates = gone.get(self._hash(file), [])
        moved = choose_moved(file, candidates)
        if moved is not None:
            candidates.remove(moved)
            self.moves.append((moved, file))

    def _gone_of_size(self, size_bytes: int) -> dict[str, list[Document]]:
        """Returns displaced documents of a size, by content; cached, because thousands of files may have one size."""
        if size_bytes not in self._gone:
            gone = self._gone[size_bytes] = {}
            for document in self._catalog.documents_of_size(size_bytes):
                if self._is_gone(document):
                    gone.setdefault(document.content_hash, []).append(document)
        return self._gone[size_bytes]

    def _is_gone(self, document: Document) -> bool:
        if any(is_below(document.path, mount) for mount in self._drives_away) and not has_its_name(document.path):
            # Its drive is away, so the file that was found may be a copy.
            return False
        if document.document_id in self._known:
            return document.document_id in self._missing or self.was_displaced(document)
        # Its place was not looked at now: it counts as gone only if that is certain.
        return not has_its_name(document.path) and any(
            root.covers(document.path) and self._could_be_seen(root) for root in self._roots
        )

    def was_displaced(self, document: Document) -> bool:
        """Returns whether the file at a document's path has another content now."""
        file = self._in_place.get(document.document_id)
        if file is None or not document.content_hash:
            return False
        return file.size_bytes != document.size_bytes or self._hash(file) not in ("", document.content_hash)

    def _hash(self, file: FoundFile) -> str:
        """Returns the content's hash; "" for a file that cannot be read: indexing it will report why."""
        if file.path not in self._hashes:
            try:
                self._hashes[file.path] = content_hash(file.path)
            except OSError:
                self._hashes[file.path] = ""
        return self._hashes[file.path]

    def _could_be_seen(self, root: Root) -> bool:
        if root.root_id not in self._can_tell:
            self._can_tell[root.root_id] = stands(root) or is_surely_gone(root)
        return self._can_tell[root.root_id]


def stands(root: Root) -> bool:
    """Returns whether a root is a folder that is there, on the same drive as before, and not empty."""
    if not answers(root.path):
        return False
    try:
        with os.scandir(root.path) as entries:
            return root.is_folder and os.stat(root.path).st_dev == root.device and any(True for _ in entries)
    except OSError:
        return False


def is_surely_gone(root: Root) -> bool:
    """Returns whether a root is missing although its drive is there: it was moved or deleted, not disconnected."""
    if not answers(root.path) or os.path.lexists(root.path):
        return False
    above = os.path.dirname(root.path)
    while not os.path.lexists(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    try:
        return os.stat(above).st_dev == root.device
    except OSError:
        return False


def renamed_folder(path: str, place: str) -> tuple[str, str] | None:
    """Returns the outermost folder that was renamed, and its new path, given a file's old and new path."""
    found = None
    before, after = path.split(os.sep), place.split(os.sep)
    while before[-1:] == after[-1:] and len(before) > 1 and len(after) > 1:
        before.pop()
        after.pop()
        folder = os.sep.join(before)
        if folder and not os.path.lexists(folder):
            found = folder, os.sep.join(after)
    return found


def new_place(root: Root, moves: Iterable[Move]) -> str | None:
    """Returns the new path of a root that was moved as a whole; None if the moves out of it do not agree."""
    places = set[str | None]()
    for was, file in moves:
        tail = was.path[len(root.path) :]
        places.add(file.path[: -len(tail) or None] if file.path.endswith(tail) else None)
    return places.pop() if len(places) == 1 else None
