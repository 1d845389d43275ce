"""A rendered page with its marks painted over it like a highlighter, and zoom."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from app.widgets import scroll_keys

ZOOM_STEP = 1.25
MIN_ZOOM, MAX_ZOOM = 0.5, 4.0
_PEN = QColor("#ffd84d")
_PAGE_MARGIN = 12

Mark = tuple[float, float, float, float]


class _Sheet(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.pixmap = QPixmap()
        self.marks: tuple[Mark, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def mark_rects(self) -> list[QRectF]:
        """Returns the marks in pixels; they are given as left, top, right, bottom fractions of the page."""
        width, height = self.width(), self.height()
        return [
            QRectF(left * width, top * height, (right - left) * width, (bottom - top) * height)
            for left, top, right, bottom in self.marks
        ]

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawPixmap(self.rect(), self.pixmap)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Multiply)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(_PEN)
        for mark in self.mark_rects():
            painter.drawRoundedRect(mark.adjusted(-2, -1, 2, 1), 3, 3)
        painter.end()


class PagePicture(QScrollArea):
    """A zoomable page; zoom 1 fits the width. Scrolls to the first mark when a page is shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sheet = _Sheet()
        self._zoom, self._keeps_to_mark = 1.0, False
        self.setWidget(self._sheet)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self.setAccessibleName(self.tr("Page"))
        for bar in (self.verticalScrollBar(), self.horizontalScrollBar()):
            bar.actionTriggered.connect(self._on_reader_scrolls)

    @property
    def zoom(self) -> float:
        return self._zoom

    @property
    def marks(self) -> tuple[Mark, ...]:
        return self._sheet.marks

    def show_picture(self, png: bytes, marks: Sequence[Mark]) -> bool:
        """Shows a PNG with marks; returns False if it is not a picture."""
        pixmap = QPixmap()
        if not pixmap.loadFromData(png, "PNG"):
            return False
        self._sheet.pixmap, self._sheet.marks = pixmap, tuple(marks)
        self._keeps_to_mark = True
        self._fit()
        self._scroll_to_mark()
        return True

    def set_zoom(self, zoom: float) -> None:
        self._zoom = min(MAX_ZOOM, max(MIN_ZOOM, zoom))
        self._fit()

    def sheet_size(self) -> QSize:
        return self._sheet.size()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the mark in sight until the user scrolls, because a view that was not shown yet cannot scroll to it."""
        super().resizeEvent(event)
        self._fit()
        if self._keeps_to_mark:
            self._scroll_to_mark()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not scroll_keys.goes_to_end(event, self.verticalScrollBar()):
            super().keyPressEvent(event)

    def _on_reader_scrolls(self) -> None:
        self._keeps_to_mark = False

    def _fit(self) -> None:
        pixmap = self._sheet.pixmap
        if pixmap.isNull():
            return
        width = max(60, round((self.viewport().width() - _PAGE_MARGIN) * self._zoom))
        self._sheet.setFixedSize(width, round(width * pixmap.height() / pixmap.width()))
        self._sheet.update()

    def _scroll_to_mark(self) -> None:
        marks = self._sheet.mark_rects()
        if marks:
            first = marks[0].center().toPoint()
            self.ensureVisible(first.x(), first.y(), 40, self.viewport().height() // 3)
        else:
            self.verticalScrollBar().setValue(0)
