"""Tests for engine.generation.spare_power."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.generation import spare_power


@pytest.mark.parametrize(
    ("battery", "load", "has_some"),
    [
        (None, 0.1, True),
        (SimpleNamespace(power_plugged=True), 0.1, True),
        (SimpleNamespace(power_plugged=False), 0.1, False),
        (SimpleNamespace(power_plugged=None), 0.1, False),
        (None, 3.0, False),
    ],
)
def test_a_machine_on_its_battery_or_busy_has_none_to_spare(monkeypatch, battery, load, has_some):
    asked = SimpleNamespace(sensors_battery=lambda: battery, getloadavg=lambda: (load, 9.0, 9.0), cpu_count=lambda: 4)
    monkeypatch.setattr(spare_power, "psutil", asked)
    assert spare_power.has_power_to_spare() is has_some
