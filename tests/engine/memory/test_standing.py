"""Tests for engine.memory.standing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from engine.config import MIB
from engine.memory.demand import Demand
from engine.memory.ladder import LadderState, Rung
from engine.memory.placement import Placement
from engine.memory.standing import CALM_SECONDS, MAX_CALM_SECONDS, Pace, Standing
from tests.engine.memory.test_ladder import DEMAND, PLACEMENT

LESS = Rung("ram", "cold_partitions", "Less.", "More.", bound=300 * MIB)


class Stairs:
    """A ladder to walk on: the placement is what is left of it."""

    def __init__(self) -> None:
        self.standing = Standing()
        self.placement: Placement = PLACEMENT
        self.demand: Demand = DEMAND

    def state(self) -> LadderState:
        return LadderState(self.demand, self.placement, self.standing.given_up)

    def move(self, level: str, now: float) -> str:
        move = self.standing.move("ram", level, self.state, now)
        if move is None:
            return ""
        if move.kind == "given_up":
            self.placement = replace(self.placement, kv_ram_bytes=move.rung.bound)
        return move.kind


def test_what_may_not_be_lost_any_more_is_not_done_without():
    standing = Standing()
    lossy = Rung("ram", "kv_8bit", "Less exact.", "Exact.")
    standing.give_up(LESS, 0.0)
    standing.give_up(lossy, 1.0)
    standing.forget_losses()
    assert standing.given_up == (LESS,)


def test_nothing_moves_while_all_is_well():
    stairs = Stairs()
    assert [stairs.move("none", float(second)) for second in range(200)] == [""] * 200


def test_one_goes_down_every_other_second_and_faster_when_nothing_goes_on():
    stairs = Stairs()
    assert [stairs.move("some", second / 2) for second in range(5)] == ["given_up", "", "", "", "given_up"]
    hurried = Stairs()
    assert [hurried.move("full", second / 2) for second in range(2)] == ["given_up"] * 2


def test_nothing_goes_down_while_what_went_before_is_refused():
    stairs = Stairs()
    assert stairs.standing.move("ram", "full", stairs.state, 0.0, may_fall=False) is None
    assert stairs.standing.given_up == ()
    assert stairs.move("full", 0.5) == "given_up"


def test_one_goes_up_only_after_a_calm_time_and_one_at_a_time():
    stairs = Stairs()
    stairs.move("some", 0.0)
    stairs.move("some", 2.0)
    stairs.move("none", 3.0)
    moves = {now: stairs.move("none", float(now)) for now in range(4, 80)}
    ups = [now for now, move in moves.items() if move == "taken_back"]
    assert ups == [3 + CALM_SECONDS, 3 + 2 * CALM_SECONDS]
    assert stairs.standing.given_up == ()


def test_pressure_in_between_starts_the_calm_time_anew():
    pace = Pace().fallen(0.0).seen("none", 1.0)
    assert not pace.may_climb(CALM_SECONDS)
    assert pace.may_climb(1.0 + CALM_SECONDS)
    assert not pace.seen("some", 20.0).seen("none", 21.0).may_climb(1.0 + CALM_SECONDS)


def test_each_relapse_doubles_the_patience_up_to_an_end_and_each_step_up_that_holds_halves_it():
    pace, now = Pace(), 0.0
    waits = []
    for _ in range(7):
        waits.append(pace.patience_s)
        now += pace.patience_s
        pace, now = pace.climbed(now).fallen(now + 1.0), now + 1.0
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, MAX_CALM_SECONDS, MAX_CALM_SECONDS]
    pace = pace.climbed(now + MAX_CALM_SECONDS)
    assert pace.patience_s == MAX_CALM_SECONDS
    assert pace.climbed(now + 2 * MAX_CALM_SECONDS).patience_s == MAX_CALM_SECONDS / 2
    assert pace.fallen(now + 2 * MAX_CALM_SECONDS).patience_s == MAX_CALM_SECONDS / 2


def test_what_could_not_be_had_is_given_up_again_and_tried_later_each_time():
    stairs, now, tried = Stairs(), 0.0, []
    stairs.standing.give_up(LESS, now)
    for _ in range(3):
        while stairs.move("none", now) != "taken_back":
            now += 1.0
        tried.append(now)
        # However long trying it takes.
        now += 300.0
        assert stairs.standing.fail_trial(now) == (LESS,)
        assert stairs.standing.given_up == (LESS,)
    assert [later - earlier - 300.0 for earlier, later in pairwise(tried)] == [2 * CALM_SECONDS, 4 * CALM_SECONDS]


def test_what_is_there_is_not_given_up_for_what_fails_later():
    stairs = Stairs()
    stairs.standing.give_up(LESS, 0.0)
    stairs.move("none", 1.0)
    assert stairs.move("none", 1.0 + CALM_SECONDS) == "taken_back"
    stairs.standing.pass_trial()
    assert stairs.standing.fail_trial(100.0) == ()
    assert stairs.standing.given_up == ()


def test_what_no_plan_has_a_word_for_cannot_have_failed_with_one():
    stairs = Stairs()
    stairs.standing.give_up(replace(LESS, kind="idle_model"), 0.0)
    stairs.move("none", 1.0)
    assert stairs.move("none", 1.0 + CALM_SECONDS) == "taken_back"
    assert stairs.standing.fail_trial(100.0) == ()


def test_what_another_gave_up_is_taken_back_here():
    stairs = Stairs()
    stairs.standing.give_up(LESS, 0.0)
    assert stairs.standing.holds("ram")
    assert stairs.move("none", 1.0) == ""
    assert stairs.move("none", 1.0 + CALM_SECONDS) == "taken_back"
    assert not stairs.standing.holds("ram")


def test_a_new_model_begins_with_everything():
    stairs = Stairs()
    stairs.move("some", 0.0)
    stairs.standing.forget()
    assert stairs.standing.given_up == ()
