"""Export of all chats, in the settings: the button that begins it, and the progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.printable import printable
from app.widgets import bits
from app.widgets.figures import count_text
from app.windows import file_choices

if TYPE_CHECKING:
    from app.models.chat_exports import ChatExports


class ExportLine(QWidget):
    """Asks for a folder and shows a ChatExports that writes into it."""

    message_told = Signal(str, str, str)  # severity, sentence, way out

    def __init__(self, exports: ChatExports, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exports = exports
        self.button = bits.button(self.tr("Export all chats…"), clicked=self._choose_folder)
        self.state = bits.label("", "small", wraps=True)
        self.state.hide()
        words = self.tr("One Markdown file for each chat, in a new folder. The chats stay here.")
        self.button.setAccessibleDescription(words)
        text = bits.column(bits.label(self.tr("Your chats as files")), spacing=2)
        text.addWidget(bits.label(words, "small", wraps=True))
        text.addWidget(self.state)
        line = bits.row(spacing=24)
        line.addLayout(text, 1)
        line.addWidget(self.button)
        self.setLayout(line)
        exports.progressed.connect(self._on_progressed)
        exports.finished.connect(self._on_finished)
        exports.failed.connect(self._on_failed)

    def _choose_folder(self) -> None:
        # The button stays enabled in the meantime, because a disabled one would lose the focus.
        if not self._exports.is_writing:
            file_choices.choose_folder(self, lambda paths: self._exports.write_all(Path(paths[0])))

    def _on_progressed(self, num_written: int, num_chats: int) -> None:
        words = self.tr("%1 of %2 chats have been written…").replace("%2", count_text(num_chats))
        self._show(words.replace("%1", count_text(num_written)))

    def _on_finished(self, num_written: int, folder: str) -> None:
        words = {0: self.tr("There are no chats yet."), 1: self.tr("1 chat was written to %2.")}
        sentence = words.get(num_written, self.tr("%1 chats were written to %2."))
        self._show(sentence.replace("%1", count_text(num_written)).replace("%2", printable(folder)))

    def _on_failed(self, num_written: int, num_chats: int, reason: str) -> None:
        self._show("")
        words = self.tr("%1 of %2 chats were written, the next one could not be: %3.")
        figures = {"%1": count_text(num_written), "%2": count_text(num_chats), "%3": reason}
        if not num_written:
            words = self.tr("The chats could not be written: %3.")
        for place, figure in figures.items():
            words = words.replace(place, figure)
        self.message_told.emit("error", words, self.tr("Free some space, or choose another folder."))

    def _show(self, sentence: str) -> None:
        self.state.setText(sentence)
        self.state.setVisible(bool(sentence))
