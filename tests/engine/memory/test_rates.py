"""Tests for engine.memory.rates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.memory.rates import WINDOW_SECONDS, Rates, disk_totals


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_steady_flow_has_its_rate_however_often_one_looks():
    clock = Clock()
    rates = Rates(clock)
    for step in range(1, 100):
        found = rates.of({"streamed": 50.0 * step})
        clock.now += 0.1
    assert found["streamed"] == pytest.approx(500.0)


def test_what_has_ended_is_forgotten_after_the_window():
    clock = Clock()
    rates = Rates(clock)
    rates.of({"disk": 0.0})
    clock.now += 1.0
    assert rates.of({"disk": 1000.0})["disk"] == pytest.approx(1000.0)
    clock.now += 1.0
    assert 0 < rates.of({"disk": 1000.0})["disk"] < 1000.0
    clock.now += 2 * WINDOW_SECONDS
    rates.of({"disk": 1000.0})
    assert rates.of({"disk": 1000.0})["disk"] == 0.0


def test_a_total_that_begins_anew_is_no_flow_backwards():
    clock = Clock()
    rates = Rates(clock)
    rates.of({"streamed": 5000.0})
    clock.now += 1.0
    assert rates.of({"streamed": 10.0})["streamed"] == 0.0
    clock.now += 1.0
    assert rates.of({"streamed": 110.0})["streamed"] == pytest.approx(100.0)


def test_two_looks_at_once_make_no_peak():
    clock = Clock()
    rates = Rates(clock)
    rates.of({"disk": 0.0})
    clock.now += 0.001
    assert rates.of({"disk": 10.0})["disk"] <= 10.0 / (WINDOW_SECONDS / 4)


def test_this_process_is_counted(tmp_path: Path):
    before = disk_totals()
    if not before:
        pytest.skip("this system does not count what a process reads and writes")
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    after = disk_totals()
    assert all(after[name] >= before[name] for name in before)
