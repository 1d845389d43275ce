"""The left rail: a new chat, the places of the window, and below them a widget of the window (the list of chats)."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits

Place = Literal["chats", "every-file", "library", "memory", "models", "settings"]

# The icons of places that have another name.
_ICONS: dict[Place, str] = {"every-file": "table"}
# The first is wider if the text is so large that words would be cut.
WIDTH_PX, COMPACT_WIDTH_PX = 248, 60


class Rail(QWidget):
    """Icons with labels, or icons alone when compact. Up and Down move between the places, Enter goes there."""

    chosen = Signal(str)  # a Place
    new_chat_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(WIDTH_PX)
        self._is_compact = False
        self._filling: QWidget | None = None
        self._texts: dict[QPushButton, str] = {}
        self.new_chat = self._button("new-chat", self.tr("New chat"), "new")
        self.new_chat.setToolTip(self.tr("New chat (Ctrl+N)"))
        self.new_chat.clicked.connect(lambda: self.new_chat_wanted.emit())
        self.buttons: dict[Place, QPushButton] = {
            "chats": self._place("chats", self.tr("Chats")),
            "every-file": self._place("every-file", self.tr("Every file")),
            "library": self._place("library", self.tr("Library")),
            "memory": self._place("memory", self.tr("Memory")),
            "models": self._place("models", self.tr("Models")),
            "settings": self._place("settings", self.tr("Settings")),
        }
        self._mark = QLabel()
        self._mark.setPixmap(theme.pixmap("ragdoll", 28, "black", self.devicePixelRatioF()))
        self._word = bits.label("Ragdoll", "heading")
        head = bits.row(self._mark, self._word, None, spacing=10)
        head.setContentsMargins(6, 2, 0, 10)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(10, 12, 10, 10)
        self._layout.setSpacing(2)
        self._layout.addLayout(head)
        self._layout.addWidget(self.new_chat)
        self._layout.addSpacing(8)
        for place, button in self.buttons.items():
            if place != "settings":
                self._layout.addWidget(button)
        self._layout.addSpacing(8)
        self._layout.addStretch(1)
        self._layout.addWidget(self.buttons["settings"])

    def put(self, filling: QWidget) -> None:
        """Puts a widget between the places and the settings; it is hidden while the rail is compact."""
        stretch = self._layout.count() - 2
        self._layout.insertWidget(stretch, filling, 1000)
        self._filling = filling
        filling.setVisible(not self._is_compact)

    def set_current(self, place: Place) -> None:
        for name, button in self.buttons.items():
            button.setChecked(name == place)

    @property
    def is_compact(self) -> bool:
        return self._is_compact

    def set_compact(self, is_compact: bool) -> None:
        self._is_compact = is_compact
        self._word.setVisible(not is_compact)
        for button, text in self._texts.items():
            button.setText("" if is_compact else text)
            button.setToolTip(text.strip() if is_compact else "")
        self.new_chat.setToolTip(self.tr("New chat (Ctrl+N)"))
        if self._filling is not None:
            self._filling.setVisible(not is_compact)
        self._fit()

    def event(self, event: QEvent) -> bool:
        # The buttons may need another width.
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        else:
            super().keyPressEvent(event)

    def _fit(self) -> None:
        margins = self._layout.contentsMargins()
        widest = max(button.sizeHint().width() for button in self._texts) + margins.left() + margins.right()
        self.setFixedWidth(COMPACT_WIDTH_PX if self._is_compact else max(WIDTH_PX, widest))

    def _place(self, place: Place, text: str) -> QPushButton:
        button = self._button(_ICONS.get(place, place), text, "nav")
        button.clicked.connect(lambda: self._on_place(place))
        return button

    def _on_place(self, place: Place) -> None:
        # A click on the current place must not uncheck it.
        self.buttons[place].setChecked(True)
        self.chosen.emit(place)

    def _button(self, icon: str, text: str, kind: Literal["new", "nav"]) -> QPushButton:
        button = bits.button(text, kind, icon, is_checkable=kind == "nav")
        self._texts[button] = f"  {text}"
        button.setText(self._texts[button])
        return button
