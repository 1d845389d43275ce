"""Attaching: files that are chosen for the open chat or pasted into it, and pasted content that becomes a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QIODevice, QObject
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QImage, QImageWriter

from app import pasted
from app.sentences import listed
from app.widgets.drop_overlay import is_model, models_among
from app.widgets.figures import file_name
from app.windows import file_choices

if TYPE_CHECKING:
    from app.models import AppModels
    from app.windows.main_window import MainWindow


_MOST_SPOKEN = 5
# Of 100: a large screenshot takes less than half the time of Qt's default, and a tenth more room.
_PNG_COMPRESSION = 30


class Attaching(QObject):
    """Handles what is attached in the prompt of a window's chat."""

    def __init__(self, window: MainWindow, models: AppModels) -> None:
        super().__init__(window)
        self._window, self._models, self._prompt = window, models, window.chat.prompt
        self._prompt.attach_wanted.connect(self.choose)
        self._prompt.files_pasted.connect(self.take)
        self._prompt.picture_pasted.connect(self._keep_picture)
        self._prompt.keep_wanted.connect(self._keep_text)

    def choose(self) -> None:
        file_choices.choose_files(self._window, self.take)

    def take(self, paths: tuple[str, ...]) -> None:
        """Attaches folders and files; models among them are opened."""
        if others := tuple(path for path in paths if not is_model(path)):
            self._attach(others)
        self._window.adding.add_models(models_among(paths))

    def _attach(self, paths: tuple[str, ...]) -> None:
        self._models.attach(paths)
        words = self.tr("Attached: %1").replace("%1", listed(map(file_name, paths[:_MOST_SPOKEN])))
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._prompt, words))

    def _keep_text(self, text: str) -> None:
        if self._keep(lambda folder: pasted.keep_text(folder, text, date.today())):
            self._prompt.paste_is_kept()

    def _keep_picture(self, picture: QImage) -> None:
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        writer = QImageWriter(buffer, b"png")
        writer.setCompression(_PNG_COMPRESSION)
        writer.write(picture)
        png = bytes(buffer.data().data())
        self._keep(lambda folder: pasted.keep_picture(folder, png, date.today()))

    def _keep(self, write: Callable[[Path], Path]) -> bool:
        """Writes a file and attaches it; returns whether it could be written."""
        folder = self._models.pasted_folder
        try:
            file = write(folder)
        except OSError as error:
            sentence = self.tr("The pasted content could not be saved as a file: %1.")
            way_out = self.tr("Free some space on the disk that holds %1, then paste it again.")
            self._window.notices.tell(
                "error", sentence.replace("%1", str(error.strerror)), way_out.replace("%1", str(folder))
            )
            return False
        self._attach((str(file),))
        return True
