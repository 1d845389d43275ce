"""The scale of a lane from bytes to places: linear, and compressed beyond a knee if a tier is large; pure.

A disk of a terabyte of which we hold three gigabytes would be a lane of free space. Up to the knee a lane shows what
we hold, and beyond it all the rest, as the ticks below say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

KNEE = 0.82
_MAX_TICKS = 6
# The linear part is chosen with room to grow, and kept until it is far too small or too large, so that the lane does
# not jump.
_ROOM, _TIGHT, _LOOSE = 1.5, 1.08, 8.0
# A smaller gain is not worth a knee.
_LEAST_GAIN = 4
# The least linear part, if we hold next to nothing on a large disk.
_LEAST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Scale:
    """From bytes to fractions of a lane; `linear_bytes` reach to the knee, or to the end if there is none."""

    capacity_bytes: int
    linear_bytes: int

    @property
    def has_knee(self) -> bool:
        return self.linear_bytes < self.capacity_bytes

    def fraction(self, num_bytes: float) -> float:
        """Returns where so many bytes end, from 0 to 1."""
        inside = min(max(num_bytes, 0), self.capacity_bytes)
        if not self.has_knee:
            return inside / self.capacity_bytes
        if inside <= self.linear_bytes:
            return KNEE * inside / self.linear_bytes
        beyond = (inside - self.linear_bytes) / (self.capacity_bytes - self.linear_bytes)
        return KNEE + (1 - KNEE) * beyond

    def ticks(self) -> tuple[int, ...]:
        """Returns round figures in bytes on the linear part, ascending from 0, and the capacity."""
        return (*_round_figures(self.linear_bytes), self.capacity_bytes)


def scale_for(held_bytes: int, capacity_bytes: int, previous: Scale | None = None) -> Scale:
    """Returns a scale on which what we hold can be seen; the previous one while that is suitable."""
    capacity = max(1, capacity_bytes, held_bytes)
    if previous is not None and previous.capacity_bytes == capacity:
        fits = held_bytes * _TIGHT <= previous.linear_bytes <= max(held_bytes, 1) * _LOOSE
        if fits or previous.linear_bytes == _linear(held_bytes, capacity):
            return previous
    return Scale(capacity, _linear(held_bytes, capacity))


def _linear(held_bytes: int, capacity: int) -> int:
    linear = capacity
    while held_bytes and linear // 2 >= max(held_bytes * _ROOM, _LEAST_BYTES):
        linear //= 2
    return linear if linear * _LEAST_GAIN <= capacity else capacity


def _round_figures(end_bytes: int) -> Iterator[int]:
    step = 1
    while end_bytes / step > _MAX_TICKS - 1:
        step *= 2
    yield from range(0, end_bytes, step)
