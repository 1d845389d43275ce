"""The base of all pages but the chat: a title, a line below it, actions at the right, margins."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.flow import FlowLayout, put_beside

MARGIN_PX = 32
# On a page with fewer lines of text than this, the subtitle is hidden to make room.
_LOW_LINES = 22


class Page(QWidget):
    """`body` takes the page's parts from top to bottom, `buttons` the buttons next to the title."""

    def __init__(self, title: str, subtitle: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(title)
        # Takes the focus when the page opens, so that no button looks chosen; Tab continues from here.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.subtitle = bits.label(subtitle, "muted", wraps=True)
        self._title = bits.label(title, "title")
        self._actions = QWidget()
        self.buttons = FlowLayout(self._actions, spacing=8)
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.addLayout(bits.column(self._title, self.subtitle, spacing=4), 1)
        self._head.addWidget(self._actions, 0, Qt.AlignmentFlag.AlignTop)
        self.body = QVBoxLayout()
        self.body.setSpacing(16)
        self._parts = QVBoxLayout(self)
        self._parts.setContentsMargins(MARGIN_PX, 28, MARGIN_PX, 24)
        self._parts.addLayout(self._head)
        self._parts.addLayout(self.body, 1)
        theme.appearance().changed.connect(self.fit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    @property
    def starting_point(self) -> QWidget:
        """The widget that gets the focus when the page opens."""
        # No focus proxy, because the Tab key would skip what is before it.
        return self

    def fit(self) -> None:
        """Arranges the page for its size and text size; called when either has changed."""
        metrics = self.fontMetrics()
        is_low = self.height() < _LOW_LINES * metrics.height()
        self.subtitle.setVisible(not is_low)
        self._parts.setSpacing(12 if is_low else 24)
        room = self.width() - 2 * MARGIN_PX - self._head.spacing()
        is_beside = self._title.sizeHint().width() + self._actions.sizeHint().width() <= room
        put_beside(self._head, self._actions, is_beside)

    def settle(self) -> None:
        """Sends pending changes, because the window is about to close."""
