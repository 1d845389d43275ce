"""Tests for engine.partitions.row_files: what joining files takes, and which of them is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.config import MemorySettings
from engine.memory.ledger import Ledger
from engine.partitions import row_files
from engine.partitions.row_files import RowFile, RowFiles
from engine.partitions.table import ChunkTable
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, chunk_row

FULL = 2**20


def of(*files: tuple[int, int], num_stored: int | None = None, row_bytes: float = 100.0) -> RowFiles:
    """Files by their living rows and their length, in the order in which they came."""
    made = [RowFile(number, num_rows, length) for number, (num_rows, length) in enumerate(files)]
    return RowFiles(made, sum(file.length for file in made) if num_stored is None else num_stored, row_bytes)


def room(num_written: int, num_others: int) -> int:
    return int(1.25 * 100.0 * (num_written + 0.15 * num_others))


@pytest.mark.parametrize(
    ("files", "num_written", "num_others"),
    [
        ([(1000, 1000), (20, 20)], 1020, 0),
        ([(100, 1000), (20, 20)], 120, 0),
        ([(100, 1000)], 100, 0),
        ([(1000, 1000)], 0, 1000),
        ([(FULL, FULL), (1000, 1000), (20, 20)], 1020, FULL),
        ([(FULL - 100, FULL), (20, 20)], 20, FULL - 100),
        ([(FULL // 2, FULL), (20, 20)], FULL // 2 + 20, 0),
        ([], 0, 0),
    ],
)
def test_room_is_wanted_for_what_is_written_anew(
    files: Sequence[tuple[int, int]], num_written: int, num_others: int
) -> None:
    assert of(*files).bytes_to_join == room(num_written, num_others)


@pytest.mark.parametrize(
    ("files", "num_unindexed", "are_apart", "can_be"),
    [
        ([], 0, True, True),
        ([(1000, 1000)], 0, True, True),
        # Nothing is joined with it.
        ([(1000, 1000)], 1000, True, True),
        ([(1000, 1000), (20, 20), (5, 5)], 25, True, True),
        ([(1000, 1000), (20, 20), (5, 5)], 5, False, True),
        ([(1000, 1000), (20, 20)], 0, False, True),
        # The largest is in no index yet, or is written anew for what was removed of it.
        ([(1000, 1000), (20, 20)], 1020, False, False),
        ([(20, 20), (1000, 1000)], 20, False, True),
        ([(800, 1000), (20, 20)], 20, False, False),
        ([(FULL, FULL), (1000, 1000), (20, 20)], 20, True, True),
    ],
)
def test_new_rows_are_apart_where_nothing_else_is_joined_with_them(
    files: Sequence[tuple[int, int]], num_unindexed: int, are_apart: bool, can_be: bool
) -> None:
    found = of(*files)
    assert (found.are_apart(num_unindexed), found.can_be_apart(num_unindexed)) == (are_apart, can_be)


def test_what_was_removed_at_the_end_of_a_file_counts_as_well() -> None:
    assert of((1000, 1000), (20, 20), num_stored=1020).are_apart(20)
    assert not of((1000, 1000), (20, 20), num_stored=1220).can_be_apart(20)


def test_the_files_of_a_table_are_told_by_where_its_rows_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_ROWS_PER_COMMIT", 3)
    table = ChunkTable.open(tmp_path, DIMENSIONS, IDENTITY, MemorySettings(), Ledger())
    for first, count in ((0, 30), (100, 4), (200, 5)):
        table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(first, first + count)})
    table.delete_documents([3, 202])
    found = RowFiles.of(table._table)
    statistics: Any = table._table.stats()
    assert len(found.files) == statistics["fragment_stats"]["num_fragments"] == 3
    assert [(file.num_rows, file.length) for file in found.files] == [(29, 30), (4, 4), (4, 5)]
    assert found.num_stored == 39

    before = {row.row_id: row.text for id_ in table.document_ids() for row in table.rows_of(id_)}
    found.set_apart(table._table)
    apart = RowFiles.of(table._table)
    assert (apart.files[0], sum(file.num_rows for file in apart.files)) == (found.files[0], 37)
    assert {file.number for file in apart.files[1:]}.isdisjoint(file.number for file in found.files)
    assert {row.row_id: row.text for id_ in table.document_ids() for row in table.rows_of(id_)} == before
    table.close()
