"""The start of a catalogue that replaces a lost one: the tables still hold rows of documents it does not know.

One that was damaged, moved away or put back from a copy leaves the vectors of what it does not have behind. They are
lent to the same texts when the folders are read again, and dropped when all of them have been.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.catalog.migrations import begin_anew
from engine.catalog.reader import CatalogReader

_GIVEN = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'documents'"


class BeginningReader(CatalogReader):
    """Knows whose the rows are that belong to no document."""

    @property
    def is_beginning(self) -> bool:
        """Whether tables and rows that nothing here is known of may be of a catalogue that is lost."""
        return self._database.row("SELECT 1 FROM beginning") is not None

    def meet_strangers(self, unknown: Collection[int]) -> None:
        """To be called at each start with the ids that the table has and the catalogue has not, before new ones.

        Ids that were never given here are of a later catalogue, in whose place a copy of before was put back.
        """
        with self._database.transaction() as writer:
            row = writer.execute("SELECT first_id, has_strangers FROM beginning").fetchone()
            if row is None and unknown and max(unknown) > writer.execute(_GIVEN).fetchone()[0]:
                begin_anew(writer)
                row = writer.execute("SELECT first_id, has_strangers FROM beginning").fetchone()
            if row is None or row["has_strangers"] is not None:
                return
            first_id = max([row["first_id"], *(one + 1 for one in unknown)])
            writer.execute("UPDATE beginning SET first_id = ?, has_strangers = ?", (first_id, bool(unknown)))
            # None of them is to become another file.
            writer.execute(
                "INSERT INTO sqlite_sequence (name, seq) SELECT 'documents', 0"
                " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'documents')"
            )
            writer.execute(
                "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'documents'", (max(unknown, default=0),)
            )

    def strangers_among(self, unknown: Collection[int]) -> frozenset[int]:
        """Those ids that a catalogue of before gave; the others were given, and removed, here."""
        row = self._database.row("SELECT first_id FROM beginning WHERE has_strangers")
        return frozenset() if row is None else frozenset(one for one in unknown if one < row["first_id"])

    def end_beginning(self) -> None:
        """Whatever nothing is known of is wanted by nobody from now on."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM beginning")
