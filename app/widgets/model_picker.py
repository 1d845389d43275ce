"""The button at the top of a chat that shows which model answers, and the list it opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.printable import printable
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.figures import file_name

if TYPE_CHECKING:
    from app.models.chat_model import ChatModel
    from app.widgets.model_row import ModelRow

_POPUP_LETTERS = 77
_LIST_LINES = 22
_ASIDE_PX = 12
_NAME_CHARS = 36


class ModelPicker(QPushButton):
    """Shows a ChatModel in words; before one is attached, it says that the engine is starting."""

    open_file_wanted = Signal()
    get_model_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat: ChatModel | None = None
        self._popup: ModelPopup | None = None
        self.setProperty("kind", "picker")
        self.setAutoDefault(False)
        theme.dress(self, "models")
        bits.opens_popup(self)
        self.clicked.connect(self.open_popup)
        self._show()

    @property
    def popup(self) -> ModelPopup | None:
        return self._popup

    def attach(self, chat: ChatModel) -> None:
        self._chat = chat
        chat.changed.connect(self._show)
        self._show()

    def open_popup(self) -> None:
        if self._chat is None:
            return
        self._popup = ModelPopup(self._chat, self)
        self._popup.open_file_wanted.connect(self.open_file_wanted)
        self._popup.get_model_wanted.connect(self.get_model_wanted)
        self._popup.closed.connect(lambda: bits.unhover(self))
        place = self.mapTo(self.window(), QPoint(0, self.height() + 4))
        # A popup that is nearly as wide as the window begins further to the left.
        furthest = self.window().width() - self._popup.width() - _ASIDE_PX
        self._popup.move(self.window().mapToGlobal(QPoint(min(place.x(), furthest), place.y())))
        self._popup.show()

    def _show(self) -> None:
        text, tip = self._words()
        self.setText(f" {bits.literal(text)}")
        self.setToolTip(plain_tip(tip))
        self.setAccessibleName(self.tr("Model: %1").replace("%1", text))
        fault = fault_of(self._chat) if self._chat is not None else None
        theme.dress(self, *(("models", "muted") if fault is None else fault.icon))

    def _words(self) -> tuple[str, str]:
        chat = self._chat
        if chat is None:
            return self.tr("No model · quotes only"), self.tr("The engine is starting.")
        told, name = chat.told, _short(chat.name)
        if fault := fault_of(chat):
            return fault.words.replace("%1", name or self.tr("Model")), fault.sentence
        if told.state == "loading":
            words = self.tr("Loading %1 · %2 %").replace("%1", name)
            return words.replace("%2", str(round(told.fraction * 100))), told.sentence
        if told.state == "loaded" or chat.path:
            return name, told.sentence or self.tr("Loads with the next question")
        if not chat.follows:
            return self.tr("No model · quotes only"), self.tr("Answers in this chat are quotes from your files.")
        return self.tr("No model · quotes only"), self.tr("Answers are quotes from your files until a model is chosen.")


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem with the model of a chat: in a few words with %1 for its name, and in a sentence."""

    words: str
    sentence: str
    icon: tuple[str, str] = ("failed", "bad")


def fault_of(chat: ChatModel) -> Fault | None:
    """Returns why the model of a chat may not answer; None if no problem is known."""
    told = chat.told
    if told.state == "failed":
        return Fault(_tr("%1 could not be loaded"), told.sentence)
    if chat.is_missing:
        # It answers as long as its file exists, which a user who removed it from the list may not want.
        words = _tr("The model of this chat, %1, is no longer on the list of models.")
        sentence = words.replace("%1", file_name(chat.path))
        return Fault(_tr("%1 is not on the list"), sentence, ("warning", "warn"))
    if chat.problem:
        return Fault(_tr("%1 cannot be used"), chat.problem)
    return None


