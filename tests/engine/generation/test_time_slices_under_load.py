"""Tests for engine.generation.time_slices under load: how much comes in time, and that no model waits for ever."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from engine.generation.time_slices import (
    LATE_SHARE,
    MOST_PATIENCE,
    LateTurns,
    NextTurn,
    Targets,
    Used,
    Waiting,
    is_over,
    turn_after,
)
from tests.helpers.simulated_turns import Machine, Next, Question, Turns, goodput, load

TARGETS = Targets(10.0, 0.25)
# Of one such machine, without any switch: what the load is measured by.
CAPACITY = 1 / (325 * Machine.read_s + 110 * (Machine.step_s + Machine.each_s))


def in_turn(
    current: Waiting | None, others: Sequence[Waiting], used: Used, late: LateTurns, targets: Targets, now: float
) -> NextTurn | None:
    """The model that has waited longest is next, whatever was promised."""
    if not is_over(current, others, used, targets, now, owes_late=True):
        return None
    return NextTurn(min(others, key=lambda one: one.since), False)


def come_to(decide: Next, share: float, seconds: float = 300.0) -> float:
    told = []
    for seed in range(3):
        asked = load(share * CAPACITY, seconds, 7, seed)
        Turns(asked, Machine(), TARGETS, decide).run(max(TARGETS.due_at(one.asked_at, one.answer) for one in asked))
        told.append(goodput(asked, TARGETS))
    return statistics.fmean(told)


@pytest.mark.parametrize(("share", "gain"), [(0.6, 1.0), (1.0, 1.0), (2.0, 1.5), (3.0, 1.5)])
def test_more_comes_in_time_than_in_turn_and_the_more_there_is_to_do_the_more_so(share: float, gain: float):
    assert come_to(turn_after, share) >= 0.99 * gain * come_to(in_turn, share)


def test_where_there_is_capacity_all_comes_in_time():
    assert come_to(turn_after, 0.4) > 0.98


def test_two_answers_are_both_read_at_the_promised_pace():
    machine = Machine(step_s=0.1, each_s=0.0, switch_s=0.57, num_resident=1)
    asked = [Question(model, 0.0, 40, 400) for model in range(2)]
    turns = Turns(asked, machine, TARGETS)
    turns.run(1000.0)
    for one in asked:
        assert all(at <= one.told[0] + n * TARGETS.tpot_seconds for n, at in enumerate(one.told))


def test_nobody_waits_for_ever_beside_others_who_can_be_served_in_time():
    # One question to a model that gets no others, and more for another one than can be answered.
    asked = load(1.5 * CAPACITY, 400.0, 1, seed=1)
    alone = Question(1, 20.0, 300, 100)
    Turns([*asked, alone], Machine(num_resident=1), TARGETS).run(400.0)
    assert alone.has_ended
    assert alone.told[0] - alone.asked_at < (MOST_PATIENCE + 2) * TARGETS.ttft_seconds + 20 / LATE_SHARE
