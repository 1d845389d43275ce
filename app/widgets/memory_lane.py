"""One tier of memory as a lane: tiles for what is held, a mark for the budget, ticks in bytes, marks of moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.models.memory_moves import Move
from app.tips import plain_tip
from app.widgets import memory_picture, memory_tiles
from app.widgets.figures import bytes_text
from app.widgets.memory_picture import Stretch
from app.widgets.memory_scale import KNEE, Scale
from app.widgets.memory_tiles import Tile
from app.widgets.memory_words import kind_name, sentence
from app.widgets.painted_bar import BAR_PX, MARKS_PX, TICK_SIZE, PaintedBar
from app.widgets.tier_names import tier_name

if TYPE_CHECKING:
    from app.models.cell_use import CellUse
    from engine.protocol import TierSnapshot

_LABEL_PADDING = 6
_TICK_GAP_PX = 10
_LEAST_LABEL_PX = 12
_TINY_PX = memory_tiles.TINY_PIXELS
_MOST_TOLD = 8
_DESCRIBED_MS = 1000
_TOLERANCE = 1.02


class MemoryLane(PaintedBar):
    """Paints a `TierSnapshot`; repainted only when the snapshot or the budget changes."""

    TICKS_PX, TICKS_PADDING_PX = 16, 2

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tier: TierSnapshot | None = None
        self._cells: CellUse | None = None
        self._scale: Scale | None = None
        self._tiles: tuple[Tile, ...] = ()
        self._shown: tuple[int, tuple[Tile, ...]] = (-1, ())
        self._wished: int | None = None
        # A screen reader cannot use ten descriptions a second.
        self._described = QTimer(self, singleShot=True, interval=_DESCRIBED_MS)
        self._described.timeout.connect(lambda: self.setAccessibleDescription(self._description()))
        self.setAccessibleName(self.tr("Memory lane"))

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return self._tiles

    @property
    def scale(self) -> Scale | None:
        """Returns the scale from bytes to places; None before the first snapshot."""
        return self._scale

    @property
    def budget_bytes(self) -> int | None:
        """Returns the bytes at the budget's mark: as being chosen, or as it is."""
        if self._wished is not None:
            return self._wished
        return self._tier.budget_bytes if self._tier is not None else None

    def show_tier(
        self,
        tier: TierSnapshot,
        cells: CellUse | None = None,
        moves: Sequence[Move] = (),
        flow: int = 0,
    ) -> None:
        """Shows the present tier; `moves` are marked for a moment, `flow` animates what streams."""
        has_flown = flow != self._flow and any(tile.state == "streaming" for tile in self._tiles)
        self._flow = flow
        if has_flown:
            self._picture = None
            self.update()
        if (tier is self._tier or tier == self._tier) and cells == self._cells:
            return
        before = self._tiles
        self._tier, self._cells = tier, cells
        self._scale = memory_tiles.lane_scale(tier, self._scale)
        self._tiles = memory_tiles.tiles(tier, cells, self._scale)
        self._picture, self._shown = None, (-1, ())
        self._mark(before, [move for move in moves if move.tier == tier.tier])
        self.setAccessibleName(self.tr("Memory of %1").replace("%1", tier_name(tier.name)))
        if not self._described.isActive():
            self._describe()
        self.update()

    def show_wish(self, budget_bytes: int | None) -> None:
        """Shows where the budget would be while the user moves it; None shows the real one."""
        if budget_bytes != self._wished:
            self._wished = budget_bytes
            self.update()

    @property
    def shown_tiles(self) -> tuple[Tile, ...]:
        """Returns the tiles as they are painted at this width: those too narrow to be seen are merged."""
        width = self.width()
        if self._shown[0] != width:
            self._shown = (width, memory_tiles.merged(self._tiles, lambda tile: _width(tile, width) < _TINY_PX))
        return self._shown[1]

    def tile_at(self, x: float) -> Tile | None:
        """Returns the tile under the pixel column `x`; None over free memory."""
        fraction = x / max(1, self.width())
        return next((tile for tile in self.shown_tiles if tile.start <= fraction < tile.end), None)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            tile = self.tile_at(event.pos().x())
            QToolTip.showText(event.globalPos(), plain_tip(sentence(tile)) if tile else self._free_sentence(), self)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.current().surface))
        picture = self._kept_picture(self._stretches, memory_picture.colour_table)
        with memory_picture.rounded(painter, self._bar_rect(), picture):
            self._paint_labels(painter)
        if self._scale is not None:
            self._paint_marks(painter)
            self._paint_ticks(painter, self._scale)
        painter.end()

    def _mark(self, before: Sequence[Tile], moves: Sequence[Move]) -> None:
        if not moves or not self.isVisible() or self._tier is None:
            return
        now = {(tile.owner, tile.what): tile for tile in reversed(self._tiles)}
        gone = {(tile.owner, tile.what): tile for tile in before}
        for move in moves:
            has_gone = move.kind == "went"
            tile = (gone if has_gone else now).get((move.span.owner, move.span.what))
            if tile is not None:
                self._marks.add(tile.start, tile.end, has_gone=has_gone)

    def _stretches(self, width: int) -> list[Stretch]:
        return memory_picture.stretches(self.shown_tiles, width)

    def _paint_labels(self, painter: QPainter) -> None:
        painter.setFont(self._small_font())
        metrics = QFontMetricsF(painter.font())
        look = theme.current()
        for tile in self.shown_tiles:
            text = kind_name(tile.kind) if tile.kind == memory_tiles.OTHER else tile.label
            left, width = tile.start * self.width(), _width(tile, self.width())
            if (
                text
                and not tile.is_moving
                and width > _LEAST_LABEL_PX
                and metrics.horizontalAdvance(text) + _LABEL_PADDING <= width
            ):
                painter.setPen(memory_picture.ink_on(QColor(look.owners[tile.kind])))
                painter.drawText(QRectF(left, 0, width - 1, BAR_PX), Qt.AlignmentFlag.AlignCenter, text)

    def _paint_marks(self, painter: QPainter) -> None:
        """Paints a bar below what came, and a dotted line below where something left."""
        look, top = theme.current(), BAR_PX + 1.0
        for mark, strength in self._marks.strengths():
            colour = QColor(look.muted if mark.has_gone else look.accent)
            colour.setAlphaF(min(1.0, strength * 1.5))
            bar = QRectF(mark.start * self.width(), top, max(3.0, (mark.end - mark.start) * self.width()), MARKS_PX)
            if mark.has_gone:
                painter.setPen(QPen(colour, 1, Qt.PenStyle.DotLine))
                painter.drawLine(bar.bottomLeft(), bar.bottomRight())
            else:
                painter.fillRect(bar, colour)

    def _paint_ticks(self, painter: QPainter, scale: Scale) -> None:
        look = theme.current()
        painter.setFont(self._small_font(TICK_SIZE))
        taken = [self._paint_budget(painter, scale)]
        painter.setPen(QColor(look.faint))
        ticks = scale.ticks()
        for num_bytes in (ticks[-1], *ticks[:-1]):
            place = self._text_place(painter, bytes_text(num_bytes), scale.fraction(num_bytes) * self.width())
            if not any(place.adjusted(-_TICK_GAP_PX, 0, _TICK_GAP_PX, 0).intersects(other) for other in taken):
                taken.append(place)
                painter.drawText(place, Qt.AlignmentFlag.AlignCenter, bytes_text(num_bytes) if num_bytes else "0")
        if scale.has_knee:
            self._paint_knee(painter)

    def _paint_knee(self, painter: QPainter) -> None:
        """Paints a zigzag, as on a broken axis, where the compressed part of the lane begins."""
        x, step = KNEE * self.width(), BAR_PX / 8
        line = QPolygonF([QPointF(x + (2.5 if n % 2 else -2.5), n * step) for n in range(9)])
        painter.setPen(QPen(QColor(theme.current().surface), 4))
        painter.drawPolyline(line)
        painter.setPen(QPen(QColor(theme.current().faint), 1))
        painter.drawPolyline(line)

    def _paint_budget(self, painter: QPainter, scale: Scale) -> QRectF:
        """Paints the mark and its words; returns the room that they take."""
        budget = self.budget_bytes
        if budget is None:
            return QRectF()
        look = theme.current()
        is_over = self._tier is not None and _is_over(self._tier, budget)
        colour = QColor(look.bad if is_over else look.text)
        x = min(max(scale.fraction(budget) * self.width(), 1.5), self.width() - 1.5)
        painter.setPen(QPen(QColor(look.surface), 4))
        painter.drawLine(QPointF(x, 0), QPointF(x, BAR_PX))
        painter.setPen(QPen(colour, 2))
        painter.drawLine(QPointF(x, 0), QPointF(x, BAR_PX + 3))
        painter.setBrush(colour)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawPolygon(QPolygonF([QPointF(x - 4, BAR_PX + 5), QPointF(x + 4, BAR_PX + 5), QPointF(x, BAR_PX)]))
        text = self.tr("budget %1").replace("%1", bytes_text(budget))
        place = self._text_place(painter, text, x)
        painter.setPen(colour)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)
        return place

    def _text_place(self, painter: QPainter, text: str, x: float) -> QRectF:
        """Returns the room for a tick's words around `x`, inside the widget."""
        width = QFontMetricsF(painter.font()).horizontalAdvance(text) + 2
        left = min(max(0.0, x - width / 2), self.width() - width)
        return QRectF(left, BAR_PX + 1 + MARKS_PX + 2, width, self._ticks_px - 2)

    def _describe(self) -> None:
        self.setAccessibleDescription(self._description())
        self._described.start()

    def _description(self) -> str:
        # Merged, because there may be hundreds of shards; the table lists each of them.
        told = [sentence(tile) for tile in memory_tiles.merged(self._tiles, lambda _tile: True, fewest=_MOST_TOLD + 1)]
        if (budget := self.budget_bytes) is not None:
            told.append(self.tr("Budget: %1").replace("%1", bytes_text(budget)))
        return " ".join(f"{words}." for words in told)

    def _free_sentence(self) -> str:
        return self.tr("Free: %1").replace("%1", bytes_text(self._tier.free_bytes)) if self._tier else ""


def _is_over(tier: TierSnapshot, budget_bytes: int) -> bool:
    """Returns whether clearly more is held than the budget; small excesses are temporary."""
    return tier.counted_bytes > budget_bytes * _TOLERANCE


def _width(tile: Tile, lane_width: int) -> float:
    return (tile.end - tile.start) * lane_width
