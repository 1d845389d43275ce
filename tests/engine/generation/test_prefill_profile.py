"""Tests for engine.generation.prefill_profile."""

from __future__ import annotations

import pytest

from engine.generation.prefill_profile import PrefillProfile


def test_before_anything_is_measured_there_is_a_guess() -> None:
    profile = PrefillProfile()
    assert not profile.is_measured
    assert profile.seconds(0, 200) == pytest.approx(2 * profile.seconds(0, 100)) != 0


def test_before_anything_is_measured_a_plan_tells() -> None:
    profile = PrefillProfile()
    profile.expect(0.0)
    guessed = profile.seconds(0, 1024)
    profile.expect(64.0)
    assert not profile.is_measured
    assert profile.seconds(0, 1024) == pytest.approx(16.0) != guessed
    profile.attends_at(0.00024)
    assert profile.seconds(0, 1024) == pytest.approx(16.0)
    assert profile.seconds(4096, 1024) > 1.5 * 16.0
    profile.note(0, 1024, 8.0)
    assert profile.seconds(0, 1024) == pytest.approx(8.0)


def test_one_measurement_tells_of_everything() -> None:
    profile = PrefillProfile()
    profile.note(0, 256, 2.56)
    assert profile.is_measured
    assert profile.seconds(0, 256) == pytest.approx(2.56)
    assert profile.seconds(4096, 100) == pytest.approx(1.0)


def test_between_measurements_lies_a_straight_line() -> None:
    profile = PrefillProfile()
    for cached, new, per_token in [(0, 64, 1.0), (0, 256, 3.0), (256, 64, 5.0), (256, 256, 7.0)]:
        profile.note(cached, new, per_token * new)
    assert profile.seconds(0, 160) == pytest.approx(2.0 * 160)
    assert profile.seconds(128, 64) == pytest.approx(3.0 * 64)
    assert profile.seconds(128, 160) == pytest.approx(4.0 * 160)


def test_outside_of_the_grid_its_border_counts() -> None:
    profile = PrefillProfile()
    profile.note(65_536, 4096, 4096.0)
    profile.note(0, 1, 0.5)
    assert profile.seconds(10**7, 10**5) == pytest.approx(10**5)
    assert profile.seconds(0, 0) == 0


def test_it_follows_a_machine_that_becomes_slower() -> None:
    profile = PrefillProfile()
    profile.note(0, 64, 64 * 0.01)
    for _ in range(40):
        profile.note(0, 64, 64 * 0.02)
    assert profile.seconds(0, 64) == pytest.approx(64 * 0.02, rel=0.01)


def test_measurements_of_nothing_are_left_out() -> None:
    profile = PrefillProfile()
    profile.note(0, 0, 1.0)
    profile.note(0, 64, 0.0)
    assert not profile.is_measured


def test_what_was_not_measured_takes_longer_by_the_cells_that_attention_looks_at() -> None:
    profile = PrefillProfile()
    profile.note(0, 128, 128 * 0.008)
    profile.attends_at(0.00024)
    # Of a 1B model with heads of 64: 8 ms a token at the beginning, 15 behind 3,500.
    assert profile.seconds(3500, 128) == pytest.approx(128 * 0.0147, rel=0.02)
    # All of a long prompt take longer than its first tokens.
    assert profile.seconds(0, 3500) > 1.3 * 3500 * 0.008
    profile.attends_at(0.0)
    assert profile.seconds(3500, 128) == pytest.approx(128 * 0.008)


def test_what_was_measured_between_two_nodes_is_told_there_as_it_was() -> None:
    profile = PrefillProfile()
    profile.attends_at(0.00024)
    profile.note(2000, 128, 128 * 0.012)
    assert profile.seconds(2000, 128) == pytest.approx(128 * 0.012, rel=0.02)
