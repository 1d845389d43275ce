"""One tier of memory as a lane: a row of colour indices stretched to a picture, labels only where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QImage, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.widgets import memory_tiles
from app.widgets.figures import bytes_text, count_text
from app.widgets.memory_tiles import Tile

if TYPE_CHECKING:
    from engine.protocol import TierSnapshot

_HEIGHT = 48
_RADIUS = 8
_LABEL_PADDING = 4
_TINY_PX = memory_tiles.TINY_PIXELS
_MOST_TOLD = 8


class MemoryLane(QWidget):
    """Paints `TierSnapshot`s; repainted only when the snapshot is another one.

    `num_pictures` counts how often the row was computed anew; tests hold the promise to it.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tier: TierSnapshot | None = None
        self._tiles: tuple[Tile, ...] = ()
        self._shown: tuple[int, tuple[Tile, ...]] = (-1, ())
        self._picture: tuple[object, QImage] | None = None
        self.num_pictures = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Memory lane"))

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return self._tiles

    def sizeHint(self) -> QSize:
        return QSize(480, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, _HEIGHT)

    def show_tier(self, tier: TierSnapshot) -> None:
        if tier == self._tier:
            return
        self._tier, self._tiles, self._picture = tier, memory_tiles.tiles(tier), None
        self._shown = (-1, ())
        self.setAccessibleName(self.tr("Memory of %1").replace("%1", tier.name))
        # Who wants each of hundreds of shards by itself has the table.
        told = memory_tiles.merged(self._tiles, lambda _tile: True, fewest=_MOST_TOLD + 1)
        self.setAccessibleDescription(" ".join(sentence(tile) + "." for tile in told))
        self.update()

    @property
    def shown_tiles(self) -> tuple[Tile, ...]:
        """The tiles as they are painted at this width: those too narrow to be seen stand together."""
        width = self.width()
        if self._shown[0] != width:
            self._shown = (width, memory_tiles.merged(self._tiles, lambda tile: _width(tile, width) < _TINY_PX))
        return self._shown[1]

    def tile_at(self, x: float) -> Tile | None:
        """The tile under the pixel column `x`; None over free memory."""
        fraction = x / max(1, self.width())
        return next((tile for tile in self.shown_tiles if tile.start <= fraction < tile.end), None)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            tile = self.tile_at(event.pos().x())
            QToolTip.showText(event.globalPos(), sentence(tile) if tile else self._free_sentence(), self)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shape = QPainterPath()
        shape.addRoundedRect(QRectF(self.rect()), _RADIUS, _RADIUS)
        painter.setClipPath(shape)
        painter.drawImage(QRectF(self.rect()), self._lane_picture())
        self._paint_labels(painter)
        painter.end()

    def _lane_picture(self) -> QImage:
        look = theme.current()
        width = max(1, round(self.width() * self.devicePixelRatioF()))
        key = (width, look.name)
        if self._picture is None or self._picture[0] != key:
            self.num_pictures += 1
            row = memory_tiles.colour_row(self.shown_tiles, width)
            # copy(): QImage does not keep the buffer alive.
            image = QImage(row.tobytes(), width, 1, width, QImage.Format.Format_Indexed8).copy()
            image.setColorTable(_colour_table(look))
            self._picture = (key, image)
        return self._picture[1]

    def _paint_labels(self, painter: QPainter) -> None:
        small = self.font()
        small.setPointSizeF(small.pointSizeF() * 0.82)
        painter.setFont(small)
        painter.setPen(QColor("#16181d"))
        metrics = QFontMetricsF(small)
        for tile in self.shown_tiles:
            text = kind_name(tile.kind) if tile.kind == memory_tiles.OTHER else tile.label
            left, width = tile.start * self.width(), (tile.end - tile.start) * self.width()
            if text and not tile.is_moving and metrics.horizontalAdvance(text) + _LABEL_PADDING <= width:
                painter.drawText(QRectF(left, 0, width - 1, self.height()), Qt.AlignmentFlag.AlignCenter, text)

    def _free_sentence(self) -> str:
        return self.tr("Free: %1").replace("%1", bytes_text(self._tier.free_bytes)) if self._tier else ""


def kind_name(kind: int) -> str:
    return QCoreApplication.translate("memory", memory_tiles.KIND_NAMES[kind])


def state_name(state: str) -> str:
    """A span's state in the reader's words."""
    names = {
        "resident": QCoreApplication.translate("memory", "in place"),
        "streaming": QCoreApplication.translate("memory", "streaming"),
        "loading": QCoreApplication.translate("memory", "loading"),
        "evicting": QCoreApplication.translate("memory", "leaving"),
    }
    return names.get(state, state)


def sentence(tile: Tile) -> str:
    """`Model layers: layer 12, 138 MiB, streaming`: what tooltips and screen readers say."""
    what = tile.what
    if tile.kind == memory_tiles.MODEL and tile.label.isdigit():
        what = QCoreApplication.translate("memory", "layer %1").replace("%1", tile.label)
    if tile.num_parts > 1:
        what = QCoreApplication.translate("memory", "%1 parts").replace("%1", count_text(tile.num_parts))
    parts = [what, bytes_text(tile.num_bytes), state_name(tile.state) if tile.is_moving else ""]
    return f"{kind_name(tile.kind)}: {', '.join(part for part in parts if part)}"


def _width(tile: Tile, lane_width: int) -> float:
    return (tile.end - tile.start) * lane_width


def _colour_table(look: theme.Theme) -> list[int]:
    table = [QColor(look.window).rgb(), QColor(look.hover).rgb()]
    for colour in look.owners:
        table += [QColor(colour).rgb(), QColor(colour).lighter(116).rgb()]
    return table
