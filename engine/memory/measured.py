"""Measured: what passes of one model really take here, size by size, next to what the profile's rates predict.

Rates say how a pass grows with the bytes it touches; kernels that are made for four tokens at once, or for none, make
steps that no rate knows. So a table of measured passes corrects them: between two sizes along a straight line of their
logarithms, beyond the last with its value. Pure values; profile_file.py keeps them on disk, rehearsing.py measures
them, and observations while running refine them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from engine.core import ModelShape
from engine.memory.work import Work

Kind: TypeAlias = Literal["write", "read"]
# Whether layers in memory are repacked, and whether a device computes large batches of them where they are not.
Way: TypeAlias = tuple[bool, bool]
_REPACKED: Way = (True, False)
# The factor of a pass that could not be computed: no plan gains by its size, and some answer is needed.
INFEASIBLE = 10.0
# Bounds of the correction, so that a measurement that was delayed does not rule out a size permanently.
_LEAST, _MOST = 0.1, INFEASIBLE
# If the layers on a device differ by more than this share, a measurement says nothing any more.
NEAR_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class Split:
    """Where layers are when a pass is computed: how many on a device, and whether those in memory are repacked.

    `copies_streamed`: large batches of those in memory are computed on the device, although they are not repacked.
    """

    n_gpu_layers: int = 0
    is_repacked: bool = True
    copies_streamed: bool = False

    @property
    def way(self) -> Way:
        """How the layers in memory are computed."""
        return self.is_repacked, self.copies_streamed

    def is_near(self, other: Split, num_layers: int) -> bool:
        """Returns whether measurements for one say enough about the other."""
        if self.way != other.way or (self.n_gpu_layers > 0) != (other.n_gpu_layers > 0):
            return False
        return abs(self.n_gpu_layers - other.n_gpu_layers) <= NEAR_SHARE * num_layers


@dataclass(frozen=True, slots=True)
class Point:
    """A pass that was measured: a step that writes a token of each of `size` answers, or one that reads `size` tokens.

    `seconds` are None where it could not be computed, or where the disk hid the computing time (`is_hidden`).
    """

    split: Split
    kind: Kind
    size: int
    work: Work = field(default_factory=Work)
    seconds: float | None = None
    is_hidden: bool = False

    @property
    def is_infeasible(self) -> bool:
        return self.seconds is None and not self.is_hidden


@dataclass(frozen=True, slots=True)
class Beside:
    """Writing and searching at the same time, each as a share of its speed alone, with these numbers of threads.

    On two machines, both together could do no more than 1; taking turns on one makes their sum 1.
    """

    split: Split
    write_threads: int
    scan_threads: int
    writing: float
    searching: float

    @property
    def gain(self) -> float:
        """How much more is done in the same time than one after the other."""
        return self.writing + self.searching


@dataclass(frozen=True, slots=True)
class Measured:
    """All points of one model, the newest last; `beside` has one for each way to share the processor's cores."""

    points: tuple[Point, ...] = ()
    beside: tuple[Beside, ...] = ()

    def with_point(self, point: Point) -> Measured:
        """Returns the table with a measurement: it replaces those with layers elsewhere, and the same point."""

        def stays(one: Point) -> bool:
            is_alike = one.kind == point.kind and one.split.way == point.split.way
            return not is_alike or (one.split == point.split and one.size != point.size)

        return replace(self, points=(*filter(stays, self.points), point))

    def with_beside(self, one: Beside) -> Measured:
        """Returns the table with a simultaneous measurement; those with layers elsewhere are dropped."""
        others = (
            other
            for other in self.beside
            if other.split == one.split
            and (other.write_threads, other.scan_threads) != (one.write_threads, one.scan_threads)
        )
        return replace(self, beside=(*others, one))

    def knows(self, split: Split, kind: Kind, size: int, num_layers: int) -> bool:
        """Returns whether this need not be measured; an infeasible size answers for all that are larger."""
        return any(
            one.kind == kind
            and one.split.is_near(split, num_layers)
            and (one.size == size or (one.is_infeasible and one.size <= size))
            for one in self.points
        )

    def scaled(self, point: Point, by: float) -> Measured:
        """Returns the table with the seconds of a point multiplied by `by`."""
        slower = replace(point, seconds=None if point.seconds is None else point.seconds * by)
        return replace(self, points=tuple(slower if one is point else one for one in self.points))

    def point(self, split: Split, kind: Kind, size: int) -> Point | None:
        """Returns what was measured of such a pass with layers in these places; None where nothing was.

        That is a step with exactly as many answers, or the pass over about as many tokens.
        """
        points = [one for one in self.points if (one.kind, one.split) == (kind, split) and one.seconds is not None]
        if kind == "write":
            points = [one for one in points if one.size == size]
        return min(points, key=lambda one: abs(math.log(one.size / max(1, size))), default=None)


NOTHING = Measured()


class Corrections:
    """By which factor passes of a model are slower than rates alone predict; made once for a plan.

    Weights that are not repacked are never assumed to be faster: a plan with more memory would then be the slower one.
    Of the two, one that was never measured is corrected like the other.
    """

    def __init__(self, measured: Measured, expected: Callable[[Work], float]) -> None:
        """Prepares from a table, and from what rates alone predict of a pass, in seconds."""
        self._measured, self._expected = measured, expected
        self._lines: dict[tuple[Kind, Way], _Line] = {}
        self._known: dict[tuple[Kind, int, Way], float] = {}

    def factor(self, kind: Kind, size: int, *, is_repacked: bool, copies_streamed: bool = False) -> float:
        """Returns the factor for a step of `size` answers, or a pass over `size` tokens."""
        if not self._measured.points:
            return 1.0
        asked = kind, size, (is_repacked, copies_streamed)
        if asked not in self._known:
            self._known[asked] = self._looked_up(*asked)
        return self._known[asked]

    def _looked_up(self, kind: Kind, size: int, way: Way) -> float:
        repacked, asked = self._line(kind, _REPACKED), self._line(kind, way)
        # What was never measured is at least as slow as what was.
        others = (self._line(kind, other) for other in ((False, False), (False, True)) if other != way)
        fast = (repacked or asked or next(filter(None, others), _STRAIGHT)).at(size)
        return fast if way == _REPACKED else max(fast, (asked or repacked or _STRAIGHT).at(size))

    def _line(self, kind: Kind, way: Way) -> _Line | None:
        if (kind, way) not in self._lines:
            points = [
                (point.size, self._of(point))
                for point in self._measured.points
                if point.kind == kind and point.split.way == way and not point.is_hidden
            ]
            self._lines[kind, way] = _Line(tuple(sorted(points)))
        line = self._lines[kind, way]
        return line if line.points else None

    def _of(self, point: Point) -> float:
        if point.seconds is None:
            return INFEASIBLE
        return min(_MOST, max(_LEAST, point.seconds / max(self._expected(point.work), 1e-9)))


@dataclass(frozen=True, slots=True)
class _Line:
    """Measured sizes with their factors, in ascending order."""

    points: tuple[tuple[int, float], ...]

    def at(self, size: int) -> float:
        sizes, factors = zip(*self.points, strict=True)
        return math.exp(float(np.interp(math.log(max(1, size)), np.log(sizes), np.log(factors))))


_STRAIGHT = _Line(((1, 1.0),))


def table_key(shape: ModelShape) -> str:
    """Returns the key of the table for a model: models of one shape are equally fast, whatever their weights."""
    sizes = (shape.architecture, shape.layer_bytes, shape.other_bytes, shape.kv_cell_bytes, shape.expert_use)
    return hashlib.sha256(repr(sizes).encode()).hexdigest()[:16]
