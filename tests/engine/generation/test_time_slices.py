"""Tests for engine.generation.time_slices: which model's turn it is, and for how long."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.generation.time_slices import (
    MOST_PATIENCE,
    MOST_SWITCHING,
    MOST_WRITING_SECONDS,
    TOKENS_AHEAD,
    WRITING_BESIDE_SECONDS,
    LateTurns,
    Targets,
    Used,
    Waiting,
    begun,
    is_over,
    next_turn,
    quotas,
    waits_too_long,
)

TPOT = 0.25
TARGETS = Targets(8.0, TPOT)


def waiting(path: str = "a", rank: int = 0, since: float = 0.0, **facts: object) -> Waiting:
    return Waiting(path, rank, since, **facts)  # type: ignore[arg-type]


def by_hand(steps: list[float], switching: float) -> list[float]:
    """Aegaeon's equations, written down once more."""
    n = [TPOT / step for step in steps]
    alpha = max(switching / (min(n) * 4.0) + sum(1 / one for one in n), 0.5)
    return [switching / (one * (alpha - sum(1 / other for other in n))) for one in n]


@pytest.mark.parametrize(("steps", "switches"), [((0.1, 0.1), (0.01, 0.01)), ((0.1, 0.2, 0.05), (0.02, 0.03, 0.0))])
def test_a_turn_is_as_long_as_the_equations_say(steps: tuple[float, ...], switches: tuple[float, ...]):
    models = [
        waiting(str(number), step_seconds=step, switch_seconds=switch)
        for number, (step, switch) in enumerate(zip(steps, switches, strict=True))
    ]
    expected = by_hand(list(steps), sum(switches))
    got = quotas(models, TARGETS)
    worthwhile = sum(switches) * 4 / len(models)
    least = max(WRITING_BESIDE_SECONDS, worthwhile)
    assert list(got.values()) == pytest.approx([max(least, one) for one in expected])


def test_tokens_of_a_turn_last_until_the_next_one_where_there_is_capacity():
    chance = random.Random(5)
    tried = 0
    for _ in range(300):
        models = [
            waiting(str(number), step_seconds=chance.uniform(0.005, 0.12), switch_seconds=chance.uniform(0.05, 0.6))
            for number in range(chance.randint(2, 4))
        ]
        got = quotas(models, TARGETS)
        assert all(0 < seconds <= MOST_WRITING_SECONDS * 1.001 for seconds in got.values())
        load = sum(model.step_seconds / TPOT for model in models)
        switching = sum(model.switch_seconds for model in models)
        round_seconds = sum(got.values()) + switching
        assert switching <= round_seconds * max(MOST_SWITCHING, switching / (4 * len(models) + switching)) * 1.001 or (
            switching / len(models) * 4 > MOST_WRITING_SECONDS
        )
        if load < 0.4 and switching < 0.8:
            tried += 1
            slowest = min(got[model.path] / model.step_seconds * TPOT for model in models)
            assert round_seconds <= slowest * 2.5
    assert tried > 20


def test_a_turn_is_never_so_short_that_it_is_not_worth_a_step():
    assert quotas([waiting("a"), waiting("b")], TARGETS) == {"a": WRITING_BESIDE_SECONDS, "b": WRITING_BESIDE_SECONDS}


def test_who_has_waited_longest_is_next_and_people_go_first():
    assert next_turn([], TARGETS, 9.0) is None
    models = [waiting("a", since=5.0), waiting("b", since=3.0), waiting("c", rank=1, since=1.0)]
    assert next_turn(models, TARGETS, 9.0).path == "b"
    assert next_turn(models[2:], TARGETS, 9.0).path == "c"


def test_whose_next_token_is_due_first_is_next_and_who_has_written_ahead_can_wait():
    ahead, asked = waiting("a", since=1.0, dues=(30.0,)), waiting("b", since=8.0, dues=(40.0, 12.0))
    assert next_turn([ahead, asked], TARGETS, 9.0) is asked
    assert TARGETS.due_at(5.0, 4) == 5.0 + 8.0 + 1.0


