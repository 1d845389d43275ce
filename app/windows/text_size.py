"""Larger and smaller text by keys, as in a browser: in steps that a reader sees, within what the settings allow."""

from __future__ import annotations

LEAST_PERCENT, MOST_PERCENT = 70, 250
STEP_PERCENT = 10


def stepped(scale: float, steps: int) -> float:
    """The next whole step from `scale`, the factor of all text sizes, so many steps up (or down below 0)."""
    percent = round(scale * 100)
    # From between two steps, the first goes to the next one.
    start = percent // STEP_PERCENT if steps > 0 else -(-percent // STEP_PERCENT)
    return min(MOST_PERCENT, max(LEAST_PERCENT, (start + steps) * STEP_PERCENT)) / 100
