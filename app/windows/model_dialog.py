"""A model file that was just opened: what it is and how it would run here, before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QWidget

from app.widgets import bits
from app.widgets.model_row import ModelRow

if TYPE_CHECKING:
    from engine.protocol import ModelEntry

_WIDTH_PX = 560


class ModelDialog(QDialog):
    """Shows a ModelEntry; it stays on the list of models whatever is chosen here."""

    use_wanted = Signal(object, object)  # path, n_gpu_layers as llama.cpp counts or None for the plan's
    allow_wanted = Signal(object)  # path; what its offer says may be lost

    def __init__(self, entry: ModelEntry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Model"))
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.row = ModelRow(can_forget=False)
        self.row.show_entry(entry, is_current=False)
        self.row.use_wanted.connect(self._on_use)
        self.row.allow_wanted.connect(self._on_allow)
        self.later = bits.button(self.tr("Not now"), clicked=self.reject)
        title = self.tr("This file cannot be used") if entry.problem else self.tr("Answer with this model?")
        layout = bits.column(bits.label(title, "heading"), self.row, spacing=12)
        layout.addWidget(bits.label(self.tr("It stays on the list of models either way."), "small", wraps=True))
        layout.addLayout(bits.row(None, self.later))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        (self.later if entry.problem else self.row.use).setFocus()

    def _on_allow(self) -> None:
        self.allow_wanted.emit(self.row.entry.path)
        self.accept()

    def _on_use(self, path: str, layers: int | None) -> None:
        self.use_wanted.emit(path, layers)
        self.accept()
