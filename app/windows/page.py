"""What all pages but the chat have in common: a title, a line below it, actions at the right, calm margins."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.widgets import bits

MARGIN_PX = 32
WIDEST_PX = 1040


class Page(QWidget):
    """`body` takes the page's parts from top to bottom, `buttons` the buttons beside the title."""

    def __init__(self, title: str, subtitle: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(title)
        # Takes the keyboard when it is gone to, so that no button looks chosen; Tab goes on from here.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.subtitle = bits.label(subtitle, "muted", wraps=True)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(8)
        head = QHBoxLayout()
        head.addLayout(bits.column(bits.label(title, "title"), self.subtitle, spacing=4), 1)
        head.addLayout(self.buttons)
        head.setAlignment(self.buttons, Qt.AlignmentFlag.AlignTop)
        self.body = QVBoxLayout()
        self.body.setSpacing(16)
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN_PX, 28, MARGIN_PX, 24)
        column.setSpacing(24)
        column.addLayout(head)
        column.addLayout(self.body, 1)

    def settle(self) -> None:
        """The window is about to close: what was changed a moment ago, and waits to be sent, is sent."""
