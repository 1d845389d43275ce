"""The models that other applications have downloaded to this computer, how each would run, and its button."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QScrollArea, QWidget

from app.widgets import bits
from app.widgets.model_row import ModelRow

if TYPE_CHECKING:
    from app.models.found_models import FoundModelsModel

_WIDTH_PX, _HEIGHT_PX = 620, 520


class FoundModelsDialog(QDialog):
    """Searches for models when it is opened. Files stay where they are, whatever is chosen."""

    use_wanted = Signal(object, object)  # path, n_gpu_layers as llama.cpp counts or None for the plan's
    allow_wanted = Signal(object)  # path; what its offer says may be lost
    list_wanted = Signal(object)  # paths; to be listed, without using any of them

    def __init__(self, found: FoundModelsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._found = found
        self.setWindowTitle(self.tr("Models on this computer"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(_WIDTH_PX, _HEIGHT_PX)
        self.rows: list[ModelRow] = []
        self.words = bits.label("", wraps=True)
        content = QWidget()
        content.setObjectName("column")
        self._column = bits.column(spacing=12)
        column = bits.column(spacing=0)
        column.addLayout(self._column)
        column.addStretch(1)
        content.setLayout(column)
        self._scroll = QScrollArea()
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list_all = bits.button(self.tr("Add all to the list"), clicked=self._on_list_all)
        self.close_button = bits.button(self.tr("Close"), clicked=self.reject)
        layout = bits.column(bits.label(self.windowTitle(), "heading"), self.words, spacing=12)
        layout.addWidget(self._scroll, 1)
        layout.addLayout(bits.row(None, self.list_all, self.close_button))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        found.found_changed.connect(self._show)
        found.look()

    def _show(self) -> None:
        models = self._found.models
        self.words.setText(self._sentence())
        bits.drop(self._column, self.rows)
        self.rows = []
        for found in models or ():
            row = ModelRow(can_forget=False)
            row.show_entry(found.model, is_current=False, state=found.app or self.tr("Folder of models"))
            row.use_wanted.connect(self._on_use)
            row.allow_wanted.connect(partial(self._on_allow, found.model.path))
            self._column.addWidget(row)
            self.rows.append(row)
        self.list_all.setVisible(len(self.rows) > 1)
        bits.chain_tabs([*(control for row in self.rows for control in row.controls), self.list_all, self.close_button])

    def _sentence(self) -> str:
        if self._found.problem:
            return self._found.problem
        if self._found.models is None:
            return self.tr("Searching the folders of LM Studio, GPT4All, Jan, Ollama and others…")
        if not self._found.models:
            return self.tr("No other model was found in the folders of LM Studio, GPT4All, Jan, Ollama and others.")
        return self.tr("They are used where they are; nothing is copied.")

    def _on_use(self, path: str, layers: int | None) -> None:
        self.use_wanted.emit(path, layers)
        self.accept()

    def _on_allow(self, path: str) -> None:
        self.allow_wanted.emit(path)
        self.accept()

    def _on_list_all(self) -> None:
        self.list_wanted.emit(tuple(row.entry.path for row in self.rows))
        self.accept()
