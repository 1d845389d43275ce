"""The line above a chat in which the user types what to find, and steps from one match to the next."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.widgets import bits
from app.widgets.figures import count_text

_TYPING_MS = 150
_WIDEST_PX = 320


class FindBar(QWidget):
    """Reports wishes by signals; `show_place` shows the number of matches and the current one."""

    sought = Signal(str)
    stepped = Signal(int)  # +1 the next match, −1 the one before
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("findBar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.field = QLineEdit()
        self.field.setProperty("kind", "search")
        self.field.setPlaceholderText(self.tr("Find in this chat"))
        self.field.setAccessibleName(self.tr("Find in this chat"))
        self.field.setAcceptDrops(False)
        self.field.setMaximumWidth(_WIDEST_PX)
        self.field.installEventFilter(self)
        # Typing a word would be many searches; only the last one is needed.
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(self._seek)
        self.field.textChanged.connect(lambda: self._typing.start())
        self.place = bits.label("", "small")
        self.before = bits.tool("chevron-up", self.tr("Previous match (Shift+F3)"), lambda: self._step(-1), side=16)
        self.next = bits.tool("chevron-down", self.tr("Next match (F3)"), lambda: self._step(1), side=16)
        self.close_button = bits.tool("close", self.tr("Close (Esc)"), self.closed.emit, side=16)
        line = bits.row(spacing=4)
        line.addWidget(self.field, 1)
        line.addWidget(self.before)
        line.addWidget(self.next)
        line.addSpacing(4)
        line.addWidget(self.place)
        line.addStretch(1)
        line.addWidget(self.close_button)
        line.setContentsMargins(12, 6, 12, 6)
        self.setLayout(line)
        self.setFocusProxy(self.field)
        self.hide()

    @property
    def text(self) -> str:
        return self.field.text()

    def put(self, text: str) -> None:
        """Puts text into the field, as if the user had searched for it already."""
        self.field.setText(text)
        self._typing.stop()

    def show_place(self, number: int, num_matches: int) -> None:
        """Shows the current match; `number` is 1-based, 0 for none."""
        words = self.tr("%1 of %2") if number else self.tr("1 match") if num_matches == 1 else self.tr("%2 matches")
        words = words.replace("%1", count_text(number)).replace("%2", count_text(num_matches))
        if not num_matches:
            words = self.tr("Not found") if self.text.strip() else ""
        self.place.setText(words)
        for button in (self.before, self.next):
            button.setEnabled(bool(num_matches))

    def show_looking(self) -> None:
        """Shows that the search is running."""
        self.show_place(0, 0)
        self.place.setText(self.tr("Searching…"))

    def announce(self) -> None:
        """Makes a screen reader say the current match, but not each time an answer grows."""
        if self.place.text():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.place.text()))

    def setVisible(self, is_visible: bool) -> None:
        # Also if the page itself is hidden, in which case no hide event arrives.
        if not is_visible:
            self._typing.stop()
        super().setVisible(is_visible)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter and Shift+Enter step; Escape closes the bar, although elsewhere it stops answers."""
        if isinstance(event, QKeyEvent):
            is_escape = event.key() == Qt.Key.Key_Escape
            if event.type() == QEvent.Type.ShortcutOverride and is_escape:
                event.accept()
                return True
            if event.type() == QEvent.Type.KeyPress and is_escape:
                self.closed.emit()
                return True
            if event.type() == QEvent.Type.KeyPress and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
                return True
        return super().eventFilter(watched, event)

    def _seek(self) -> None:
        self._typing.stop()
        self.sought.emit(self.text)

    def _step(self, step: int) -> None:
        # A text that was just typed is searched first, and its first match is the next one.
        if self._typing.isActive():
            self._seek()
        else:
            self.stepped.emit(step)
