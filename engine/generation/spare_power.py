"""Tells whether the machine has power to spare for background work: it is plugged in, and hardly busy."""

from __future__ import annotations

import psutil

# Runnable threads per processor, over the last minute.
LOW_LOAD = 0.5


def has_power_to_spare() -> bool:
    """Asks the system; a machine without a battery counts as plugged in."""
    battery = psutil.sensors_battery()
    is_plugged_in = battery is None or bool(battery.power_plugged)
    return is_plugged_in and psutil.getloadavg()[0] < LOW_LOAD * (psutil.cpu_count() or 1)
