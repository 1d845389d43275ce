"""Files of rows: LanceDB joins small ones by rewriting their rows; what that costs, and how to reduce it.

LanceDB joins adjacent files that are in the same indices. So new rows can be indexed without rewriting any others if
all small files but one contain only these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lancedb.table import Table

# LanceDB's limits: smaller files are joined, and a file of which a larger share was removed is rewritten.
MOST_ROWS_OF_SMALL_FILES, MOST_REMOVED_SHARE = 2**20, 1 / 10
# The disk space that writing needs, relative to what is written.
_ROOM = 1.25
# Indices are rewritten for all rows; this is their size relative to the rows.
_INDEX_SHARE = 0.15
_PLACE_BITS = 32
_ROWS_PER_COMMIT = 2000


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file with `num_rows` rows that were not removed, the last at `length` - 1. Numbers rise with time."""

    number: int
    num_rows: int
    length: int

    @property
    def is_left_alone(self) -> bool:
        """Whether LanceDB leaves it unchanged: it is large and has few removed rows."""
        return self.length >= MOST_ROWS_OF_SMALL_FILES and self.num_rows >= (1 - MOST_REMOVED_SHARE) * self.length


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of one version: `num_stored` rows in all, including removed ones, each of about `row_bytes`."""

    files: Sequence[RowFile]
    num_stored: int
    row_bytes: float

    @classmethod
    def of(cls, table: Table) -> RowFiles:
        """Returns the present files. Reads 16 bytes of each row; raises what LanceDB raises."""
        # WORKAROUND LanceDB 0.40.0: it declares objects here, and gives dictionaries.
        statistics: Any = table.stats()
        of_files = statistics["fragment_stats"]
        num_stored = int(of_files["num_fragments"] * of_files["lengths"]["mean"])
        return cls(_files_of(table), num_stored, statistics["total_bytes"] / max(1, num_stored))

    @property
    def bytes_to_join(self) -> int:
        """The disk space needed to join them without the removed rows."""
        is_done = len(self._small) < 2 and self.num_stored <= self._num_rows
        return self._room(0 if is_done else sum(file.num_rows for file in self._small))

    @property
    def bytes_to_set_apart(self) -> int:
        """The disk space needed for `set_apart`, and for joining what it wrote."""
        return self._room(2 * sum(file.num_rows for file in self._others))

    def are_apart(self, num_unindexed: int) -> bool:
        """Returns whether all small files but the largest contain only unindexed rows, so that it is not rewritten."""
        others = self._others
        are_new = all(file.number > self._largest.number for file in others)
        is_all = not others or sum(file.num_rows for file in others) == num_unindexed
        return are_new and is_all and self.can_be_apart(num_unindexed)

    def can_be_apart(self, num_unindexed: int) -> bool:
        """Returns whether `set_apart` can do that: the largest small file is indexed, with few removed rows."""
        if not self._small:
            return True
        others = self._others
        # Rows removed at the end of a file are not in its length; all of them may be of this file.
        length = self._largest.length + max(0, self.num_stored - sum(file.length for file in self.files))
        is_whole = self._largest.num_rows >= (1 - MOST_REMOVED_SHARE) * length
        return is_whole and (not others or num_unindexed <= sum(file.num_rows for file in others))

    def set_apart(self, table: Table) -> None:
        """Rewrites the rows of all small files but the largest unchanged, as new rows that are in no index."""
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
    """Yields the addresses of all rows, in batches: the number of the file, and the position in it."""
    for batch in table.search().with_row_id(True).select(["document_id"]).to_batches():
        yield batch.column("_rowid").to_numpy().astype(np.int64)
