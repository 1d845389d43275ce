"""Shapes on a page: boxes in its own units, marks on its picture, and the picture itself."""

from __future__ import annotations

from dataclasses import dataclass

# (x0, y0, x1, y1) in fractions of a picture's size, from its top left corner.
Mark = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page in points, its origin at the bottom left."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        return self.top - self.bottom


@dataclass(frozen=True, slots=True)
class Picture:
    """Pixels row by row without padding; 1, 3 or 4 bytes each (grey, RGB, RGBA)."""

    width: int
    height: int
    num_channels: int
    rows: tuple[bytes, ...]
