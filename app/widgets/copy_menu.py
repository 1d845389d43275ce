"""The other ways to copy an answer: with its sources, or as plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from app.widgets.answer_copies import plain_text, source_lines, with_sources

if TYPE_CHECKING:
    from app.models.turns import TurnView


class CopyMenu(QMenu):
    """Copies the turn that `turn` returns; emits `copied` afterwards."""

    copied = Signal()

    def __init__(self, turn: Callable[[], TurnView], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._turn = turn
        self.with_sources = self.addAction(self.tr("Copy with sources"), self._on_with_sources)
        self.plain = self.addAction(self.tr("Copy as plain text"), self._on_plain)
        self.aboutToShow.connect(self._on_about_to_show)

    def _on_about_to_show(self) -> None:
        # Not each time the answer grows, because it has to be parsed for its citations.
        self.with_sources.setEnabled(bool(source_lines(self._turn())))

    def _on_with_sources(self) -> None:
        QGuiApplication.clipboard().setMimeData(with_sources(self._turn()))
        self.copied.emit()

    def _on_plain(self) -> None:
        QGuiApplication.clipboard().setText(plain_text(self._turn()))
        self.copied.emit()
