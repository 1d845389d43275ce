"""A chip next to a citation whose document is out of reach or was removed; hidden for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.tips import plain_tip
from app.widgets import bits

if TYPE_CHECKING:
    from app.models.standings import Standing


class StandingChip(QLabel):
    """Shows a document's state; `words` is its text, for the accessible name of the citation."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setProperty("chip", "plain")
        self.hide()

    @property
    def words(self) -> str:
        return self.text()

    def show_standing(self, standing: Standing) -> None:
        bits.set_chip(self, standing_words(standing), "bad" if standing.state == "removed" else "warn")
        self.setToolTip(plain_tip(standing.reason))
        self.setVisible(bool(self.text()))


def standing_words(standing: Standing) -> str:
    """Returns `offline`, `removed`, or ""."""
    return {
        "offline": QCoreApplication.translate("standing", "offline"),
        "removed": QCoreApplication.translate("standing", "removed"),
    }.get(standing.state, "")
