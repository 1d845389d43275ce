"""Many files of a linked folder went missing at once: nothing happens until the user decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.printable import printable
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.figures import count_text, file_name
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Folder


class DecisionCard(QFrame):
    """Shows a Folder with `num_gone`; keeping acts at once, removing is confirmed by the listener."""

    keep_wanted = Signal(object)  # folder
    remove_wanted = Signal(object)  # folder

    def __init__(self, folder: Folder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.folder = folder
        self.setProperty("card", "warning")
        self._sentence = bits.label("", wraps=True)
        self.show_folder(folder)
        self._sentence.setToolTip(plain_tip(printable(folder.path)))
        self._words = bits.label(
            self.tr(
                "They may have been deleted, or moved to a folder that is not in the library. "
                "They can be searched until you decide."
            ),
            "small",
            wraps=True,
        )
        self.keep = bits.button(self.tr("Keep them in the index"), clicked=lambda: self.keep_wanted.emit(folder.path))
        self.remove = bits.button(self.tr("Remove them…"), "danger", clicked=self._on_remove)
        inner = bits.row(spacing=12)
        inner.addWidget(Picture("warning", "warn"), 0, Qt.AlignmentFlag.AlignTop)
        inner.addLayout(bits.column(self._sentence, self._words, spacing=2), 1)
        inner.addWidget(self.keep)
        inner.addWidget(self.remove)
        inner.setContentsMargins(14, 12, 12, 12)
        self.setLayout(inner)

    def show_folder(self, folder: Folder) -> None:
        """Takes the present state of the same folder."""
        self.folder = folder
        self._sentence.setText(gone_sentence(self, folder))

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def _on_remove(self) -> None:
        self.remove_wanted.emit(self.folder.path)


def gone_sentence(widget: QWidget, folder: Folder) -> str:
    """Returns what is missing: `412 of 600 files in Photos are gone`."""
    words = widget.tr("%1 of %2 files in %3 are gone.")
    for place, text in (
        ("%1", count_text(folder.num_gone)),
        ("%2", count_text(max(folder.num_documents, folder.num_gone))),
        ("%3", file_name(folder.path)),
    ):
        words = words.replace(place, text)
    return words
