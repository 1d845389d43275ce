"""Tests for engine.memory.hysteresis."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.memory.demand import Backlog
from engine.memory.hysteresis import (
    HELD_SECONDS,
    HORIZON_SECONDS,
    IDLE_HELD_SECONDS,
    MOST_CHANGES,
    WITHIN_SECONDS,
    Hysteresis,
    Patience,
    exceeds,
    judged,
    pause_seconds,
)
from engine.memory.placement import Placement, Prediction
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.memory.room import Room, room_of
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted


def placed(latency_s: float, **changes: object) -> Placement:
    values = {"n_gpu_layers": 0, "num_layers": 8, "gpu_bytes": 0, "ram_bytes": 100, "sentence": "Here."}
    return Placement(**{**values, **changes}, prediction=Prediction(latency_s=latency_s))  # type: ignore[arg-type]


def times_changed(hysteresis: Hysteresis, looks: list[tuple[float, Placement, Placement]]) -> list[float]:
    return [now for now, current, wanted in looks if hysteresis.should_change(current, wanted, now)]


def test_a_gain_below_a_tenth_changes_nothing_however_long_it_lasts():
    looks = [(float(now), placed(10.0), placed(9.1)) for now in range(100)]
    assert times_changed(Hysteresis(), looks) == []


def test_a_gain_must_hold_for_a_while():
    looks = [(now / 2, placed(10.0), placed(8.0)) for now in range(20)]
    assert times_changed(Hysteresis(), looks)[0] == HELD_SECONDS


def test_a_gain_that_comes_and_goes_begins_anew():
    gains = [8.0, 8.0, 10.0, 8.0, 8.0, 8.0, 8.0]
    looks = [(float(now), placed(10.0), placed(latency)) for now, latency in enumerate(gains)]
    assert times_changed(Hysteresis(), looks) == [6.0]


def test_a_pause_is_charged_against_the_gain():
    current, wanted = placed(10.0), placed(8.0)
    patience, _ = judged(Patience(), current, wanted, 0.0)
    assert judged(patience, current, wanted, 10.0)[1]
    assert judged(patience, current, wanted, 10.0, pause_s=0.05 * HORIZON_SECONDS)[1]
    assert not judged(patience, current, wanted, 10.0, pause_s=0.15 * HORIZON_SECONDS)[1]


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
    # All takes twice as long as was thought when it was planned, here and there.
    def renewed(placement: Placement) -> Placement:
        return placed(2 * placement.prediction.latency_s)

    looks = [(float(now), placed(10.0), placed(9.5)) for now in range(20)]
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


def test_a_placement_exceeds_a_budget_that_was_lowered():
    demand = wanted(MODELS[1])
    placement = plan(machine(8, 16), DESKTOP, Backlog(), demand)
    room = room_of(machine(8, 16), demand)
    assert not exceeds(placement, room)
    assert exceeds(placement, Room(placement.gpu_bytes - 1, room.ram_bytes, room.disk_bytes))
    assert exceeds(placement, Room(room.gpu_bytes, placement.ram_bytes - 1, room.disk_bytes))


def test_while_nobody_asks_a_little_better_is_enough_and_no_pause_is_charged():
    here, better = placed(10.0), placed(9.7)

    def changes(wanted: Placement, pause_s: float, *, is_idle: bool) -> list[int]:
        patience, found = Patience(), []
        for second in range(20):
            patience, is_time = judged(patience, here, wanted, float(second), pause_s, is_idle=is_idle)
            found += [second] * is_time
        return found

    assert changes(better, 30.0, is_idle=True)[0] == IDLE_HELD_SECONDS
    assert changes(placed(9.99), 0.0, is_idle=True) == []
    assert changes(better, 0.0, is_idle=False) == []
