"""Tests for engine.generation.preemption."""

from __future__ import annotations

import pytest

from engine.generation.preemption import Part, SwapRates, choose
from engine.generation.prefill_profile import PrefillProfile

MIB = 1 << 20
PARTS = [Part(0, 1000, 64 * MIB), Part(1000, 100, 6 * MIB)]


def profile_of(seconds_per_token: float) -> PrefillProfile:
    profile = PrefillProfile()
    profile.note(0, 1000, seconds_per_token * 1000)
    return profile


def test_what_is_slow_to_read_is_swapped() -> None:
    assert choose(PARTS, 1024 * MIB, SwapRates(1e9, 1e9), profile_of(0.01)) == "swap"


def test_what_is_fast_to_read_is_read_again() -> None:
    assert choose(PARTS, 1024 * MIB, SwapRates(1e9, 1e9), profile_of(0.0001)) == "recompute"
    assert choose(PARTS, 1024 * MIB, SwapRates(1e6, 1e6), profile_of(0.01)) == "recompute"


def test_what_does_not_fit_into_memory_is_read_again() -> None:
    assert choose(PARTS, 70 * MIB, SwapRates(), profile_of(1.0)) == "swap"
    assert choose(PARTS, 70 * MIB - 1, SwapRates(), profile_of(1.0)) == "recompute"


def test_nothing_costs_nothing() -> None:
    assert choose([], 0, SwapRates(), PrefillProfile()) == "swap"


def test_rates_follow_what_is_measured() -> None:
    rates = SwapRates(2e9, 2e9)
    for _ in range(30):
        rates = rates.with_save(1 * MIB, 0.001).with_load(2 * MIB, 0.001)
    assert rates.save == pytest.approx(MIB / 0.001, rel=0.01)
    assert rates.seconds(8 * MIB) == pytest.approx(0.008 + 0.004, rel=0.01)


def test_a_measurement_of_nothing_changes_nothing() -> None:
    assert SwapRates().with_save(0, 1.0).with_load(MIB, 0.0) == SwapRates()
