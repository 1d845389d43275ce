"""The start of a catalogue that replaces a lost one: the tables still hold rows of documents it does not know.

If a catalogue was damaged, moved away or restored from a backup, the tables still have vectors of documents that are
not in it. They are reused for the same texts when the folders are read again, and deleted once all have been read.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.catalog.migrations import begin_anew
from engine.catalog.reader import CatalogReader

_GIVEN = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'documents'"


class BeginningReader(CatalogReader):
    """Knows which rows without a document may come from a lost catalogue."""

    @property
    def is_beginning(self) -> bool:
        """Whether unknown tables and rows may come from a lost catalogue."""
        return self._database.row("SELECT 1 FROM beginning") is not None

    def meet_strangers(self, unknown: Collection[int]) -> None:
        """Records ids that are in the table but not in the catalogue; called at each start, before new ids are given.

        Ids higher than any given here come from a later catalogue, which was replaced by an older backup.
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
            # No new document may get one of these ids.
            writer.execute(
                "INSERT INTO sqlite_sequence (name, seq) SELECT 'documents', 0"
                " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'documents')"
            )
            writer.execute(
                "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'documents'", (max(unknown, default=0),)
            )

    def strangers_among(self, unknown: Collection[int]) -> frozenset[int]:
        """Returns those of the ids that a lost catalogue gave; the others were given and removed by this one."""
        row = self._database.row("SELECT first_id FROM beginning WHERE has_strangers")
        return frozenset() if row is None else frozenset(one for one in unknown if one < row["first_id"])

    def end_beginning(self) -> None:
        """Ends the search for rows of a lost catalogue: unknown rows may be deleted from now on."""
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM beginning")