def test_once_somebody_is_late_a_turn_goes_to_where_most_tokens_can_come_in_time():
    facts = {"step_seconds": 0.05}
    late, new = waiting("late", since=1.0, dues=(2.0,), **facts), waiting("new", since=20.0, dues=(28.0,), **facts)
    assert next_turn([late, new], TARGETS, 20.0) is new
    assert next_turn([late], TARGETS, 60.0) is late
    # Several answers are written in the time of one; and weights that are there need not come.
    two = waiting("two", since=9.0, dues=(28.0, 29.0), **facts)
    away = replace(two, path="away", since=8.0, switch_seconds=3.0)
    assert next_turn([late, new, two, away], TARGETS, 20.0) is two
    # A little late, and most of its tokens still come in time: it catches up.
    assert next_turn([waiting("soon", dues=(19.0, 19.0), **facts), new], TARGETS, 20.0).path == "soon"
    # Where no model gains anything, they take turns.
    lost = [waiting("a", since=5.0, dues=(-90.0,), **facts), waiting("b", since=3.0, dues=(-95.0,), **facts)]
    assert next_turn(lost, TARGETS, 20.0).path == "b"


def test_who_has_waited_too_long_has_a_turn_all_the_same():
    late, new = waiting("late", since=1.0, dues=(2.0,)), waiting("new", since=20.0, dues=(28.0,))
    assert next_turn([late, new], TARGETS, 20.0, is_for_late=True) is late
    patience = MOST_PATIENCE * TARGETS.ttft_seconds
    assert not waits_too_long([late, new], TARGETS, 2.0 + patience)
    assert waits_too_long([late, new], TARGETS, 2.1 + patience)
    # A less urgent one waits for all that are more urgent.
    assert not waits_too_long([replace(late, rank=1), new], TARGETS, 2.1 + patience)
    assert not waits_too_long([], TARGETS, 99.0)


def test_scripts_are_promised_nothing_and_waiting_makes_them_urgent():
    script, person = waiting("script", since=10.0), waiting("person", since=20.0, dues=(28.0,))
    assert next_turn([script, person], TARGETS, 20.0) is script
    # They are no reason to be late for readers.
    assert next_turn([replace(script, since=1.0), replace(person, dues=(19.0,))], TARGETS, 20.0).path == "person"


@pytest.mark.parametrize(
    ("late_by", "step", "in_time"),
    [
        (-1.0, 0.05, TOKENS_AHEAD),
        (0.0, 0.05, TOKENS_AHEAD),
        # It catches up a fifth of a second with each token.
        (4.0, 0.05, TOKENS_AHEAD - 20),
        (90.0, 0.05, 0),
        # Slower than promised: what it is ahead is used up.
        (-2.0, 0.5, 1 + 8),
        (0.1, 0.5, 0),
        (0.0, 0.25, TOKENS_AHEAD),
        (0.1, 0.25, 0),
    ],
)
def test_tokens_in_time_are_those_of_an_answer_written_from_now_on(late_by: float, step: float, in_time: float):
    assert TARGETS.tokens_in_time(100.0, 100.0 + late_by, step) == pytest.approx(in_time)
    # As they would come, one by one.
    counted = sum(100.0 + late_by + n * step <= 100.0 + n * TPOT + 1e-9 for n in range(TOKENS_AHEAD))
    assert abs(counted - in_time) <= 1


def test_a_question_is_late_from_when_its_answer_should_have_begun_until_patience_ends():
    asked_at, ttft = 100.0, TARGETS.ttft_seconds
    moments = {0.0: False, ttft: False, 1.1 * ttft: True, (1 + MOST_PATIENCE) * ttft: True, 8 * ttft: False}
    assert {at: TARGETS.is_late(asked_at, asked_at + at) for at in moments} == moments


def used(wrote: float = 0.0, read: float = 0.0, *, num_steps: int = 1, is_free: bool = False) -> Used:
    return Used(1.0, 8.0, read, wrote, num_steps, is_free)


