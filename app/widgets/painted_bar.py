"""The base of memory lanes and the strip of layers: a bar with a picture, marks below it, and ticks."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QHideEvent, QImage
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme
from app.widgets import memory_picture
from app.widgets.memory_picture import Stretch
from app.widgets.move_marks import MoveMarks

BAR_PX, MARKS_PX = 40, 3
TICK_SIZE = 0.78


class PaintedBar(QWidget):
    """Keeps the picture until its size, the theme or its content changes.

    `num_pictures` counts how often the picture was computed; tests check that it is not computed without need.
    """

    # The least room for the ticks, and what is added to the height of their font.
    TICKS_PX, TICKS_PADDING_PX = 14, 0

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture: tuple[object, QImage] | None = None
        self._flow = 0
        self._marks = MoveMarks(self)
        self._marks.faded.connect(self.update)
        # The bar fills its area itself. Otherwise everything behind it would be painted ten times a second as well.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.num_pictures = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def num_marks(self) -> int:
        """Returns how many moves are still marked."""
        return len(self._marks.strengths())

    def sizeHint(self) -> QSize:
        return QSize(480, BAR_PX + 1 + MARKS_PX + self._ticks_px)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self.sizeHint().height())

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._marks.clear()

    def _bar_rect(self) -> QRectF:
        return QRectF(0, 0, self.width(), BAR_PX)

    def _kept_picture(
        self, stretches_of: Callable[[int], list[Stretch]], colours_of: Callable[[theme.Theme], list[int]]
    ) -> QImage:
        """Returns the picture of the bar, made from its stretches at a width in pixels and the colours of a theme."""
        look, ratio = theme.current(), self.devicePixelRatioF()
        width, height = max(1, round(self.width() * ratio)), max(1, round(BAR_PX * ratio))
        key = (width, height, look.name)
        if self._picture is None or self._picture[0] != key:
            self.num_pictures += 1
            picture = memory_picture.indices(stretches_of(width), width, height, ratio, self._flow)
            self._picture = (key, memory_picture.image(picture, colours_of(look)))
        return self._picture[1]

    @property
    def _ticks_px(self) -> int:
        return max(self.TICKS_PX, QFontMetrics(self._small_font(TICK_SIZE)).height() + self.TICKS_PADDING_PX)

    def _small_font(self, factor: float = 0.82) -> QFont:
        small = self.font()
        small.setPointSizeF(small.pointSizeF() * factor)
        return small
