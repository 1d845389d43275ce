"""Linked folders in the catalogue: the state of each, and which of its documents are out of reach."""

from __future__ import annotations

import os
from dataclasses import dataclass

from engine.catalog.reader import CatalogReader, Root, span

# A document's `absence` is one of these if the user has to decide, or has decided, about it.
GONE_AT_ONCE = (
    "More than half of this folder's documents went missing at once. They are kept; remove them from the library "
    "if that was meant."
)
KEPT = "It is no longer there; you chose to keep what was read of it."

# While a folder is out of reach, nobody can tell whether its files have returned, so the user is not asked.
_UNDECIDED = (
    "absence = ? AND NOT EXISTS (SELECT 1 FROM roots r WHERE r.absence != ''"
    " AND documents.path >= r.first AND documents.path < r.last)"
)


@dataclass(frozen=True, slots=True)
class LinkedFolder:
    """A root with its number of documents, `num_gone` of which wait for the user's decision."""

    root: Root
    num_documents: int
    num_gone: int


class FolderReader(CatalogReader):
    """Queries about roots and documents that are out of reach."""

    def linked_folders(self) -> tuple[LinkedFolder, ...]:
        """Returns all roots, ordered by collection and path."""
        return tuple(self._linked(root) for root in self.roots())

    def count_under(self, path: str, is_folder: bool = True) -> int:
        """Counts the documents below a folder, or at a file's path, in any state."""
        first, last = span(path, is_folder)
        return self._count("SELECT count(*) FROM documents d WHERE d.path >= ? AND d.path < ?", (first, last))

    def paths_gone(self, folder: str) -> dict[int, str]:
        """Returns the documents at or below `folder` that wait for a decision; none while the folder is absent."""
        first, last = span(folder, is_folder=True)
        rows = self._database.rows(
            f"SELECT document_id, path FROM documents WHERE {_UNDECIDED} AND (path = ? OR (path >= ? AND path < ?))",
            (GONE_AT_ONCE, os.fsencode(folder), first, last),
        )
        return {row["document_id"]: os.fsdecode(row["path"]) for row in rows}

    def _linked(self, root: Root) -> LinkedFolder:
        first, last = span(root.path, root.is_folder)
        row = self._database.row(
            f"SELECT count(*), count(*) FILTER (WHERE {_UNDECIDED}) FROM documents WHERE path >= ? AND path < ?",
            (GONE_AT_ONCE, first, last),
        )
        return LinkedFolder(root, *(row if row is not None else (0, 0)))
