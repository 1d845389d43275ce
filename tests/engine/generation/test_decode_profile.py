"""Tests for engine.generation.decode_profile."""

from __future__ import annotations

import pytest

from engine.generation.decode_profile import DecodeProfile


def learnt(*points: tuple[int, int, float]) -> DecodeProfile:
    profile = DecodeProfile()
    for num_writing, length, seconds in points:
        profile.note(num_writing, length, seconds)
    return profile


def test_what_was_measured_is_expected_again():
    assert learnt((1, 256, 0.04)).seconds(1, 256, 10) == pytest.approx(0.4)


def test_between_two_lengths_lies_a_straight_line():
    profile = learnt((1, 1024, 0.04), (1, 4096, 0.07))
    assert profile.seconds(1, 2560) == pytest.approx(0.055)
    assert profile.seconds(1, 100) == pytest.approx(0.04)
    assert profile.seconds(1, 60_000) == pytest.approx(0.07)


def test_writing_many_tokens_is_expected_in_the_middle_of_them():
    profile = learnt((1, 1024, 0.04), (1, 4096, 0.07))
    assert profile.seconds(1, 1024, 3072) == pytest.approx(3072 * 0.055)


def test_more_answers_at_a_time_have_a_time_of_their_own():
    profile = learnt((1, 256, 0.04), (8, 256, 0.1))
    assert profile.seconds(1, 256) == pytest.approx(0.04)
    assert profile.seconds(7, 256) == pytest.approx(0.1)


def test_what_was_never_measured_is_taken_from_what_is_nearest():
    assert learnt((2, 256, 0.06)).seconds(1, 4096) == pytest.approx(0.06)
    assert DecodeProfile().seconds(1, 256) > 0


def test_a_step_that_was_held_up_says_little():
    profile = learnt((1, 256, 0.04), (1, 256, 60.0))
    assert profile.seconds(1, 256) < 0.05


def test_what_lasts_is_learnt():
    profile = learnt((1, 256, 0.04))
    for _ in range(60):
        profile.note(1, 256, 0.08)
    assert profile.seconds(1, 256) == pytest.approx(0.08, rel=0.01)
