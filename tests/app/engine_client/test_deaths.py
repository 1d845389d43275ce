"""Tests for app.engine_client.deaths: when to try again, and what to say."""

from __future__ import annotations

import signal

import pytest

from app.engine_client.deaths import Death, Record, cause, wrong_version_sentence
from app.engine_client.pulse import Patience

PATIENCE = Patience()


def died(*lives: tuple[float, float]) -> Record:
    """The record after deaths at these times, each after so many seconds of life."""
    record = Record()
    for now, lived_s in lives:
        record = record.with_death(now, lived_s, PATIENCE)
    return record


def test_three_deaths_within_a_minute_are_hopeless():
    assert not died((0, 5), (20, 5)).is_hopeless(PATIENCE)
    assert died((0, 5), (20, 5), (60, 5)).is_hopeless(PATIENCE)


def test_three_deaths_in_more_than_a_minute_are_not():
    assert not died((0, 5), (20, 5), (61, 30)).is_hopeless(PATIENCE)


def test_endless_short_lives_are_hopeless_in_the_end():
    lives = [(number * 40.0, 35.0) for number in range(PATIENCE.max_deaths_in_a_row)]
    assert not died(*lives[:-1]).is_hopeless(PATIENCE)
    assert died(*lives).is_hopeless(PATIENCE)


def test_a_good_life_forgives_what_was_before():
    lives = [(number * 40.0, 35.0) for number in range(PATIENCE.max_deaths_in_a_row - 1)]
    assert not died(*lives, (1000, 800)).is_hopeless(PATIENCE)


def test_each_death_in_a_row_makes_the_wait_longer_up_to_the_last():
    waits = []
    record = Record()
    for number in range(5):
        record = record.with_death(number * 100, 10, PATIENCE)
        waits.append(record.wait_s(PATIENCE))
    assert waits == [0.3, 1.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("death", "word"),
    [
        (Death(was_started=False), "could not be started"),
        (Death(code=3), "exit code 3"),
        (Death(has_crashed=True, code=signal.SIGKILL), "memory ran out"),
        (Death(has_crashed=True, code=signal.SIGSEGV), "SIGSEGV"),
        (Death(has_crashed=True, code=200), "200"),
    ],
)
def test_the_cause_is_said_for_people(qapp, death, word):
    assert word in cause(death)


def test_versions_are_named_and_what_is_in_them_is_not_filled_in_again(qapp):
    assert "version %2 of the protocol, this window version 1" in wrong_version_sentence("%2", 1)
