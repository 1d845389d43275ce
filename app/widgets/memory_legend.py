"""The legend of the memory map: colours of owners, and patterns and letters of states and of layers' places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QWidget

from app import theme
from app.widgets import bits, layer_homes, layer_strip, memory_picture
from app.widgets.flow import FlowLayout
from app.widgets.layer_homes import HOMES, Home
from app.widgets.memory_picture import Stretch
from app.widgets.memory_tiles import MODEL, NUM_KINDS, TileState
from app.widgets.memory_words import kind_name, state_name

_SIDE_PX = 16
_STATES: tuple[TileState, ...] = ("streaming", "loading", "evicting", "reserved")


class Swatch(QWidget):
    """A small square in a colour and pattern of the map, with the map's letter if there is one."""

    def __init__(self, paint: Callable[[QPainter, QRectF], None], words: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._paint = paint
        self.setFixedSize(QSize(_SIDE_PX, _SIDE_PX))
        self.setAccessibleDescription(words)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shape = QPainterPath()
        shape.addRoundedRect(QRectF(self.rect()), 4, 4)
        painter.setClipPath(shape)
        self._paint(painter, QRectF(self.rect()))
        painter.end()


class MemoryLegend(QWidget):
    """Explains what has occurred so far; entries are not removed, because they would flicker with each layer."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = FlowLayout(self, spacing=14)
        self._seen: set[int | str] = set()

    def show_occurring(self, kinds: Sequence[int], states: Sequence[str], homes: Sequence[Home]) -> None:
        """Shows `kinds` of the lanes, `states` other than in place, and `homes` of layers."""
        if self._seen.issuperset({*kinds, *states, *homes}):
            return
        self._seen |= {*kinds, *states, *homes}
        while (item := self._flow.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for kind in range(NUM_KINDS):
            if kind in self._seen:
                self._add(_owner_painter(kind), kind_name(kind))
        # States that the entries of layers explain are not explained again.
        told = {layer_homes.state_of(home) for home in HOMES if home in self._seen}
        for state in _STATES:
            if state in self._seen and not told & {state}:
                self._add(_state_painter(state), state_name(state))
        for home in HOMES:
            if home in self._seen:
                self._add(_home_painter(home), layer_homes.home_name(home))
        self.updateGeometry()

    def entries(self) -> tuple[str, ...]:
        """Returns the entries, in words."""
        return tuple(swatch.accessibleDescription() for swatch in self.findChildren(Swatch) if swatch.isVisibleTo(self))

    def _add(self, paint: Callable[[QPainter, QRectF], None], words: str) -> None:
        entry = QWidget()
        entry.setLayout(bits.row(Swatch(paint, words), bits.label(words, "small"), spacing=6))
        self._flow.addWidget(entry)


def _owner_painter(kind: int) -> Callable[[QPainter, QRectF], None]:
    return lambda painter, box: painter.fillRect(box, QColor(theme.current().owners[kind]))


def _state_painter(state: TileState) -> Callable[[QPainter, QRectF], None]:
    """Returns a painter of a state's pattern in the model's colour; it means the same in every colour."""

    def paint(painter: QPainter, box: QRectF) -> None:
        solid = memory_picture.colour_index(MODEL, 0)
        part = Stretch(0, _SIDE_PX, solid, memory_picture.colour_index(MODEL, memory_picture.PALE), state)
        painter.drawImage(box, _square(part, memory_picture.colour_table(theme.current())))

    return paint


def _home_painter(home: Home) -> Callable[[QPainter, QRectF], None]:
    def paint(painter: QPainter, box: QRectF) -> None:
        look = theme.current()
        part = layer_strip.stretch(0, _SIDE_PX, home)
        painter.drawImage(box, _square(part, layer_strip.colour_table(look)))
        small = painter.font()
        small.setPointSizeF(small.pointSizeF() * 0.75)
        painter.setFont(small)
        painter.setPen(layer_strip.ink(home, look))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, layer_homes.letter_of(home))

    return paint


def _square(part: Stretch, colours: list[int]) -> QImage:
    # One pixel more than is shown, because the last pixel of a tile is the gap behind it.
    wide = Stretch(part.left, part.right + 1, part.colour, part.pale, part.state)
    return memory_picture.image(memory_picture.indices([wide], _SIDE_PX + 1, _SIDE_PX)[:, :_SIDE_PX], colours)
