"""The button at the top of a chat that says which model answers, and the list it opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits

if TYPE_CHECKING:
    from app.models.model_picker import ModelPickerModel
    from app.widgets.model_row import ModelRow

_POPUP_WIDTH_PX = 540
_LIST_HEIGHT_PX = 360
_NAME_CHARS = 36


class ModelPicker(QPushButton):
    """Shows a ModelPickerModel's state in words; before there is one it says that the engine is starting."""

    open_file_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picker: ModelPickerModel | None = None
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

    def attach(self, picker: ModelPickerModel) -> None:
        self._picker = picker
        picker.state_changed.connect(self._show)
        picker.models_changed.connect(self._show)
        self._show()

    def open_popup(self) -> None:
        if self._picker is None:
            return
        self._popup = ModelPopup(self._picker, self)
        self._popup.open_file_wanted.connect(self.open_file_wanted)
        self._popup.closed.connect(lambda: bits.unhover(self))
        self._popup.move(self.mapToGlobal(QPoint(0, self.height() + 4)))
        self._popup.show()

    def _show(self) -> None:
        text, tip = self._words()
        self.setText(f" {text}")
        self.setToolTip(tip)
        self.setAccessibleName(self.tr("Model: %1").replace("%1", text))
        is_failed = self._picker is not None and self._picker.state == "failed"
        theme.dress(self, "failed" if is_failed else "models", "bad" if is_failed else "muted")

    def _words(self) -> tuple[str, str]:
        picker = self._picker
        if picker is None:
            return self.tr("No model · quotes only"), self.tr("The engine is starting.")
        name = _short(picker.name or (picker.current_entry.name if picker.current_entry else ""))
        if picker.state == "loading":
            words = self.tr("Loading %1 · %2 %").replace("%1", name)
            return words.replace("%2", str(round(picker.fraction * 100))), picker.sentence
        if picker.state == "failed":
            return self.tr("%1 could not be loaded").replace("%1", name or self.tr("Model")), picker.sentence
        if picker.state == "loaded" or picker.current:
            return name, picker.sentence or self.tr("Loads with the first question")
        return self.tr("No model · quotes only"), self.tr("Answers are quotes from your files until a model is chosen.")


class ModelPopup(QWidget):
    """The known models, a way to open another, and a way to use none; closes with the choice."""

    open_file_wanted = Signal()
    closed = Signal()

    def __init__(self, picker: ModelPickerModel, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.setAccessibleName(self.tr("Choose a model"))
        self.setFixedWidth(_POPUP_WIDTH_PX)
        self._picker = picker
        self.rows: list[ModelRow] = []
        # A frame inside: a translucent top-level widget has no background of its own to round.
        frame = QFrame()
        frame.setObjectName("popup")
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(frame)
        layout = QVBoxLayout(frame)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(8)
        layout.addWidget(self._list() if picker.models else self._no_models())
        self.open_file = bits.button(self.tr("Open a GGUF file…"), "ghost", "plus", self._on_open_file)
        self.use_none = bits.button(self.tr("No model: answer with quotes only"), "ghost", "quote", self._on_none)
        self.use_none.setEnabled(bool(picker.current) or picker.state != "none")
        layout.addWidget(self.open_file)
        layout.addWidget(self.use_none)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()

    def _list(self) -> QWidget:
        from app.widgets.model_row import ModelRow

        content = QWidget()
        content.setObjectName("clear")
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for entry in self._picker.models:
            is_current = bool(self._picker.current) and entry.path == self._picker.current
            row = ModelRow(entry, is_current, can_forget=False)
            row.use_wanted.connect(self._on_use)
            row.unload_wanted.connect(self._on_none)
            column.addWidget(row)
            self.rows.append(row)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setObjectName("clear")
        scroll.setFixedHeight(min(_LIST_HEIGHT_PX, content.sizeHint().height() + 2))
        return scroll

    def _no_models(self) -> QWidget:
        words = self.tr("Answers are quotes from your files until a model is chosen.")
        label = bits.label(words, "muted", wraps=True)
        label.setContentsMargins(10, 8, 10, 8)
        return label

    def _on_use(self, path: str, layers: int | None) -> None:
        self._picker.use(path, layers)
        self.close()

    def _on_none(self) -> None:
        self._picker.use_none()
        self.close()

    def _on_open_file(self) -> None:
        self.close()
        self.open_file_wanted.emit()


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
