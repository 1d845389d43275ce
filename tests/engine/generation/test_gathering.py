"""Tests for engine.generation.gathering."""

from __future__ import annotations

from engine.generation.batching import Work
from engine.generation.gathering import MOST_BYTES, SECONDS_EACH, Gathering, room_to_move
from engine.generation.groups import SequenceGroup
from engine.generation.rows import TILE_TOKENS
from tests.engine.generation.test_residence import in_turn, lie_together
from tests.helpers.loop_parts import Parts, prompt


def gathering(parts: Parts, gap_seconds: float, room_bytes: int = 1 << 20) -> Gathering:
    return Gathering(parts.groups, parts.residence, parts.admission, gap_seconds, lambda: room_bytes)


def written(groups: list[SequenceGroup], num_tokens: int = 1) -> list[Work]:
    return [Work(group, group.lead, num_tokens, wants_token=True) for group in groups]


def num_batches_until_gathered(parts: Parts, gap_seconds: float, most: int = 1000, num_tokens: int = 1) -> int:
    groups = in_turn(parts, 4)
    gathered = gathering(parts, gap_seconds)
    for number in range(most):
        if all(map(lie_together, groups)):
            parts.check()
            return number
        gathered.note(written(groups, num_tokens))
        gathered.gather_if_due()
    return most


def test_cells_are_moved_when_scattered_ones_cost_as_much() -> None:
    parts = Parts()
    groups = in_turn(parts, 4)
    cost = parts.residence.rates.seconds(sum(map(parts.residence.own_bytes, groups))) + 4 * SECONDS_EACH
    num_gaps = sum(group.lead.held.num_gaps for group in groups)
    assert num_batches_until_gathered(Parts(), 1.01 * cost / num_gaps / 10) == 10
    assert num_batches_until_gathered(Parts(), 1.01 * cost / num_gaps / 40) == 40


def test_nothing_is_moved_where_gaps_cost_nothing() -> None:
    assert num_batches_until_gathered(Parts(), 0.0, most=50) == 50


def test_prompts_in_tiles_lose_nothing_by_gaps() -> None:
    assert num_batches_until_gathered(Parts(), 1.0, most=50, num_tokens=TILE_TOKENS // 4) == 50
    assert num_batches_until_gathered(Parts(), 1.0, most=50, num_tokens=TILE_TOKENS // 4 - 1) == 1


def test_what_moving_did_not_help_is_not_tried_again_and_again() -> None:
    parts = Parts()
    groups = in_turn(parts, 4)
    gathered = gathering(parts, 1.0)
    for _ in range(5):
        gathered.note(written(groups))
        gathered.gather_if_due()
    assert parts.context.num_saves == 4


def test_whose_cells_were_lost_is_computed_again() -> None:
    parts = Parts()
    groups = in_turn(parts, 2)
    parts.context.loads = False
    gathered = gathering(parts, 1.0)
    gathered.note(written(groups))
    gathered.gather_if_due()
    assert parts.groups.running == []
    assert set(parts.groups.waiting) == set(groups)
    parts.check()


def test_nothing_is_moved_where_memory_has_no_room_for_all() -> None:
    parts = Parts()
    groups = in_turn(parts, 4)
    num_bytes = sum(map(parts.residence.own_bytes, groups))
    for room_bytes, num_saves in ((num_bytes - 1, 0), (num_bytes, 4)):
        gathered = gathering(parts, 1.0, room_bytes)
        gathered.note(written(groups))
        gathered.gather_if_due()
        assert parts.context.num_saves == num_saves
    assert 0 < room_to_move() <= MOST_BYTES


def test_answers_that_share_cells_are_neither_moved_nor_charged_for() -> None:
    parts = Parts()
    forked = parts.running(prompt(60, 10), ((7, 8), (9, 10)))
    in_turn(parts, 2)
    for sequence in forked.sequences:
        sequence.held.num_gaps = 1e9
    gathered = gathering(parts, 1.0)
    gathered.note([Work(forked, sequence, 1) for sequence in forked.sequences])
    gathered.gather_if_due()
    assert parts.context.num_saves == 0


def test_what_those_lost_who_have_ended_is_not_charged_to_others() -> None:
    parts = Parts()
    groups = in_turn(parts, 4)
    gathered = gathering(parts, 1.0)
    gathered.note(written(groups))
    for group in groups:
        parts.residence.forget(group)
    parts.groups.running.clear()
    gathered.gather_if_due()
    in_turn(parts, 2)
    gathered.gather_if_due()
    assert parts.context.num_saves == 0
