"""Files of rows: LanceDB joins small ones by rewriting their rows; what that costs, and how to reduce it.

It joins files that lie beside each other and are in the same indices. So rows come into the indices without any other
being written, where all small files but one hold just these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lancedb.table import Table

# LanceDB's bounds: what is smaller is joined, and where more than that share was removed, a file is rewritten.
MOST_ROWS_OF_SMALL_FILES, MOST_REMOVED_SHARE = 2**20, 1 / 10
# Beside what is written, what writing it needs while it is under way.
_ROOM = 1.25
# Indices are rewritten for all rows; of a row's bytes they have about so much.
_INDEX_SHARE = 0.15
_PLACE_BITS = 32
_ROWS_PER_COMMIT = 2000


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file with `num_rows` that were not removed, the last of which is row number `length`; later ones came later."""

    number: int
    num_rows: int
    length: int

    @property
    def is_left_alone(self) -> bool:
        """Whether it is large enough, and has few enough removed rows."""
        return self.length >= MOST_ROWS_OF_SMALL_FILES and self.num_rows >= (1 - MOST_REMOVED_SHARE) * self.length


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Those of one version: `num_stored` rows are in them, with the removed ones, each of about `row_bytes`."""

    files: Sequence[RowFile]
    num_stored: int
    row_bytes: float

    @classmethod
    def of(cls, table: Table) -> RowFiles:
        """As they are now. Reads 16 bytes of each row; raises what LanceDB raises."""
        # WORKAROUND LanceDB 0.40.0: it declares objects here, and gives dictionaries.
        statistics: Any = table.stats()
        of_files = statistics["fragment_stats"]
        num_stored = int(of_files["num_fragments"] * of_files["lengths"]["mean"])
        return cls(_files_of(table), num_stored, statistics["total_bytes"] / max(1, num_stored))

    @property
    def bytes_to_join(self) -> int:
        """The room that it takes to join them, and to leave out what was removed."""
        is_done = len(self._small) < 2 and self.num_stored <= self._num_rows
        return self._room(0 if is_done else sum(file.num_rows for file in self._small))

    @property
    def bytes_to_set_apart(self) -> int:
        """The room for `set_apart`, and for joining what it wrote."""
        return self._room(2 * sum(file.num_rows for file in self._others))

    def are_apart(self, num_unindexed: int) -> bool:
        """Whether all small files but the largest have just the rows in no index, so that it is not rewritten."""
        others = self._others
        are_new = all(file.number > self._largest.number for file in others)
        is_all = not others or sum(file.num_rows for file in others) == num_unindexed
        return are_new and is_all and self.can_be_apart(num_unindexed)

    def can_be_apart(self, num_unindexed: int) -> bool:
        """Whether that is so after `set_apart`: the largest small file is in the indices, with little removed of it."""
        if not self._small:
            return True
        others = self._others
        # What was removed at the end of some file may be of this one.
        length = self._largest.length + max(0, self.num_stored - sum(file.length for file in self.files))
        is_whole = self._largest.num_rows >= (1 - MOST_REMOVED_SHARE) * length
        return is_whole and (not others or num_unindexed <= sum(file.num_rows for file in others))

    def set_apart(self, table: Table) -> None:
        """Has all rows of small files but the largest become new ones, which are in no index; they are the same."""
        numbers = [file.number for file in self._others]
        addresses = [found[np.isin(found >> _PLACE_BITS, numbers)] for found in _addresses(table)]
        wanted = np.concatenate(addresses) if addresses else np.zeros(0, np.int64)
        for start in range(0, len(wanted), _ROWS_PER_COMMIT):
            rows = table.take_row_ids(wanted[start : start + _ROWS_PER_COMMIT].tolist()).to_arrow()
            table.merge_insert("row_id").when_matched_update_all().execute(rows.select(table.schema.names))

    @property
    def _num_rows(self) -> int:
        return sum(file.num_rows for file in self.files)

    @property
    def _small(self) -> list[RowFile]:
        return [file for file in self.files if not file.is_left_alone]

    @property
    def _largest(self) -> RowFile:
        return max(self._small, key=lambda file: file.num_rows)

    @property
    def _others(self) -> list[RowFile]:
        largest = self._largest if self._small else None
        return [file for file in self._small if file != largest]

    def _room(self, num_written: int) -> int:
        return int(_ROOM * self.row_bytes * (num_written + _INDEX_SHARE * max(0, self._num_rows - num_written)))


def _files_of(table: Table) -> list[RowFile]:
    counts, lengths = dict[int, int](), dict[int, int]()
    for addresses in _addresses(table):
        numbers, places = addresses >> _PLACE_BITS, addresses & (2**_PLACE_BITS - 1)
        for number in np.unique(numbers).tolist():
            of_one = places[numbers == number]
            counts[number] = counts.get(number, 0) + len(of_one)
            lengths[number] = max(lengths.get(number, 0), int(of_one.max()) + 1)
    return [RowFile(number, counts[number], lengths[number]) for number in sorted(counts)]


def _addresses(table: Table) -> Iterator[NDArray[np.int64]]:
    """Where each row lies, in portions: its file's number, and its place in that."""
    for batch in table.search().with_row_id(True).select(["document_id"]).to_batches():
        yield batch.column("_rowid").to_numpy().astype(np.int64)
