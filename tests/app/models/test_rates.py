"""Tests for app.models.rates."""

from __future__ import annotations

import pytest

from app.models.rates import WINDOW_S, RateHistory, is_rate


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("tokens_per_s", True), ("disk_read_bytes_per_s", True), ("kv_hit_ratio", True), ("partitions", False),
     ("kv_kept_bytes", False), ("predicted_tokens_per_s", False)],
)  # fmt: skip
def test_rates_are_told_by_their_names(name, is_one):
    assert is_rate(name) is is_one


def test_a_second_of_snapshots_is_one_sample_of_their_mean():
    rates = RateHistory()
    assert rates.note({"tokens_per_s": 1.0}, 0.0)
    assert not rates.note({"tokens_per_s": 2.0}, 0.5)
    assert rates.note({"tokens_per_s": 4.0}, 1.5)
    assert rates.points("tokens_per_s") == ((1.5, 1.0), (0.0, 3.0))


def test_what_is_older_than_the_window_is_forgotten():
    rates = RateHistory()
    for second in range(int(WINDOW_S) * 3):
        rates.note({"tokens_per_s": float(second)}, second * 2.0)
    assert len(rates) <= WINDOW_S / 2 + 1
    assert rates.points("tokens_per_s")[0][0] <= WINDOW_S


def test_a_rate_that_was_not_told_has_no_point():
    rates = RateHistory()
    rates.note({"tokens_per_s": 1.0}, 0.0)
    rates.note({"kv_hit_ratio": 0.5, "partitions": 3.0}, 2.0)
    rates.note({}, 4.0)
    assert rates.points("tokens_per_s") == ((4.0, 1.0),)
    assert rates.points("partitions") == ()


def test_nothing_is_left_after_clearing():
    rates = RateHistory()
    rates.note({"tokens_per_s": 1.0}, 0.0)
    rates.clear()
    assert rates.points("tokens_per_s") == ()
