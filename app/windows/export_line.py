"""Export of all chats and import, in the settings: the buttons that begin them, and the progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.printable import printable
from app.sentences import joined
from app.widgets import bits
from app.widgets.figures import count_text
from app.windows import file_choices

if TYPE_CHECKING:
    from app.models.chat_exports import ChatExports, Format


class ExportLine(QWidget):
    """Asks for a folder and shows a ChatExports that writes into it."""

    message_told = Signal(str, str, str)  # severity, sentence, way out
    import_wanted = Signal()  # choose files
    folder_import_wanted = Signal()  # choose a folder

    def __init__(self, exports: ChatExports, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exports = exports
        self.button = bits.button(self.tr("Export all chats…"), clicked=lambda: self._choose_folder("md"))
        self.json_button = bits.button(self.tr("Export as JSON…"), clicked=lambda: self._choose_folder("json"))
        self.import_button = bits.button(self.tr("Import chats…"), clicked=self.import_wanted.emit)
        self.folder_button = bits.button(self.tr("Import a folder…"), clicked=self.folder_import_wanted.emit)
        self.state = bits.label("", "small", wraps=True)
        self.state.hide()
        words = self.tr("One Markdown file for each chat, in a new folder. The chats stay here.")
        json_words = self.tr("JSON files hold all of a chat, and can be imported again, also on another computer.")
        self.button.setAccessibleDescription(words)
        self.json_button.setAccessibleDescription(json_words)
        text = bits.column(bits.label(self.tr("Your chats as files")), spacing=2)
        text.addWidget(bits.label(joined(words, json_words), "small", wraps=True))
        text.addWidget(self.state)
        buttons = bits.column(self.button, self.json_button, self.import_button, self.folder_button, spacing=6)
        line = bits.row(spacing=24)
        line.addLayout(text, 1)
        line.addLayout(buttons)
        self.setLayout(line)
        exports.progressed.connect(self._on_progressed)
        exports.finished.connect(self._on_finished)
        exports.failed.connect(self._on_failed)

    def _choose_folder(self, form: Format) -> None:
        # The button stays enabled in the meantime, because a disabled one would lose the focus.
        if not self._exports.is_writing:
            file_choices.choose_folder(self, lambda paths: self._exports.write_all(Path(paths[0]), form))

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
