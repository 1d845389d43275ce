"""The progress of a question to every file: how many have answered, how long the rest takes; pause, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QProgressBar, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.figures import count_text, seconds_text
from app.widgets.flow import FlowLayout, put_beside

if TYPE_CHECKING:
    from app.models.each_file import EachFileModel

# With less room, the buttons are below the figures.
_FIGURES_LETTERS = 24


class RunCard(QFrame):
    """Shows an EachFileModel; hidden while it has no run. Its buttons report wishes by signals."""

    export_wanted = Signal()
    delete_wanted = Signal()

    def __init__(self, model: EachFileModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._model = model
        self._question = bits.label("", "strong", wraps=True, selectable=True)
        self._figures = bits.label("", "small", wraps=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("How many files have answered"))
        self.pause = bits.button(self.tr("Pause"), icon="pause", clicked=model.pause)
        self.resume = bits.button(self.tr("Resume"), "primary", "resume", model.resume)
        self.ask_again = bits.button(self.tr("Retry failed"), icon="regenerate", clicked=model.ask_failed_again)
        self.export = bits.button(self.tr("Export as CSV…"), icon="table", clicked=self.export_wanted.emit)
        self.delete = bits.tool("close", self.tr("Delete these answers"), self.delete_wanted.emit)
        head = bits.row(spacing=8)
        head.addWidget(self._question, 1)
        head.addWidget(self.delete)
        self._buttons = QWidget()
        flow = FlowLayout(self._buttons, spacing=8)
        for button in (self.pause, self.resume, self.ask_again, self.export):
            flow.addWidget(button)
        self._foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._foot.setSpacing(8)
        self._foot.addWidget(self._figures, 1)
        self._foot.addWidget(self._buttons)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 10)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self._bar)
        layout.addLayout(self._foot)
        model.run_changed.connect(self._show)
        model.progress_changed.connect(self._show)
        self._show()

    @property
    def figures(self) -> str:
        return self._figures.text()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        letter = self.fontMetrics().averageCharWidth()
        needed = self._buttons.sizeHint().width() + _FIGURES_LETTERS * letter
        put_beside(self._foot, self._buttons, is_beside=self.width() >= needed)

    def _show(self) -> None:
        model = self._model
        self.setVisible(model.state != "none")
        is_listing = model.state == "listing"
        self._question.setText(model.run.question if model.run is not None else "")
        self._figures.setText(self.tr("Looking for files…") if is_listing else " · ".join(self._facts()))
        self._bar.setRange(0, 0 if is_listing else max(1, model.num_files))
        self._bar.setValue(model.num_answered)
        self._bar.setVisible(model.state != "finished")
        self._show_buttons()
        self.delete.setVisible(model.run is not None)

    def _show_buttons(self) -> None:
        """Shows the buttons of the state; a hidden one passes the focus to its opposite, not to the next button."""
        model = self._model
        is_shown = {
            self.pause: model.state in ("running", "listing"),
            self.resume: model.state == "paused",
            self.ask_again: model.state in ("paused", "finished") and model.num_failed > 0,
            self.export: model.num_answered > 0,
        }
        # Buttons are shown before others are hidden, which pass the focus to them.
        for button in sorted(is_shown, key=lambda button: not is_shown[button]):
            if button.hasFocus() and not is_shown[button]:
                opposite = self.resume if is_shown[self.resume] else self.pause
                opposite.setFocus()
            button.setVisible(is_shown[button])
        self._fit()

    def _facts(self) -> list[str]:
        model = self._model
        answered = self.tr("%1 of 1 file answered") if model.num_files == 1 else self.tr("%1 of %2 files answered")
        facts = [answered.replace("%1", count_text(model.num_answered)).replace("%2", count_text(model.num_files))]
        if model.num_failed:
            facts.append(self.tr("%1 failed").replace("%1", count_text(model.num_failed)))
        if model.state == "paused":
            facts.append(self.tr("paused"))
        if (left := model.seconds_left) is not None:
            facts.append(self.tr("about %1 left").replace("%1", seconds_text(max(1.0, left))))
        return facts
