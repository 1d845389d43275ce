"""Indexing work as the catalogue records it: what is read next, what was being read at a crash, and the total.

All of it outlives a kill: a priority holds, progress goes on from where it was, and a file that ends the engine again
and again is found out and set aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from engine.catalog.reader import CatalogReader, id_list, span

# A crash in company makes a document a suspect, which is then read alone; each crash alone counts one more.
_SUSPECT, _CONVICTED = 1, 3
_IN_COMPANY, _ALONE = 1, 2


@dataclass(frozen=True, slots=True)
class Run:
    """What an indexing run had before it at its beginning, and the chunks that had ever arrived by then."""

    documents_total: int
    bytes_total: int
    chunks_arrived: int


class WorkReader(CatalogReader):
    """Keeps order and account of what is to be read."""

    # --- order ---

    def prioritise(self, path: str) -> frozenset[int]:
        """What waits at or below `path` is to be read before all else; returns the ids of these documents."""
        first, last = span(path, is_folder=True)
        where = "state = 'pending' AND absence = '' AND (path = ? OR (path >= ? AND path < ?))"
        parameters = (os.fsencode(path), first, last)
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET priority = (SELECT coalesce(max(priority), 0) + 1 FROM documents"
                f" WHERE priority > 0) WHERE {where}",
                parameters,
            )
            return self._ids(f"SELECT document_id FROM documents WHERE {where}", parameters)

    def priorities(self) -> dict[int, int]:
        """The documents that were prioritised; those with the highest number come first."""
        rows = self._database.rows("SELECT document_id, priority FROM documents WHERE priority > 0")
        return {row["document_id"]: row["priority"] for row in rows}

    # --- what ends the engine ---

    def mark_begun(self, document_ids: Iterable[int], *, alone: bool) -> None:
        """These are being read; `alone`: nothing else is, so that a crash is theirs. Before reading them, not after."""
        self._set_begun(document_ids, _ALONE if alone else _IN_COMPANY)

    def clear_begun(self, document_ids: Iterable[int]) -> None:
        """Reading them was left without a crash."""
        self._set_begun(document_ids, 0)

    def suspects(self) -> dict[int, int]:
        """Documents during which the engine ended, to be read alone; the higher the number, the later."""
        rows = self._database.rows("SELECT document_id, suspicion FROM documents WHERE suspicion > 0")
        return {row["document_id"]: row["suspicion"] for row in rows}

    def judge_crashes(self) -> frozenset[int]:
        """To be called at the start: what was being read is suspected from now on; returns whom to set aside.

        A document that is read (or found unreadable, or removed) is a suspect no longer.
        """
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET suspicion = max(suspicion, ?) + (begun = ?), begun = 0 WHERE begun != 0",
                (_SUSPECT, _ALONE),
            )
            convicted = "SELECT document_id FROM documents WHERE state = 'pending' AND suspicion >= ?"
            return self._ids(convicted, (_CONVICTED,))

    def _set_begun(self, document_ids: Iterable[int], begun: int) -> None:
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET begun = ? WHERE state = 'pending' AND begun != ?"
                " AND document_id IN (SELECT value FROM json_each(?))",
                (begun, begun, id_list(document_ids)),
            )

    # --- account ---

    def begin_run(self, num_documents: int, num_bytes: int, *, goes_on: bool) -> Run:
        """The account of a run that has so much before it; one that goes on keeps what it had at its beginning."""
        with self._database.transaction() as writer:
            row = self._database.row("SELECT documents_total, bytes_total, chunks_arrived FROM run")
            if goes_on and row and row[0] >= num_documents and row[1] >= num_bytes:
                return Run(*row)
            run = Run(num_documents, num_bytes, self.num_chunks_arrived())
            writer.execute("DELETE FROM run")
            writer.execute("INSERT INTO run VALUES (?, ?, ?)", (num_documents, num_bytes, run.chunks_arrived))
            return run

    def end_run(self) -> None:
        """Nothing of the run is left to do, or wanted."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM run")
