"""The model's layers by index, all equally wide: where each is, by colour, pattern and letter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.sentences import joined
from app.widgets import layer_homes, memory_picture, memory_tiles
from app.widgets.layer_homes import HOMES, Home, Layer
from app.widgets.memory_picture import Stretch
from app.widgets.painted_bar import BAR_PX, MARKS_PX, TICK_SIZE, PaintedBar

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

_PADDING = 3
_FIRST = 2


class LayerStrip(PaintedBar):
    """Shows where layers are; nothing without a model. Repainted only when a layer has moved."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layers: tuple[Layer, ...] = ()
        self.setAccessibleName(self.tr("Layers of the model"))

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self._layers

    def show_layers(self, layers: Sequence[Layer], flow: int = 0) -> None:
        """Shows the present layers; those that have moved are marked for a moment.

        `flow` animates streamed layers: it changes when bytes were read.
        """
        if flow != self._flow and any(layer.home == "streamed" for layer in self._layers):
            self._picture = None
            self.update()
        self._flow = flow
        if tuple(layers) == self._layers:
            return
        homes = {layer.index: layer.home for layer in self._layers}
        self._layers, self._picture = tuple(layers), None
        for place, layer in enumerate(self._layers):
            if self.isVisible() and homes.get(layer.index, layer.home) != layer.home:
                self._marks.add(place / len(self._layers), (place + 1) / len(self._layers))
        self.setAccessibleDescription(self._description())
        self.update()

    def layer_at(self, x: float) -> Layer | None:
        """Returns the layer under the pixel column `x`."""
        place = int(x / max(1, self.width()) * len(self._layers))
        return self._layers[place] if 0 <= place < len(self._layers) else None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            layer = self.layer_at(event.pos().x())
            QToolTip.showText(event.globalPos(), layer_homes.layer_sentence(layer) if layer else "", self)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._layers:
            return
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.current().surface))
        with memory_picture.rounded(painter, self._bar_rect(), self._kept_picture(self._stretches, colour_table)):
            self._paint_words(painter)
        self._paint_marks(painter)
        if not self._has_room_for_numbers():
            self._paint_ticks(painter)
        painter.end()

    @property
    def _cell_px(self) -> float:
        return self.width() / max(1, len(self._layers))

    def _stretches(self, width: int) -> list[Stretch]:
        count = len(self._layers)
        return [
            stretch(round(place * width / count), round((place + 1) * width / count), layer.home)
            for place, layer in enumerate(self._layers)
        ]

    def _paint_words(self, painter: QPainter) -> None:
        """Paints numbers and letters as far as there is room; without numbers, every tenth layer has a tick below."""
        look, cell = theme.current(), self._cell_px
        has_numbers = self._has_room_for_numbers()
        small = self._small_font(0.8)
        metrics = QFontMetricsF(small)
        inks = {home: ink(home, look) for home in HOMES}
        fitting = {home for home in HOMES if metrics.horizontalAdvance(layer_homes.letter_of(home)) + 1 <= cell}
        painter.setFont(small)
        half = BAR_PX / 2
        for place, layer in enumerate(self._layers):
            letter = layer_homes.letter_of(layer.home)
            painter.setPen(inks[layer.home])
            box = QRectF(place * cell, 0, cell - 1, BAR_PX)
            if has_numbers:
                number = QRectF(box.left(), 3, box.width(), half - 2)
                painter.drawText(number, Qt.AlignmentFlag.AlignCenter, str(layer.index))
                box = QRectF(box.left(), half - 1, box.width(), half - 2)
            if layer.home in fitting:
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, letter)

    def _has_room_for_numbers(self) -> bool:
        return QFontMetricsF(self._small_font(0.8)).horizontalAdvance("88") + 2 * _PADDING <= self._cell_px

    def _paint_marks(self, painter: QPainter) -> None:
        colour = QColor(theme.current().accent)
        for mark, strength in self._marks.strengths():
            colour.setAlphaF(min(1.0, strength * 1.5))
            left, right = mark.start * self.width(), mark.end * self.width()
            painter.fillRect(QRectF(left, BAR_PX + 1, right - left - 1, MARKS_PX), colour)

    def _paint_ticks(self, painter: QPainter) -> None:
        painter.setFont(self._small_font(TICK_SIZE))
        painter.setPen(QColor(theme.current().faint))
        top = BAR_PX + 1 + MARKS_PX
        for place, layer in enumerate(self._layers):
            if layer.index % 10 == 0:
                box = QRectF(place * self._cell_px, top, max(24.0, self._cell_px * 3), self._ticks_px)
                painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, str(layer.index))

    def _description(self) -> str:
        """Returns the runs of layers with one home: `Layers 0 to 3: pinned in memory.`."""
        told, run = [], list[Layer]()
        for layer in self._layers:
            if run and run[-1].home != layer.home:
                told.append(self._run_sentence(run))
                run = []
            run.append(layer)
        if run:
            told.append(self._run_sentence(run))
        return joined(*told)

    def _run_sentence(self, run: Sequence[Layer]) -> str:
        home = layer_homes.home_name(run[0].home)
        if len(run) == 1:
            return self.tr("Layer %1: %2.").replace("%1", str(run[0].index)).replace("%2", home)
        words = self.tr("Layers %1 to %3: %2.").replace("%1", str(run[0].index))
        return words.replace("%3", str(run[-1].index)).replace("%2", home)


def stretch(left: int, right: int, home: Home) -> Stretch:
    """Returns a layer in pixels, in the indices of `colour_table`."""
    solid = _FIRST + 2 * HOMES.index(home)
    return Stretch(left, right, solid, solid + 1, layer_homes.state_of(home))


@lru_cache(2 * len(HOMES))
def home_colours(home: Home, look: theme.Theme) -> tuple[QColor, QColor]:
    """Returns the colour of a home, and the paler one in its pattern: the faster the tier, the darker."""
    model, surface = QColor(look.owners[memory_tiles.MODEL]), QColor(look.surface)
    pale = memory_picture.blend(model, surface, 0.7)
    colours = {
        "gpu": (model.darker(165), model.darker(165)),
        "pinned": (model, model),
        "mapped": (model.lighter(128), model.lighter(128)),
        "streamed": (memory_picture.blend(model, surface, 0.45), pale),
        "loading": (memory_picture.blend(QColor(look.good), surface, 0.35), pale),
        "evicting": (memory_picture.blend(QColor(look.muted), surface, 0.4), QColor(look.hover)),
    }
    return colours[home]


@lru_cache(2 * len(HOMES))
def ink(home: Home, look: theme.Theme) -> QColor:
    """Returns a text colour that is readable on a home's colours."""
    solid, pale = home_colours(home, look)
    return memory_picture.ink_on(memory_picture.blend(solid, pale, 0.5))


@lru_cache(2)
def colour_table(look: theme.Theme) -> list[int]:
    """Returns the colours of the strip's indices: gap, free, and two of each home."""
    table = [QColor(look.surface).rgb(), QColor(look.hover).rgb()]
    return table + [colour.rgb() for home in HOMES for colour in home_colours(home, look)]