class ModelPopup(QWidget):
    """The known models, and buttons to open another or use none; closes with the choice, which applies to the chat."""

    open_file_wanted = Signal()
    get_model_wanted = Signal()
    closed = Signal()

    def __init__(self, chat: ChatModel, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.setAccessibleName(self.tr("Choose a model"))
        self.setFixedWidth(bits.letters_wide(self, _POPUP_LETTERS, parent.window().width() - 2 * _ASIDE_PX))
        self._chat = chat
        self.fault: QLabel | None = None
        self.use_alternative: QPushButton | None = None
        self.rows: list[ModelRow] = []
        # A frame inside, because a translucent top-level widget has no background with round corners.
        frame = QFrame()
        frame.setObjectName("popup")
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(frame)
        layout = QVBoxLayout(frame)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(8)
        if fault := fault_of(chat):
            layout.addWidget(self._fault_card(fault))
        if chat.models:
            layout.addWidget(self._whose())
        layout.addWidget(self._list(parent.window().height() // 2) if chat.models else self._no_models())
        self.get_model = bits.button(self.tr("Download a model…"), "ghost", "drop", self._on_get_model)
        self.open_file = bits.button(self.tr("Open a GGUF file…"), "ghost", "plus", self._on_open_file)
        self.use_none = bits.button(self.tr("No model: answer with quotes only"), "ghost", "quote", self._on_none)
        self.use_none.setEnabled(bool(chat.path) or chat.told.state != "none")
        layout.addWidget(self.get_model)
        layout.addWidget(self.open_file)
        layout.addWidget(self.use_none)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # Wrapping labels report the height of one line until the width is fixed.
        self.resize(self.width(), self.heightForWidth(self.width()))

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()

    def _fault_card(self, fault: Fault) -> QWidget:
        """Returns a card with the problem of the chat's model, and the one that could answer instead."""
        card = bits.card("error" if fault.icon[1] == "bad" else "warning")
        self.fault = bits.label(fault.sentence, wraps=True)
        column = bits.column(self.fault, spacing=8)
        if (other := self._chat.alternative) is not None:
            words = self.tr("Answer with %1 in this chat").replace("%1", _short(other.name))
            self.use_alternative = bits.button(words, "primary", clicked=self._on_alternative)
            column.addLayout(bits.row(self.use_alternative, None))
        column.setContentsMargins(14, 12, 14, 12)
        card.setLayout(column)
        return card

    def _whose(self) -> QWidget:
        words = self.tr("The model of this chat. New chats begin with what you choose.")
        label = bits.label(words, "small", wraps=True)
        label.setContentsMargins(4, 0, 4, 0)
        return label

    def _list(self, room_px: int) -> QWidget:
        from app.widgets.model_row import ModelRow

        content = QWidget()
        content.setObjectName("clear")
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        path = self._chat.path
        # The one that answers here comes first, because the list may be longer than the popup.
        for entry in sorted(self._chat.models, key=lambda entry: entry.path != path):
            row = ModelRow(can_forget=False)
            is_current = entry.path == path and not entry.problem
            row.show_entry(entry, is_current, file=self._chat.file_of(entry.path))
            row.use_wanted.connect(self._on_use)
            row.unload_wanted.connect(self._on_none)
            row.allow_wanted.connect(self._on_allow)
            column.addWidget(row)
            self.rows.append(row)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setObjectName("clear")
        most = _LIST_LINES * self.fontMetrics().lineSpacing()
        scroll.setFixedHeight(min(most, room_px, content.sizeHint().height() + 2))
        return scroll

    def _no_models(self) -> QWidget:
        words = self.tr("Answers are quotes from your files until a model is chosen.")
        label = bits.label(words, "muted", wraps=True)
        label.setContentsMargins(10, 8, 10, 8)
        return label

    def _on_use(self, path: str, layers: int | None) -> None:
        self._chat.use(path, layers)
        self.close()

    def _on_none(self) -> None:
        self._chat.use_none()
        self.close()

    def _on_allow(self) -> None:
        self._chat.allow_losses()
        self.close()

    def _on_alternative(self) -> None:
        self._chat.use_alternative()
        self.close()

    def _on_get_model(self) -> None:
        self.close()
        self.get_model_wanted.emit()

    def _on_open_file(self) -> None:
        self.close()
        self.open_file_wanted.emit()


def _tr(text: str) -> str:
    return QCoreApplication.translate("ModelPicker", text)


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _NAME_CHARS else f"{shown[: _NAME_CHARS - 1]}…"
