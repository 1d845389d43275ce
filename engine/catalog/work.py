"""Indexing work as the catalogue records it: what is read next, what was being read at a crash, and the total.

All of it survives a kill: priorities stay, progress continues from where it was, and a file that crashes the engine
repeatedly is identified and set aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from engine.catalog.reader import CatalogReader, id_list, span

# A crash while several documents are read makes each a suspect, which is then read alone; each crash alone adds one.
_SUSPECT, _CONVICTED = 1, 3
_IN_COMPANY, _ALONE = 1, 2


@dataclass(frozen=True, slots=True)
class Run:
    """The work of an indexing run at its start, and the number of chunks that had ever arrived by then."""

    documents_total: int
    bytes_total: int
    chunks_arrived: int


class WorkReader(CatalogReader):
    """Records in which order documents are read, and how much there is to do."""

    # --- order ---

    def prioritise(self, path: str) -> frozenset[int]:
        """Moves waiting documents at or below `path` before all others; returns their ids."""
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
        """Returns prioritised documents; those with the highest number come first."""
        rows = self._database.rows("SELECT document_id, priority FROM documents WHERE priority > 0")
        return {row["document_id"]: row["priority"] for row in rows}

    # --- crashes ---

    def mark_begun(self, document_ids: Iterable[int], *, alone: bool) -> None:
        """Records, before reading starts, what is read; `alone`: nothing else is, so a crash is due to these."""
        self._set_begun(document_ids, _ALONE if alone else _IN_COMPANY)

    def clear_begun(self, document_ids: Iterable[int]) -> None:
        """Records that reading them ended without a crash."""
        self._set_begun(document_ids, 0)

    def suspects(self) -> dict[int, int]:
        """Returns documents that were being read at a crash, to be read alone; those with a high number last."""
        rows = self._database.rows("SELECT document_id, suspicion FROM documents WHERE suspicion > 0")
        return {row["document_id"]: row["suspicion"] for row in rows}

    def judge_crashes(self) -> frozenset[int]:
        """Makes documents suspects that were being read at a crash; returns those to set aside. Called at the start.

        A document that is read, found unreadable or removed is no longer a suspect.
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

    # --- totals ---

    def begin_run(self, num_documents: int, num_bytes: int, *, goes_on: bool) -> Run:
        """Starts a run with this much work, and returns its totals; one that continues keeps its first totals."""
        with self._database.transaction() as writer:
            row = self._database.row("SELECT documents_total, bytes_total, chunks_arrived FROM run")
            if goes_on and row and row[0] >= num_documents and row[1] >= num_bytes:
                return Run(*row)
            run = Run(num_documents, num_bytes, self.num_chunks_arrived())
            writer.execute("DELETE FROM run")
            writer.execute("INSERT INTO run VALUES (?, ?, ?)", (num_documents, num_bytes, run.chunks_arrived))
            return run

    def end_run(self) -> None:
        """Ends the run."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM run")
