"""Lanes of memory as pictures of colour indices, made by numpy: as fast for two thousand tiles as for ten.

Each state has its own pattern, so that it can be told without colours: solid is in place, diagonal stripes stream,
rising lines load, falling diagonals leave, dots are reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath

from app import theme
from app.widgets.memory_tiles import OTHER, Tile, TileState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GAP, FREE = 0, 1
_FIRST = 2
# For each kind: two shades that alternate from tile to tile, so that neighbours can be told apart, and a pale one.
_SHADES = 3
PALE = 2
# Narrower tiles have no gap after them, because little else would be left.
_MIN_GAPPED_PIXELS = 5
_PATTERNS: tuple[TileState, ...] = ("resident", "streaming", "loading", "evicting", "reserved")
_PERIOD_PX = 8
_RADIUS_PX = 8
# Enough for three lanes and a strip, in all states and phases.
_MASKS_KEPT = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of pixels in one colour and pattern: `colour` is an index, `pale` the one that the pattern lets through."""

    left: int
    right: int
    colour: int
    pale: int
    state: TileState


def colour_index(kind: int, shade: int) -> int:
    return _FIRST + _SHADES * kind + shade


def stretches(lane: Iterable[Tile], width: int) -> list[Stretch]:
    """Returns the tiles in pixels; between them memory is free."""
    found, shade, kind = [], 0, -1
    for tile in lane:
        shade = 0 if tile.kind != kind else 1 - shade
        kind = tile.kind
        left, right = round(tile.start * width), round(tile.end * width)
        colours = colour_index(kind, shade), colour_index(kind, PALE)
        found.append(Stretch(left, right, *colours, tile.state))
    return found


def indices(parts: Iterable[Stretch], width: int, height: int, ratio: float = 1.0, flow: int = 0) -> NDArray[np.uint8]:
    """Returns a colour index per pixel, shape (height, width).

    `ratio` is how many pixels a logical one has; `flow` moves the streaming pattern by so many logical ones.
    """
    import numpy as np  # after the first paint: importing it takes longer than painting the window

    solid = np.full(width, FREE, dtype=np.uint8)
    pale = np.full(width, FREE, dtype=np.uint8)
    pattern = np.zeros(width, dtype=np.uint8)
    gaps, states = [], set[TileState]()
    for part in parts:
        inside = slice(part.left, part.right)
        solid[inside], pale[inside] = part.colour, part.pale
        pattern[inside] = _PATTERNS.index(part.state)
        states.add(part.state)
        if part.right - part.left >= _MIN_GAPPED_PIXELS * ratio:
            gaps.append(part.right - 1)
    picture = np.broadcast_to(solid, (height, width)).copy()
    for state in states - {"resident"}:
        where = _mask(state, width, height, ratio, flow % _PERIOD_PX) & (pattern == _PATTERNS.index(state))
        picture = np.where(where, pale, picture)
    picture[:, gaps] = GAP
    return picture


def image(picture: NDArray[np.uint8], colours: list[int]) -> QImage:
    """Returns a picture with its colours (see `colour_table`)."""
    import numpy as np

    height, width = picture.shape
    rows = np.ascontiguousarray(picture)
    # copy(): QImage does not keep the buffer alive.
    made = QImage(rows.tobytes(), width, height, width, QImage.Format.Format_Indexed8).copy()
    made.setColorTable(colours)
    return made


@contextmanager
def rounded(painter: QPainter, rect: QRectF, picture: QImage) -> Iterator[None]:
    """Paints the picture with round corners, which also clip what is painted inside the block."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.save()
    shape = QPainterPath()
    shape.addRoundedRect(rect, _RADIUS_PX, _RADIUS_PX)
    painter.setClipPath(shape)
    painter.drawImage(rect, picture)
    yield
    painter.restore()


@lru_cache(2)
def colour_table(look: theme.Theme) -> list[int]:
    """Returns the colours of all indices in a theme."""
    table = [QColor(look.surface).rgb(), QColor(look.hover).rgb()]
    for kind, name in enumerate(look.owners):
        colour = QColor(name)
        shades = (colour, colour if kind == OTHER else colour.lighter(114), blend(colour, QColor(look.surface), 0.62))
        table += [shade.rgb() for shade in shades]
    return table


def blend(colour: QColor, other: QColor, share: float) -> QColor:
    """Returns `colour` mixed with a share of `other`."""
    pairs = ((colour.red(), other.red()), (colour.green(), other.green()), (colour.blue(), other.blue()))
    return QColor(*(round(mine * (1 - share) + theirs * share) for mine, theirs in pairs))


def ink_on(colour: QColor) -> QColor:
    """Returns black or white, whichever is readable on a colour."""
    lightness = 0.299 * colour.red() + 0.587 * colour.green() + 0.114 * colour.blue()
    return QColor("#16181d") if lightness > 128 else QColor("#ffffff")


@lru_cache(_MASKS_KEPT)
def _mask(state: TileState, width: int, height: int, ratio: float, flow: int) -> NDArray[np.bool_]:
    """Returns where the pattern of a state shows the pale colour."""
    import numpy as np

    across = (np.arange(width) / ratio).astype(np.int32)[None, :]
    down = (np.arange(height) / ratio).astype(np.int32)[:, None]
    if state == "streaming":
        return (across + down - flow) % _PERIOD_PX < _PERIOD_PX // 2
    if state == "evicting":
        return (across - down) % _PERIOD_PX < _PERIOD_PX * 3 // 4
    if state == "loading":
        return np.broadcast_to(down % 4 < 2, (height, width))
    return ~((across % 6 < 2) & (down % 6 < 2))
