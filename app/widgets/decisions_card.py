"""Why everything is where it is: the current decisions, and the recent ones with their time, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QDateTime, QLocale, Qt
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Decision, DecisionKind, MemoryReply

MAX_NOW, MAX_HISTORY = 8, 10
_ICON_PX = 14
_ICONS: dict[DecisionKind, tuple[str, str]] = {
    "placement": ("memory", "accent"),
    "given_up": ("chevron-down", "warn"),
    "taken_back": ("chevron-up", "good"),
    "refused": ("skipped", "muted"),
    "budget": ("settings", "muted"),
    "failure": ("warning", "bad"),
    "measured": ("memory", "muted"),
}


class DecisionsCard(QFrame):
    """Shows a MemoryReply's decisions; rebuilt only when they change."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._shown: tuple[tuple[str, ...], tuple[Decision, ...]] | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(20, 16, 20, 16)
        self._column.setSpacing(8)

    def lines(self) -> tuple[str, ...]:
        """Returns the decisions in force, then the history, without the times."""
        if self._shown is None:
            return ()
        return (*self._shown[0], *(decision.sentence for decision in self._shown[1]))

    def show_memory(self, memory: MemoryReply | None) -> None:
        """Shows a snapshot's decisions; None shows none."""
        now = memory.decisions[:MAX_NOW] if memory else ()
        history = memory.history[:MAX_HISTORY] if memory else ()
        if (now, history) != self._shown:
            self._shown = (now, history)
            self._rebuild(now, history)

    def _rebuild(self, now: tuple[str, ...], history: tuple[Decision, ...]) -> None:
        while (item := self._column.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        self._column.addWidget(bits.label(self.tr("Decisions"), "section"))
        for text in now:
            self._column.addWidget(_words(text))
        if now and history:
            self._column.addWidget(bits.line())
        for decision in history:
            self._column.addWidget(_line(decision))
        if not now and not history:
            self._column.addWidget(bits.label(self.tr("No decisions yet."), "muted"))
        self._column.addStretch(1)


def time_text(at: float) -> str:
    """Returns the time to the second, because decisions may follow each other within seconds."""
    return QLocale().toString(QDateTime.fromSecsSinceEpoch(int(at)).time(), "HH:mm:ss")


def _words(text: str) -> QLabel:
    # A word joiner keeps "tokens/s" from breaking at its slash.
    return bits.label(text.replace("/", "/\u2060"), wraps=True, selectable=True)


def _line(decision: Decision) -> QWidget:
    made = QWidget()
    when = bits.label(time_text(decision.at), "small")
    line = bits.row(spacing=8)
    line.addWidget(Picture(*_ICONS[decision.kind], _ICON_PX), 0, Qt.AlignmentFlag.AlignTop)
    line.addWidget(when, 0, Qt.AlignmentFlag.AlignTop)
    line.addWidget(_words(decision.sentence), 1)
    made.setLayout(line)
    return made
