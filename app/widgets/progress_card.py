"""The indexing job: files, chunks, bytes, rate, time left, current file; pause, resume, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar, QVBoxLayout, QWidget

from app import theme
from app.printable import printable
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, count_text, seconds_text

_STEPS = 1000
_LEAST_RATE = 0.5

if TYPE_CHECKING:
    from engine.protocol import IndexProgress


class ProgressCard(QFrame):
    """Shown while there is a job, or while new files wait; `show_progress(None)` hides it."""

    pause_wanted = Signal()
    resume_wanted = Signal()
    cancel_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._is_paused = False
        self._title = bits.label(self.tr("Indexing"), "strong")
        self._figures = bits.label("", "small", wraps=True)
        self._current = ElidedLabel("", "small", Qt.TextElideMode.ElideLeft)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Indexing progress"))
        self._pause = bits.tool("pause", self.tr("Pause indexing"), self._on_pause)
        self._cancel = bits.tool("close", self.tr("Cancel indexing"), self.cancel_wanted.emit)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 14)
        layout.setSpacing(6)
        head = bits.row(self._title, spacing=8)
        head.addWidget(self._figures, 1)
        head.addWidget(self._pause)
        head.addWidget(self._cancel)
        layout.addLayout(head)
        layout.addWidget(self._bar)
        layout.addWidget(self._current)
        self.hide()

    def show_progress(
        self, progress: IndexProgress | None, fraction: float | None = None, *, is_held: bool = False
    ) -> None:
        """Shows a job; `fraction` is its progress, from 0 to 1; None while its files are still being counted.

        `is_held`: there is no job, but new files wait because the user has paused indexing.
        """
        self.setVisible(progress is not None or is_held)
        for part in (self._bar, self._current):
            part.setVisible(progress is not None)
        if progress is None:
            self._figures.setText("")
            self._set_paused(is_held)
            return
        self._bar.setRange(0, 0 if fraction is None else _STEPS)  # 0 of 0: busy
        self._bar.setValue(round(_STEPS * (fraction or 0.0)))
        self._figures.setText(" · ".join(self._facts(progress)))
        self._current.setText(printable(progress.current))
        self._set_paused(progress.is_paused)

    @property
    def figures(self) -> str:
        return self._figures.text()

    @property
    def share(self) -> float:
        """Returns how full the bar is, from 0 to 1."""
        return max(0, self._bar.value()) / _STEPS

    def _facts(self, progress: IndexProgress) -> list[str]:
        done, total = count_text(progress.documents_done), count_text(progress.documents_total)
        facts = [
            self.tr("%1 of %2 files").replace("%1", done).replace("%2", total)
            if progress.documents_total
            else self.tr("counting files"),
            self.tr("%1 chunks").replace("%1", count_text(progress.chunks_done)),
        ]
        if progress.bytes_total:
            facts.append(
                self.tr("%1 of %2")
                .replace("%1", bytes_text(progress.bytes_done))
                .replace("%2", bytes_text(max(progress.bytes_total, progress.bytes_done)))
            )
        if progress.is_paused:
            return facts
        if progress.gives_way:
            # The time left at this temporary rate would be alarming and wrong.
            return [*facts, self.tr("slower until your question is answered")]
        return facts + self._rates(progress)

    def _rates(self, progress: IndexProgress) -> list[str]:
        facts = []
        # Before the first chunk is done, a rate of 0 would be misleading.
        if progress.chunks_per_second and progress.chunks_per_second >= _LEAST_RATE:
            facts.append(self.tr("%1 chunks/s").replace("%1", count_text(progress.chunks_per_second)))
        if progress.eta_seconds is not None:
            facts.append(self.tr("%1 left").replace("%1", seconds_text(max(1.0, progress.eta_seconds))))
        return facts

    def _set_paused(self, is_paused: bool) -> None:
        self._title.setText(self.tr("Indexing is paused") if is_paused else self.tr("Indexing"))
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            bits.rename(self._pause, self.tr("Resume indexing") if is_paused else self.tr("Pause indexing"))
            theme.dress(self._pause, "resume" if is_paused else "pause")

    def _on_pause(self) -> None:
        (self.resume_wanted if self._is_paused else self.pause_wanted).emit()
