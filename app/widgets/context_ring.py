"""A ring beside the prompt: how full the model's context was with the last answer, and what filled it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolButton, QToolTip, QWidget

from app import theme
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.context_words import in_use_sentence, use_lines

if TYPE_CHECKING:
    from engine.protocol import ContextUse

_SIDE_PX, _RING_PX, _LINE_PX = 34, 16, 2.5
# Qt counts sixteenths of a degree, from three o'clock on and against the clock.
_TOP, _WHOLE = 90 * 16, 360 * 16
_TOOLTIP_MS = 20_000


class ContextRing(QToolButton):
    """Shows a `ContextUse`, in words as its tooltip, which a press shows as well; hidden without figures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(_SIDE_PX, _SIDE_PX)
        self._share, self._is_scarce = 0.0, False
        bits.opens_popup(self)
        self.clicked.connect(self._on_clicked)
        self.hide()

    def show_use(self, use: ContextUse | None) -> None:
        """Shows the figures; None hides them."""
        self.setVisible(use is not None and use.size > 0)
        if use is None or not use.size:
            return
        self._share = min(1.0, use.used / use.size)
        self._is_scarce = use.size - use.used < use.reserve
        self.setToolTip(plain_tip("\n".join((in_use_sentence(use), *use_lines(use)))))
        self.setAccessibleName(in_use_sentence(use))
        self.setAccessibleDescription(". ".join(use_lines(use)))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, top = (self.width() - _RING_PX) / 2, (self.height() - _RING_PX) / 2
        circle = QRectF(left, top, _RING_PX, _RING_PX)
        painter.setPen(QPen(QColor(look.border_strong), _LINE_PX))
        painter.drawEllipse(circle)
        painter.setPen(QPen(QColor(look.warn if self._is_scarce else look.muted), _LINE_PX))
        painter.drawArc(circle, _TOP, -round(self._share * _WHOLE))
        painter.end()

    def _on_clicked(self) -> None:
        # For the keyboard and touch screens, which do not hover.
        QToolTip.showText(self.mapToGlobal(QPoint()), self.toolTip(), self, msecShowTime=_TOOLTIP_MS)
