"""A layout that puts widgets side by side and continues in the next line when a line is full, as text does."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QBoxLayout, QLayout, QLayoutItem, QSizePolicy, QWidget


class FlowLayout(QLayout):
    """Arranges visible widgets in their natural size; `num_lines` is the number of lines of the last arrangement."""

    def __init__(self, parent: QWidget | None = None, spacing: int = 6, *, is_centred: bool = False) -> None:
        super().__init__(parent)
        self._is_centred = is_centred
        self._items: list[QLayoutItem] = []
        self.num_lines = 0
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    # --- Qt ---

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        lines = list(self._lines(width))
        heights = sum(height for _, height in lines)
        return heights + self.spacing() * max(0, len(lines) - 1)

    def sizeHint(self) -> QSize:
        items = list(self._shown())
        return QSize(self._width_of(items), max((item.sizeHint().height() for item in items), default=0))

    def minimumSize(self) -> QSize:
        widest = max((item.minimumSize().width() for item in self._shown()), default=0)
        return QSize(widest, max((item.sizeHint().height() for item in self._shown()), default=0))

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self.num_lines, top = 0, rect.top()
        for line, height in self._lines(rect.width()):
            self.num_lines += 1
            left = rect.left() + (max(0, rect.width() - self._width_of(line)) // 2 if self._is_centred else 0)
            for item in line:
                hint = item.sizeHint()
                size = QSize(min(hint.width(), rect.width()), hint.height())
                place = QRect(QPoint(left, top + (height - size.height()) // 2), size)
                item.setGeometry(self._mirrored(place, rect))
                left += size.width() + self.spacing()
            top += height + self.spacing()

    # --- inside ---

    def _shown(self) -> Iterator[QLayoutItem]:
        return (item for item in self._items if not item.isEmpty())

    def _width_of(self, line: list[QLayoutItem]) -> int:
        return sum(item.sizeHint().width() for item in line) + self.spacing() * max(0, len(line) - 1)

    def _lines(self, width: int) -> Iterator[tuple[list[QLayoutItem], int]]:
        """Yields the items of each line, and its height."""
        line: list[QLayoutItem] = []
        used = 0
        for item in self._shown():
            needed = item.sizeHint().width()
            if line and used + self.spacing() + needed > width:
                yield line, max(item.sizeHint().height() for item in line)
                line, used = [], 0
            used += needed + (self.spacing() if line else 0)
            line.append(item)
        if line:
            yield line, max(item.sizeHint().height() for item in line)

    def _mirrored(self, place: QRect, within: QRect) -> QRect:
        parent = self.parentWidget()
        if parent is None or parent.layoutDirection() == Qt.LayoutDirection.LeftToRight:
            return place
        return QRect(QPoint(within.left() + within.right() - place.right(), place.top()), place.size())


def put_beside(box: QBoxLayout, flowing: QWidget, is_beside: bool) -> None:
    """Puts a widget with a FlowLayout beside the rest of `box` in one line, or below it in as many as it needs."""
    box.setDirection(QBoxLayout.Direction.LeftToRight if is_beside else QBoxLayout.Direction.TopToBottom)
    # A widget that may shrink gets less than it needs when its neighbour wants more.
    across = QSizePolicy.Policy.Minimum if is_beside else QSizePolicy.Policy.Preferred
    flowing.setSizePolicy(across, QSizePolicy.Policy.Preferred)