def test_a_turn_ends_when_its_prompts_are_read_and_its_time_is_used():
    other = [waiting("b")]
    assert not is_over(waiting("a", num_unread=1), other, used(9.0, 1.0), TARGETS, 0.0)
    assert not is_over(waiting("a", since=1.0), other, used(0.5), TARGETS, 0.0)
    assert is_over(waiting("a", since=1.0), other, used(1.0), TARGETS, 0.0)
    assert not is_over(waiting("a", since=1.0), [], used(9.0), TARGETS, 0.0)
    # The others have written ahead.
    ahead = waiting("a", dues=(2.0,)), [waiting("b", dues=(3.0,))]
    assert not is_over(*ahead, used(9.0), TARGETS, 0.0)
    assert is_over(waiting("a", dues=(4.0,)), [waiting("b", dues=(3.0,))], used(9.0), TARGETS, 0.0)
    # But one that has waited too long has one turn of several, and as many has the one that goes on.
    assert is_over(*ahead, used(9.0), TARGETS, 0.0, owes_late=True)
    assert not is_over(*ahead, used(0.5), TARGETS, 0.0, owes_late=True)
    late = LateTurns(last_seconds=6.0).after(used(20.0), was_for_late=False)
    assert [late.is_due(used(wrote)) for wrote in (0.0, 21.9, 22.0)] == [False, False, True]
    assert late.after(used(9.0, 1.0), was_for_late=True) == LateTurns(10.0, 0.0)


def test_who_has_its_turn_for_having_waited_long_has_all_of_it():
    now_urgent = waiting("a", rank=0, is_aged=True)
    turn = begun(now_urgent, [now_urgent, waiting("b")], TARGETS, is_free=False)
    # It waits no more, so that its questions are as little urgent again as they were.
    assert not is_over(waiting("a", rank=1), [waiting("b")], turn, TARGETS, 0.0)
    assert not is_over(waiting("a", rank=1), [waiting("b")], replace(turn, num_steps=1), TARGETS, 0.0)
    written = replace(turn, num_steps=9, wrote_seconds=turn.quota_seconds)
    assert is_over(waiting("a", rank=1, since=1.0), [waiting("b")], written, TARGETS, 0.0)
    # Among its equals it is one of them again.
    assert is_over(waiting("a", rank=1, since=1.0), [waiting("b", rank=1)], written, TARGETS, 0.0)
    # One that was equally urgent all along gives way at once to a more urgent one.
    other = begun(waiting("a", rank=1), [waiting("a", rank=1)], TARGETS, is_free=False)
    assert is_over(waiting("a", rank=1), [waiting("b")], other, TARGETS, 0.0)


def test_no_turn_is_without_a_step_but_of_who_has_nothing_to_do():
    assert not is_over(waiting("a"), [waiting("b")], used(1.0, num_steps=0), TARGETS, 0.0)
    assert is_over(None, [waiting("b")], used(num_steps=0), TARGETS, 0.0)


def test_prompts_do_not_hold_answers_of_other_models_up_for_long():
    reading, writing = waiting("a", num_unread=3), [waiting("b", is_writing=True)]
    assert not is_over(reading, writing, used(0.0, 4.0), TARGETS, 0.0)
    assert is_over(reading, writing, used(0.0, 8.0), TARGETS, 0.0)
    # In memory together, they take turns with each step.
    assert is_over(reading, writing, used(0.0, 0.1, is_free=True), TARGETS, 0.0)
    # A prompt waits for others, but not for a whole backlog.
    assert not is_over(reading, [waiting("b")], used(0.0, 0.1, is_free=True), TARGETS, 0.0)
    assert is_over(reading, [waiting("b")], used(0.0, 8.0), TARGETS, 0.0)


def test_a_turn_counts_what_it_reads_and_writes_by_itself():
    models = [waiting("a", switch_seconds=1.0), waiting("b", switch_seconds=1.0)]
    turn = begun(models[0], models, TARGETS, is_free=False)
    assert (turn.quota_seconds, turn.reading_seconds) == (quotas(models, TARGETS)["a"], 8.0)
    turn = turn.with_step(2.0, is_reading=True).with_step(0.5, is_reading=False)
    assert (turn.read_seconds, turn.wrote_seconds, turn.num_steps, turn.is_free) == (2.0, 0.5, 2, False)
    assert begun(models[0], models, TARGETS, is_free=True) == Used(WRITING_BESIDE_SECONDS, 8.0)


def test_people_interrupt_a_turn_and_scripts_wait_for_its_end():
    assert is_over(waiting("a", rank=1, num_unread=3), [waiting("b", rank=0)], used(num_steps=0), TARGETS, 0.0)
    assert not is_over(waiting("a", rank=0), [waiting("b", rank=1)], used(9.0), TARGETS, 0.0)
