"""Which question to every file is running while another one is shown, its progress, and a button to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.widgets import bits

if TYPE_CHECKING:
    from app.models.each_file import EachFileModel

_CHARACTERS = 80


class AskedLine(QWidget):
    """Shows an EachFileModel; hidden unless the running question is not the shown one."""

    focus_left = Signal()  # the line hides while it has the focus

    def __init__(self, model: EachFileModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._words = bits.label("", "small", wraps=True)
        self.show_it = bits.button(self.tr("Show it"), icon="table", clicked=self._on_show_it)
        line = bits.row(spacing=8)
        line.addWidget(self._words, 1)
        line.addWidget(self.show_it)
        self.setLayout(line)
        model.run_changed.connect(self._show)
        model.progress_changed.connect(self._show)
        self._show()

    @property
    def words(self) -> str:
        return self._words.text()

    def _show(self) -> None:
        model = self._model
        is_elsewhere = model.asked is not None and model.state != "running"
        if model.asked is not None and is_elsewhere:
            answered, total = model.asked_progress
            words = self.tr("“%1” is still being asked, %2 %")
            question = model.asked.question[:_CHARACTERS]
            self._words.setText(words.replace("%2", str(100 * answered // total)).replace("%1", question))
        had_focus = self.show_it.hasFocus()
        self.setVisible(is_elsewhere)
        if had_focus and not is_elsewhere:
            self.focus_left.emit()

    def _on_show_it(self) -> None:
        if self._model.asked is not None:
            self._model.open(self._model.asked.run_id)
