"""A notice or an error above the page: a sentence, a way out, at most one button."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.picture import Picture

Severity = Literal["notice", "warning", "error"]
_ICONS = {"notice": ("info", "accent"), "warning": ("warning", "warn"), "error": ("failed", "bad")}


class MessageBar(QWidget):
    """Shows one message at a time; a newer one replaces it. Hidden while there is none."""

    cleared = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._action: Callable[[], object] | None = None
        self._card = QFrame()
        self._icon = Picture("info", "accent")
        self._sentence = bits.label("", wraps=True, selectable=True)
        self._way_out = bits.label("", "small", wraps=True, selectable=True)
        self._button = bits.button("", "plain", clicked=self._on_action)
        self._close = bits.tool("close", self.tr("Dismiss this message"), self.clear, side=16)
        words = bits.column(self._sentence, self._way_out, spacing=2)
        inner = bits.row(self._icon, spacing=12)
        inner.addLayout(words, 1)
        inner.addWidget(self._button)
        inner.addWidget(self._close)
        inner.setContentsMargins(14, 8, 8, 8)
        self._card.setLayout(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 0)
        layout.addWidget(self._card)
        self._expiry = QTimer(self, singleShot=True)
        self._expiry.timeout.connect(self.clear)
        self.hide()

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    @property
    def is_offering(self) -> bool:
        """Returns whether there is a message with a button."""
        return self._action is not None and not self.isHidden()

    def show_message(
        self,
        severity: Severity,
        sentence: str,
        way_out: str = "",
        action: str = "",
        on_action: Callable[[], object] | None = None,
    ) -> None:
        """Shows a message; `action` is the text of the button, which also closes the message."""
        self._action = on_action
        self._expiry.stop()
        self._sentence.setText(sentence)
        self._way_out.setText(way_out)
        self._way_out.setVisible(bool(way_out))
        self._button.setText(action)
        self._button.setAccessibleName(action)
        self._button.setVisible(bool(action))
        theme.restyle(self._card, card=severity)
        self._icon.show_icon(*_ICONS[severity])
        self.show()
        self.setAccessibleName(f"{sentence} {way_out}".strip())
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))

    def expire(self, seconds: float) -> None:
        """Closes the message after a while, because its cause is over."""
        self._expiry.start(round(seconds * 1000))

    def clear(self) -> None:
        self._expiry.stop()
        self._action = None
        self.hide()
        self.cleared.emit()

    def _on_action(self) -> None:
        action = self._action
        self.clear()
        if action is not None:
            action()
