"""Tests for engine.generation.cells."""

from __future__ import annotations

import pytest

from engine.errors import NoCells
from engine.generation.cells import FAR_CELLS, Cells, CellSequence


def test_free_and_used_cells_make_all() -> None:
    cells = Cells(100, 4)
    sequence = cells.open()
    cells.grow(sequence, 30)
    cells.grow(sequence, 1)
    assert (cells.num_free, cells.num_used, sequence.num_cells, sequence.end) == (69, 31, 31, 31)
    cells.trim(sequence, 10)
    assert (cells.num_free, sequence.end) == (90, 10)
    cells.close(sequence)
    assert (cells.num_free, cells.num_free_slots) == (100, 4)
    cells.check_integrity([])


def test_more_than_is_free_is_refused_and_changes_nothing() -> None:
    cells = Cells(10, 1)
    sequence = cells.open()
    with pytest.raises(NoCells):
        cells.grow(sequence, 11)
    with pytest.raises(NoCells):
        cells.open()
    assert (cells.num_free, sequence.num_cells) == (10, 0)


def test_shared_cells_are_free_when_the_last_holder_leaves() -> None:
    cells = Cells(100, 4)
    first, second = cells.open(), cells.open()
    cells.grow(first, 20)
    cells.share(first, second, 0, 15)
    cells.grow(second, 5)
    assert cells.num_used == 25
    assert (cells.num_private(first), cells.num_private(second)) == (5, 5)
    assert cells.num_distinct([first, second]) == 25
    cells.close(first)
    assert cells.num_used == 20
    cells.check_integrity([second])
    cells.close(second)
    assert cells.num_free == 100


def test_a_part_is_shared_where_the_target_ends() -> None:
    cells = Cells(100, 4)
    source, part, target = cells.open(), cells.open(), cells.open()
    cells.grow(source, 20)
    cells.share(source, part, 5, 15)
    assert (part.start, part.end) == (5, 15)
    cells.share(source, target, 0, 5)
    cells.share(part, target, 5, 12)
    assert target.end == 12
    for start, end in [(0, 3), (13, 14), (12, 16)]:
        with pytest.raises(ValueError, match="does not follow"):
            cells.share(part, target, start, end)


def test_what_a_request_shares_with_others_is_told_from_what_is_its_own() -> None:
    cells = Cells(100, 6)
    kept, lead, other = cells.open(), cells.open(), cells.open()
    cells.grow(kept, 10)
    cells.share(kept, lead, 0, 8)
    cells.grow(lead, 6)
    cells.share(lead, other, 0, 14)
    assert cells.shared_end([lead, other]) == 8
    assert cells.shared_end([lead]) == 14
    cells.close(kept)
    assert cells.shared_end([lead, other]) == 0


def test_a_leak_is_found() -> None:
    cells = Cells(10, 2)
    sequence = cells.open()
    cells.grow(sequence, 3)
    with pytest.raises(AssertionError, match="3 holds are counted"):
        cells.check_integrity([])
    sequence.cells.pop()
    with pytest.raises(AssertionError):
        cells.check_integrity([sequence])


def taken_in_turn(cells: Cells, count: int, num_tokens: int) -> list[CellSequence]:
    sequences = [cells.open() for _ in range(count)]
    for _ in range(num_tokens):
        for sequence in sequences:
            cells.grow(sequence, 1)
    return sequences


def test_the_first_free_cells_are_taken() -> None:
    cells = Cells(40, 4)
    first, second = cells.open(), cells.open()
    cells.grow(first, 10)
    cells.grow(second, 10)
    cells.close(first)
    third = cells.open()
    cells.grow(third, 12)
    assert third.cells == [*range(10), 20, 21]


@pytest.mark.parametrize("by", [1, 3])
def test_gaps_are_counted_where_a_sequence_goes_on_elsewhere_near_ones_in_part(by: int) -> None:
    cells = Cells(400, 8)
    (alone,) = taken_in_turn(cells, 1, 20)
    assert alone.num_gaps == 0
    for sequence in taken_in_turn(cells, 4, 10):
        assert sequence.num_gaps == pytest.approx(9 * 3 / FAR_CELLS)
        cells.trim(sequence, 4)
        assert sequence.num_gaps == pytest.approx(3 * 3 / FAR_CELLS)
        cells.trim(sequence, 0)
        assert sequence.num_gaps == 0
    wall = cells.open()
    cells.grow(wall, 100)
    cells.grow(alone, by)
    assert alone.num_gaps == 1
    cells.grow(wall, 100)
    cells.grow(alone, 150 - by)
    assert alone.num_gaps == 2


def test_what_is_shared_has_no_gaps_of_its_own() -> None:
    cells = Cells(100, 4)
    first, _ = taken_in_turn(cells, 2, 10)
    other = cells.open()
    cells.share(first, other, 0, 10)
    assert other.num_gaps == 0
    cells.trim(other, 5)
    assert other.num_gaps == 0
