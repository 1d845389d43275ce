"""Tests for engine.memory.spread."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.memory.spread import SLOT_ALIGNMENT_BYTES, Spread

MIB = 2**20
SPREAD = Spread.of([10 * MIB] * 32)


@pytest.mark.parametrize("num_layers", [1, 2, 3, 31, 32, 80])
def test_every_layer_but_the_first_has_its_turn(num_layers: int):
    assert sorted(Spread.of([MIB] * num_layers).order) == list(range(1, num_layers))


@pytest.mark.parametrize("count", [4, 8, 12, 16, 24])
def test_streamed_layers_lie_evenly_between_the_others(count: int):
    gaps = [after - before for before, after in pairwise(SPREAD.layers(count))]
    assert max(gaps) <= 2 * -(-32 // count)


def test_one_layer_more_moves_just_that_layer():
    for count in range(1, 31):
        assert len(set(SPREAD.layers(count + 1)) ^ set(SPREAD.layers(count))) == 1


def test_as_few_are_streamed_as_memory_allows():
    count = SPREAD.fewest_streamed(200 * MIB, 2)
    assert count is not None
    assert SPREAD.total_bytes - SPREAD.streamed_bytes[count] + 2 * SPREAD.slot_bytes <= 200 * MIB
    assert SPREAD.total_bytes - SPREAD.streamed_bytes[count - 1] + 2 * SPREAD.slot_bytes > 200 * MIB


@pytest.mark.parametrize("left_mib", range(0, 41, 2))
def test_of_the_last_streamed_layer_as_many_stages_stay_as_have_room(left_mib: int):
    spread = Spread.of([40 * MIB] * 8, 10 * MIB)
    pinned = spread.total_bytes - spread.streamed_bytes[4]
    room_bytes = pinned + 2 * spread.slot_bytes + left_mib * MIB
    assert spread.stages_beside(4, room_bytes, 2) == min(3, left_mib // 10)
    # Of more there is more in memory, whether whole layers or stages.
    count = spread.fewest_streamed(room_bytes, 2)
    assert count is not None
    part = spread.stages_beside(count, room_bytes, 2)
    kept = spread.total_bytes - spread.streamed_bytes[count] + part * spread.stage_bytes
    assert 0 <= room_bytes - 2 * spread.slot_bytes - kept < spread.stage_bytes


def test_layers_that_do_not_come_apart_stay_as_a_whole_or_not_at_all():
    spread = Spread.of([40 * MIB] * 8)
    assert [spread.stages_beside(4, left * MIB, 1) for left in range(0, 400, 10)] == [0] * 40


def test_what_a_ring_would_hold_is_no_part_that_stays():
    spread = Spread.of([40 * MIB] * 8, 10 * MIB)
    assert spread.stages_beside(1, 10**12, 1) == 2
    assert spread.stages_beside(1, 10**12, 3) == 0


def test_a_ring_never_holds_all_that_it_streams():
    assert SPREAD.fewest_streamed(10**12, 3) == 4


def test_without_room_for_the_first_layer_and_a_slot_nothing_can_be_streamed():
    assert SPREAD.fewest_streamed(20 * MIB, 1) == 31
    assert SPREAD.fewest_streamed(20 * MIB - 1, 1) is None


def test_slots_are_as_large_as_the_largest_layer_and_begin_at_huge_pages():
    assert Spread.of([MIB, 3 * MIB]).slot_bytes == 2 * SLOT_ALIGNMENT_BYTES
