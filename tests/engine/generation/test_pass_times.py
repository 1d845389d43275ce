"""Tests for engine.generation.pass_times: whether prompts and answers share a pass that reads layers."""

from __future__ import annotations

from engine.generation.pass_times import PassTimes
from engine.generation.rows import Extent, cell_cost

# Of a 1B model.
CELL_COST = cell_cost(1_100_000_000, 16, 2048, in_own_order=True)
PROMPT = [Extent(113, 400)]
ANSWERS = [Extent(1, 420)] * 15
TOKEN_SECONDS = 0.004


def times(disk_seconds: float) -> PassTimes:
    """Of passes that read their layers for so long, after one over a prompt."""
    known = PassTimes(CELL_COST)
    computing = 128 * TOKEN_SECONDS
    waited = max(0.0, disk_seconds - computing)
    known.note([Extent(128, 128)], computing + waited, waited, disk_seconds, is_mixed=False)
    return known


def are_apart(known: PassTimes, answers: list[Extent]) -> bool:
    return known.are_faster_apart(PROMPT, answers, [*answers, *PROMPT])


def test_before_anything_was_measured_they_are_apart_once_which_tells() -> None:
    known = PassTimes(CELL_COST)
    assert are_apart(known, ANSWERS)
    known.note([Extent(128, 128)], 1.5, 1.0, 1.5, is_mixed=False)
    assert not are_apart(known, ANSWERS)


def test_a_prompt_beside_many_answers_takes_longer_than_both_by_themselves() -> None:
    assert are_apart(times(0.3), ANSWERS)


def test_while_layers_are_read_answers_beside_a_prompt_cost_nothing() -> None:
    assert not are_apart(times(1.5), ANSWERS)


def test_few_answers_are_not_worth_a_pass_of_their_own() -> None:
    assert not are_apart(times(0.3), ANSWERS[:2])


def test_where_mixed_passes_take_longer_than_was_reckoned_there_are_fewer_of_them() -> None:
    answers, known = ANSWERS[:5], times(0.3)
    assert not are_apart(known, answers)
    waited, reading = 0.0, 0.3
    for _ in range(5):
        reading += 0.3
        known.note([*answers, *PROMPT], 1.2, waited, reading, is_mixed=True)
    assert are_apart(known, answers)


def test_passes_of_few_tokens_say_nothing_of_how_long_many_take() -> None:
    known = times(0.3)
    for number in range(20):
        known.note([Extent(1, 400)], 0.5, 0.0, 0.3 * (number + 2), is_mixed=False)
    assert are_apart(known, ANSWERS) == are_apart(times(0.3), ANSWERS)


def test_what_was_read_for_another_context_is_no_time_of_a_pass() -> None:
    # The stream goes on under a new context, with all that it has read and that passes have waited.
    known = PassTimes(CELL_COST, 40.0, 90.0)
    known.note([Extent(128, 128)], 128 * TOKEN_SECONDS, 40.0, 90.3, is_mixed=False)
    assert are_apart(known, ANSWERS)


def test_what_passes_waited_for_is_no_computing() -> None:
    slow, known = PassTimes(CELL_COST), times(0.3)
    # The same model on a disk that took a second once.
    slow.note([Extent(128, 128)], 128 * TOKEN_SECONDS + 0.5, 0.5, 1.0, is_mixed=False)
    for number in range(30):
        slow.note([Extent(128, 128)], 128 * TOKEN_SECONDS, 0.5, 1.0 + 0.3 * (number + 1), is_mixed=False)
    assert are_apart(slow, ANSWERS) == are_apart(known, ANSWERS)
