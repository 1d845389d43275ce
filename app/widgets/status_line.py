"""The line at the foot of the window: what the engine is doing, and how much memory it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text
from app.widgets.picture import Picture
from app.widgets.spinner import Spinner
from app.widgets.tier_names import tier_name

if TYPE_CHECKING:
    from app.models.engine_status import EngineStatusModel
    from app.models.memory import MemoryModel
    from app.models.remark import RemarkModel


class StatusLine(QWidget):
    """Shows an EngineStatusModel, recent decisions for a while, and the use of the fast tiers of a MemoryModel."""

    restart_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("statusLine")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._status: EngineStatusModel | None = None
        self._memory: MemoryModel | None = None
        self._remark: RemarkModel | None = None
        self._spinner = Spinner(12)
        self._picture = Picture("done", "good", 14)
        self._sentence = ElidedLabel(self.tr("Starting…"), "small", Qt.TextElideMode.ElideRight)
        self._restart = bits.button(self.tr("Restart the engine"), "link", clicked=self.restart_wanted.emit)
        self._tiers = bits.label("", "small")
        line = bits.row(self._spinner, self._picture, spacing=8)
        line.addWidget(self._sentence, 1)
        line.addWidget(self._restart)
        line.addWidget(self._tiers)
        line.setContentsMargins(16, 4, 16, 4)
        self.setLayout(line)
        self._restart.hide()
        self._picture.hide()

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def attach(self, status: EngineStatusModel, memory: MemoryModel, remark: RemarkModel) -> None:
        self._status, self._memory, self._remark = status, memory, remark
        remark.sentence_changed.connect(self._show_status)
        status.sentence_changed.connect(self._show_status)
        memory.snapshot_changed.connect(self._show_memory)
        self._show_status()
        self._show_memory()

    def _show_status(self) -> None:
        status = self._status
        if status is None:
            return
        remark = self._remark.sentence if self._remark is not None and not status.has_failed else ""
        self._sentence.setText(remark or status.sentence)
        self._sentence.setAccessibleName(self._sentence.text())
        self._spinner.setVisible(status.is_busy and not remark)
        self._picture.setVisible(not status.is_busy or bool(remark))
        self._picture.show_icon(*_icon(status.has_failed, bool(remark)))
        self._restart.setVisible(status.has_failed)

    def _show_memory(self) -> None:
        tiers = self._memory.tiers if self._memory is not None else ()
        held = [
            f"{tier_name(tier.name)} {bytes_text(sum(span.num_bytes for span in tier.spans))}"
            for tier in tiers
            if tier.tier != "disk" and tier.spans
        ]
        if self._tiers.text() != " · ".join(held):
            self._tiers.setText(" · ".join(held))
        self._tiers.setToolTip(self.tr("The memory that Ragdoll uses right now") if held else "")


def _icon(has_failed: bool, is_remark: bool) -> tuple[str, str]:
    """Returns the icon and its colour in the theme."""
    if has_failed:
        return "failed", "bad"
    return ("memory", "accent") if is_remark else ("done", "good")
