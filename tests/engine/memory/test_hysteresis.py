"""Tests for engine.memory.hysteresis."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.memory.demand import Backlog
from engine.memory.hysteresis import (
    HELD_SECONDS,
    IDLE_HELD_SECONDS,
    LARGE_GAIN,
    LEAST_GAIN,
    MOST_CHANGES,
    REGAINED_SECONDS,
    WAITED_FOR_SECONDS,
    WITHIN_SECONDS,
    Hysteresis,
    Patience,
    judged,
    pause_seconds,
)
from engine.memory.placement import Placement, Prediction
from engine.memory.planner import plan
from engine.memory.profile import Profile
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted


def placed(latency_s: float, **changes: object) -> Placement:
    values = {"n_gpu_layers": 0, "num_layers": 8, "gpu_bytes": 0, "ram_bytes": 100, "sentence": "Here."}
    return Placement(**{**values, **changes}, prediction=Prediction(latency_s=latency_s))  # type: ignore[arg-type]


def times_changed(hysteresis: Hysteresis, looks: list[tuple[float, Placement, Placement]]) -> list[float]:
    return [now for now, current, wanted in looks if hysteresis.should_change(current, wanted, now)]


def after_a_change(gain: float, *, changed_at: float) -> list[float]:
    """When a placement is left for one that is better by this much, after a change."""
    patience, _ = judged(Patience(), placed(1.0), placed(9.0), changed_at, must=True)
    found: list[float] = []
    for now in range(200):
        patience, is_time = judged(patience, placed(10.0), placed(10.0 * (1 - gain)), float(now))
        found += [float(now)] * is_time
    return found


def test_a_trifle_changes_nothing_however_long_it_lasts():
    looks = [(float(now), placed(10.0), placed(10.0 * (1.001 - LEAST_GAIN))) for now in range(100)]
    assert times_changed(Hysteresis(), looks) == []


def test_a_small_gain_leaves_the_last_change_of_a_minute_to_a_large_one():
    assert after_a_change(LARGE_GAIN / 2, changed_at=-1.0)[0] == WITHIN_SECONDS - 1.0
    assert after_a_change(2 * LARGE_GAIN, changed_at=-1.0)[0] == HELD_SECONDS


def test_a_gain_must_hold_for_a_while():
    looks = [(now / 2, placed(10.0), placed(8.0)) for now in range(20)]
    assert times_changed(Hysteresis(), looks)[0] == HELD_SECONDS


@pytest.mark.parametrize(
    ("is_waited_for", "num_cells", "held_s"),
    [(True, 512, WAITED_FOR_SECONDS), (True, 256, HELD_SECONDS), (False, 512, HELD_SECONDS)],
)
def test_cells_that_a_question_waits_for_come_sooner(is_waited_for: bool, num_cells: int, held_s: float):
    hysteresis, current, more = Hysteresis(), placed(10.0, num_cells=256), placed(8.0, num_cells=num_cells)
    load = {"num_questions": 2, "is_waited_for": is_waited_for}
    looks = [now / 2 for now in range(20)]
    assert next(now for now in looks if hysteresis.should_change(current, more, now, **load)) == held_s


def test_cells_that_a_question_waits_for_cost_no_pause_that_waiting_does_not():
    hysteresis = Hysteresis(pause_seconds=lambda current, wanted: 0.95)
    current, more = placed(10.0, num_cells=256), placed(8.0, num_cells=512)
    load = {"num_questions": 2, "is_waited_for": True}
    looks = [now / 2 for now in range(40)]
    assert next(now for now in looks if hysteresis.should_change(current, more, now, **load)) == 5.0


def test_a_gain_that_comes_and_goes_begins_anew():
    gains = [8.0, 8.0, 10.0, 8.0, 8.0, 8.0, 8.0]
    looks = [(float(now), placed(10.0), placed(latency)) for now, latency in enumerate(gains)]
    assert times_changed(Hysteresis(), looks) == [6.0]


@pytest.mark.parametrize("gain", [0.05, 0.2, 0.5])
def test_a_pause_is_made_when_staying_has_cost_as_much(gain: float):
    hysteresis = Hysteresis(pause_seconds=lambda current, wanted: 4.0)
    looks = [(now / 4, placed(10.0), placed(10.0 * (1 - gain))) for now in range(400)]
    assert times_changed(hysteresis, looks)[0] == pytest.approx(4.0 / gain, abs=0.26)


def test_what_staying_has_cost_is_forgotten_where_it_was_right():
    hysteresis = Hysteresis(pause_seconds=lambda current, wanted: 0.9)
    gains = [0.2] * 5 + [0.0] + [0.2] * 10
    looks = [(float(now), placed(10.0), placed(10.0 * (1 - gain))) for now, gain in enumerate(gains)]
    assert times_changed(hysteresis, looks) == [11.0]


def test_what_staying_has_cost_is_forgotten_where_what_is_in_force_is_what_is_wanted():
    hysteresis = Hysteresis(pause_seconds=lambda current, wanted: 0.9)
    here, better = placed(10.0), placed(8.0)
    looks = [(float(now), here, here if now == 5 else better) for now in range(16)]
    assert times_changed(hysteresis, looks) == [11.0]


def test_what_was_there_to_be_gained_while_nobody_looked_is_not_taken_for_lost():
    hysteresis = Hysteresis(pause_seconds=lambda current, wanted: 4.0)
    looks = [(now, placed(10.0), placed(8.0)) for now in (0.0, 1.0, 601.0, 602.0)]
    assert times_changed(hysteresis, looks) == []


def test_what_does_not_fit_any_more_is_left_at_once():
    hysteresis = Hysteresis()
    assert hysteresis.should_change(placed(10.0), placed(40.0), 0.0, must=True)
    assert hysteresis.should_change(placed(10.0), placed(40.0), 0.1, must=True)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_wanted_there_are_at_most_two_changes_a_minute(seed: int):
    chance, hysteresis = random.Random(seed), Hysteresis()
    changes: list[int] = []
    for now in range(600):
        wanted = placed(chance.choice((1.0, 5.0, 20.0)))
        if hysteresis.should_change(placed(10.0), wanted, float(now)):
            changes.append(now)
    assert len(changes) > MOST_CHANGES
    two_later = zip(changes, changes[MOST_CHANGES:], strict=False)
    assert all(later - earlier >= WITHIN_SECONDS for earlier, later in two_later)


def left_at(num_questions: int) -> list[int]:
    """When a placement is left for a better one at such a load, after two changes were made for eight questions."""
    patience, found = Patience(), list[int]()
    for now in (0, 1):
        patience, _ = judged(patience, placed(10.0), placed(5.0), float(now), must=True, num_questions=8)
    for now in range(2, 30):
        patience, is_time = judged(patience, placed(10.0), placed(5.0), float(now), num_questions=num_questions)
        found += [now] * is_time
    return found


def test_changes_for_a_load_of_another_size_hold_nothing_up_and_those_for_this_one_do():
    assert left_at(8) == left_at(5) == []
    assert left_at(4) == left_at(16) == [5, 9]


def test_what_was_lost_for_want_of_room_is_had_again_once_there_is_room_for_a_while_and_nobody_waits():
    lossy, whole = placed(9.0, num_concessions=1, kv_type="q8_0"), placed(10.0)
    for num_questions, expected in ((0, REGAINED_SECONDS), (1, None)):
        patience, changed = Patience(), list[float]()
        for now in range(int(REGAINED_SECONDS) + 5):
            patience, is_time = judged(patience, lossy, whole, float(now), 2.0, num_questions=num_questions)
            changed += [float(now)] * is_time
        assert changed[:1] == ([] if expected is None else [expected])


def test_what_is_wanted_with_fewer_losses_only_because_nothing_helps_any_more_is_not_moved_to():
    lossy, starved = placed(9.0, num_concessions=1, kv_type="q8_0"), placed(10.0, is_starved=True)
    patience = Patience()
    for now in range(200):
        patience, is_time = judged(patience, lossy, starved, float(now), num_questions=0)
        assert not is_time


@pytest.mark.parametrize(("is_starved", "is_left"), [(False, False), (True, True)])
def test_something_is_lost_only_by_what_has_no_room_or_must(is_starved: bool, is_left: bool):
    here, lossy = placed(10.0, is_starved=is_starved), placed(5.0, num_concessions=1, kv_type="q8_0")
    patience, changed = Patience(), False
    for now in range(100):
        patience, is_time = judged(patience, here, lossy, float(now))
        changed |= is_time
    assert changed == is_left
    assert judged(Patience(), here, lossy, 0.0, must=True)[1]


def test_at_steady_load_with_swinging_free_memory_a_placement_stays():
    hysteresis, profile, chance = Hysteresis(), DESKTOP, random.Random(3)
    current, changes = plan(machine(0, 16), profile, Backlog(), wanted(MODELS[2])), 0
    for now in range(300):
        # Others come and go with a few hundred megabytes.
        hardware = machine(0, 16, free_share=0.85 - chance.uniform(0, 0.02))
        better = plan(hardware, profile, Backlog(), wanted(MODELS[2]))
        if hysteresis.should_change(current, better, float(now)):
            current, changes = better, changes + 1
    assert changes == 0


def test_the_current_placement_is_judged_by_what_it_gives_now():
    # It was made for a single question and promised a second.
    hysteresis = Hysteresis(renewed=lambda placement: placed(50.0) if placement == placed(1.0) else placement)
    assert times_changed(hysteresis, [(float(now), placed(1.0), placed(20.0)) for now in range(5)]) == [3.0]


def test_what_is_wanted_is_judged_by_what_is_known_now_as_well():
    # Everything takes twice as long as was expected when it was planned, here and there.
    def renewed(placement: Placement) -> Placement:
        return placed(2 * placement.prediction.latency_s)

    looks = [(float(now), placed(10.0), placed(9.8)) for now in range(20)]
    assert times_changed(Hysteresis(renewed=renewed), looks) == []


def test_each_way_has_its_pause():
    shape, profile = MODELS[1], Profile(context_change_s=0.4, load_bytes_per_s=1e9)
    here = placed(1.0, num_cells=8192)
    streamed = replace(here, streamed_layers=(1, 3), ring_slots=1)
    moved = replace(streamed, streamed_layers=(3, 5), ring_slots=2)
    assert pause_seconds(streamed, moved, profile, shape) == pause_seconds(streamed, here, profile, shape) == 0.0
    assert pause_seconds(here, replace(here, num_cells=4096), profile, shape) == 0.4
    reloaded = pause_seconds(here, replace(here, n_gpu_layers=4), profile, shape)
    assert reloaded == pytest.approx(0.4 + shape.weight_bytes / 1e9)
    assert pause_seconds(here, replace(here, is_repacked=False), profile, shape) == reloaded
    assert pause_seconds(here, streamed, profile, shape) == reloaded
    beside = replace(streamed, n_gpu_layers=4)
    assert pause_seconds(beside, replace(beside, copies_streamed=True), profile, shape) == 0.4


def test_while_nobody_asks_a_little_better_is_enough_and_no_pause_is_charged():
    here, better = placed(10.0), placed(9.8)

    def changes(wanted: Placement, pause_s: float, num_questions: int) -> list[int]:
        patience, found = Patience(), []
        for second in range(20):
            patience, is_time = judged(patience, here, wanted, float(second), pause_s, num_questions=num_questions)
            found += [second] * is_time
        return found

    assert changes(better, 30.0, 0)[0] == IDLE_HELD_SECONDS
    assert changes(placed(9.99), 0.0, 0) == []
    assert changes(better, 0.0, 1) == []
