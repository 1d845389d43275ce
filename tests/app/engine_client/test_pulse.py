"""Tests for app.engine_client.pulse: hours pass here without waiting."""

from __future__ import annotations

import pytest

from app.engine_client.pulse import Patience, Pulse

PATIENCE = Patience()


def first_hang(pulse: Pulse, start: float, end: float, is_in_phase: bool = False) -> float | None:
    """The first check, one each 5 s, that finds the engine hanging."""
    now = start
    while now <= end:
        if pulse.is_hanging(now, is_in_phase):
            return now
        now += PATIENCE.ping_s
    return None


def test_the_figures_are_those_of_the_design():
    assert (PATIENCE.ping_s, PATIENCE.silence_s, PATIENCE.phase_silence_s) == (5, 30, 180)
    assert PATIENCE.back_off_s[:3] == (0.3, 1, 3)
    assert (PATIENCE.max_deaths, PATIENCE.deaths_within_s, PATIENCE.polite_stop_s) == (3, 60, 3)


@pytest.mark.parametrize(("is_in_phase", "limit"), [(False, 30), (True, 180)])
def test_silence_is_a_hang_after_its_limit_and_not_before(is_in_phase, limit):
    assert first_hang(Pulse(PATIENCE, 0), 5, limit, is_in_phase) is None
    assert first_hang(Pulse(PATIENCE, 0), 5, 1000, is_in_phase) == limit + 5


def test_having_slept_is_no_sign_of_life_of_the_engine():
    pulse = Pulse(PATIENCE, 0)
    pulse.beat(10)
    assert not pulse.is_hanging(1000, is_in_phase=False)
    assert pulse.last_beat == 10


def test_an_answer_begins_the_silence_anew():
    pulse = Pulse(PATIENCE, 0)
    assert first_hang(pulse, 5, 30) is None
    pulse.beat(30)
    assert first_hang(pulse, 35, 60) is None
    assert first_hang(pulse, 65, 100) == 65


def test_a_check_that_comes_late_excuses_the_engine():
    pulse = Pulse(PATIENCE, 0)
    assert not pulse.is_hanging(3600, is_in_phase=False)
    assert first_hang(pulse, 3605, 3630) is None
    assert first_hang(pulse, 3635, 3700) == 3635
