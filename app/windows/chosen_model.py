"""Which model of a kind is in use, the progress of another one, and the button that opens the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QCoreApplication, QObject

from app.printable import printable
from app.widgets import bits
from app.widgets.download_row import progress_words
from app.widgets.elided import ElidedLabel

if TYPE_CHECKING:
    from app.models.hub_folders import HubFoldersModel


class ChosenModel(QObject):
    """The parts of a line of the settings page, which puts them where it wants them."""

    def __init__(self, models: HubFoldersModel[Any], text: str, choose: Callable[[], object], parent: QObject) -> None:
        """`text` is on the button."""
        super().__init__(parent)
        self._models = models
        self.button = bits.button(text, clicked=choose)
        self.name = ElidedLabel("", "small")
        self.coming = bits.label("", "small", wraps=True)
        self.coming.hide()
        models.downloads_changed.connect(self._show_coming)

    def show_name(self, name: str) -> None:
        self.name.setText(_tr("Now: %1").replace("%1", printable(name)))

    def _show_coming(self) -> None:
        coming = self._models.under_way
        if coming is not None:
            words = _tr("Downloading %1").replace("%1", coming.source.rpartition("/")[2])
            self.coming.setText(": ".join(part for part in (words, progress_words(coming)) if part))
        self.coming.setVisible(coming is not None)


def _tr(text: str) -> str:
    return QCoreApplication.translate("SettingsPage", text)
