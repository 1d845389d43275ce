"""Which vector table is active, which embedding model made it, and how far the library has moved to another one.

A table holds the vectors of one model. While the library moves, new and changed documents go to the table that
answers and are moved like the others, so nothing is missed; one transaction makes the other table the one that answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Row

from engine.catalog.reader import CatalogReader, id_list


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table in the library's folder: its own folder's name, and the model as the settings name it."""

    folder: str
    identity: str
    model: str
    dimensions: int

    @property
    def name(self) -> str:
        """The model's, for people."""
        return self.identity.rpartition("@")[0]


class IndexReader(CatalogReader):
    """Keeps account of tables and of the move from one to the next."""

    def active_table(self) -> VectorTable | None:
        """The table that answers; None before the first was made."""
        return _table(self._database.row("SELECT * FROM vector_tables WHERE is_active"))

    def next_table(self) -> VectorTable | None:
        """The table to which the library moves; None when it does not."""
        return _table(self._database.row("SELECT * FROM vector_tables WHERE NOT is_active"))

    def stored_identity(self) -> str:
        """Whose vectors the documents have, by what is noted of them; "" where there are none."""
        row = self._database.row("SELECT embedder FROM documents WHERE embedder != '' LIMIT 1")
        return str(row["embedder"]) if row is not None else ""

    def set_active_table(self, table: VectorTable) -> None:
        """The table that answers from now on, there being no other whose vectors are wanted."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM vector_tables WHERE is_active OR folder = ?", (table.folder,))
            self._add_table(table, is_active=True)

    def begin_move(self, table: VectorTable) -> None:
        """All documents are to be moved to `table`, whatever was moved before; none when it is the next one already."""
        if self.next_table() == table:
            return
        self.give_up_move()
        self._add_table(table, is_active=False)

    def give_up_move(self) -> None:
        """The library stays where it is."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM vector_tables WHERE NOT is_active")
            writer.execute("UPDATE documents SET moved = 0 WHERE moved")

    def ids_to_move(self, limit: int) -> tuple[int, ...]:
        """Some documents with rows that the next table does not have as they are now; small ones first."""
        rows = self._database.rows(
            "SELECT document_id FROM documents WHERE embedder != '' AND NOT moved"
            " ORDER BY num_chunks, document_id LIMIT ?",
            (limit,),
        )
        return tuple(row["document_id"] for row in rows)

    def mark_moved(self, document_ids: Iterable[int]) -> None:
        """Their rows are durable in the next table. What changes of them later takes that back."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET moved = 1 WHERE document_id IN (SELECT value FROM json_each(?))",
                (id_list(document_ids),),
            )

    def mark_unmoved(self, document_ids: Iterable[int]) -> None:
        """The next table turned out not to have them."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET moved = 0 WHERE document_id IN (SELECT value FROM json_each(?))",
                (id_list(document_ids),),
            )

    def ids_moved(self) -> frozenset[int]:
        """Documents whose rows the next table has, as they are now."""
        rows = self._database.rows("SELECT document_id FROM documents WHERE moved AND num_chunks", ())
        return frozenset(row["document_id"] for row in rows)

    def moved(self) -> tuple[int, int]:
        """How many documents are in the next table, of how many that are to be."""
        row = self._database.row("SELECT count(*) FILTER (WHERE moved), count(*) FROM documents WHERE embedder != ''")
        return (row[0], row[1]) if row is not None else (0, 0)

    def complete_move(self) -> bool:
        """Makes the next table the one that answers, if all documents are in it: at once, and for good."""
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
