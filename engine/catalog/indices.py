"""Which vector table is active, which embedding model made it, and how far the library has moved to another one.

A table has the vectors of one model. During a move, new and changed documents go to the active table, and are moved
like the others, so none is missed. At the end, one transaction makes the other table active.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Row

from engine.catalog.reader import CatalogReader, id_list


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table in the library's folder; `folder` is its name, `model` the model as the settings name it."""

    folder: str
    identity: str
    model: str
    dimensions: int

    @property
    def name(self) -> str:
        """The name of the model, for users."""
        return self.identity.rpartition("@")[0]


class IndexReader(CatalogReader):
    """Records the tables and the move from one to the next."""

    def active_table(self) -> VectorTable | None:
        """Returns the table that is searched; None before the first one exists."""
        return _table(self._database.row("SELECT * FROM vector_tables WHERE is_active"))

    def next_table(self) -> VectorTable | None:
        """Returns the table to which the library moves; None if it does not."""
        return _table(self._database.row("SELECT * FROM vector_tables WHERE NOT is_active"))

    def stored_identity(self) -> str:
        """Returns the identity of the model recorded for the documents' vectors; "" if there are none."""
        row = self._database.row("SELECT embedder FROM documents WHERE embedder != '' LIMIT 1")
        return str(row["embedder"]) if row is not None else ""

    def set_active_table(self, table: VectorTable) -> None:
        """Makes this table the active one, without moving documents from another."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM vector_tables WHERE is_active OR folder = ?", (table.folder,))
            self._add_table(table, is_active=True)

    def begin_move(self, table: VectorTable) -> None:
        """Starts moving all documents to `table`; does nothing if it is the next one already."""
        if self.next_table() == table:
            return
        self.give_up_move()
        self._add_table(table, is_active=False)

    def give_up_move(self) -> None:
        """Ends the move; the active table stays."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM vector_tables WHERE NOT is_active")
            writer.execute("UPDATE documents SET moved = 0 WHERE moved")

    def ids_to_move(self, limit: int) -> tuple[int, ...]:
        """Returns some documents that are not moved yet, or have changed since; small ones first."""
        rows = self._database.rows(
            "SELECT document_id FROM documents WHERE embedder != '' AND NOT moved"
            " ORDER BY num_chunks, document_id LIMIT ?",
            (limit,),
        )
        return tuple(row["document_id"] for row in rows)

    def mark_moved(self, document_ids: Iterable[int]) -> None:
        """Marks documents whose rows are durable in the next table. A later change of a document resets the mark."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET moved = 1 WHERE document_id IN (SELECT value FROM json_each(?))",
                (id_list(document_ids),),
            )

    def mark_unmoved(self, document_ids: Iterable[int]) -> None:
        """Resets the mark of documents that the next table does not have."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET moved = 0 WHERE document_id IN (SELECT value FROM json_each(?))",
                (id_list(document_ids),),
            )

    def ids_moved(self) -> frozenset[int]:
        """Returns the documents whose present rows are in the next table."""
        rows = self._database.rows("SELECT document_id FROM documents WHERE moved AND num_chunks", ())
        return frozenset(row["document_id"] for row in rows)

    def moved(self) -> tuple[int, int]:
        """Returns how many documents are in the next table, and how many have to be."""
        row = self._database.row("SELECT count(*) FILTER (WHERE moved), count(*) FROM documents WHERE embedder != ''")
        return (row[0], row[1]) if row is not None else (0, 0)

    def complete_move(self) -> bool:
        """Makes the next table the active one if all documents are in it; returns whether it did."""
        with self._database.transaction() as writer:
            following = self.next_table()
            if following is None or self.ids_to_move(1):
                return False
            writer.execute("DELETE FROM vector_tables WHERE is_active")
            writer.execute("UPDATE vector_tables SET is_active = 1")
            writer.execute("UPDATE documents SET moved = 0 WHERE moved")
            writer.execute("UPDATE documents SET embedder = ? WHERE embedder != ''", (following.identity,))
            return True

    def _add_table(self, table: VectorTable, *, is_active: bool) -> None:
        with self._database.transaction() as writer:
            writer.execute(
                "INSERT INTO vector_tables (folder, identity, model, dimensions, is_active) VALUES (?, ?, ?, ?, ?)",
                (table.folder, table.identity, table.model, table.dimensions, is_active),
            )


def _table(row: Row | None) -> VectorTable | None:
    return None if row is None else VectorTable(row["folder"], row["identity"], row["model"], row["dimensions"])
