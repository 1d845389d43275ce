"""The placement map: one lane per tier, and the legend of what occurs in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import (
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.widgets import bits, memory_tiles
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text
from app.widgets.flow import FlowLayout
from app.widgets.memory_lane import MemoryLane, kind_name

if TYPE_CHECKING:
    from engine.protocol import TierSnapshot

_TIER_COLUMN_PX = 136


class _Swatch(QWidget):
    """A small square of an owner's colour; the words beside it say the same."""

    def __init__(self, kind: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = kind
        self.setFixedSize(QSize(12, 12))
        self.setAccessibleDescription(kind_name(kind))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.current().owners[self._kind]))
        painter.drawRoundedRect(QRectF(self.rect()), 3, 3)
        painter.end()


class MemoryMap(QWidget):
    """Lanes and legend. Snapshots that arrive while it is hidden are kept, not painted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tiers: tuple[TierSnapshot, ...] = ()
        self._is_stale = False
        self._lanes: list[tuple[QWidget, QLabel, QLabel, MemoryLane]] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(16)
        legend = QWidget()
        self._legend = FlowLayout(legend, spacing=16)
        self._legend_kinds: tuple[int, ...] = ()
        self._layout.addWidget(legend)

    def lanes(self) -> tuple[MemoryLane, ...]:
        return tuple(lane for *_, lane in self._lanes)

    def show_tiers(self, tiers: Sequence[TierSnapshot]) -> None:
        if tuple(tiers) == self._tiers:
            return
        self._tiers, self._is_stale = tuple(tiers), True
        if self.isVisible():
            self._rebuild()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._rebuild()

    def _rebuild(self) -> None:
        self._is_stale = False
        while len(self._lanes) < len(self._tiers):
            self._add_lane()
        for (words, name, figures, lane), tier in zip(self._lanes, self._tiers, strict=False):
            used = tier.capacity_bytes - tier.free_bytes
            name.setText(tier.name)
            figures.setText(
                self.tr("%1 of %2").replace("%1", bytes_text(used)).replace("%2", bytes_text(tier.capacity_bytes))
            )
            lane.show_tier(tier)
            words.show()
            lane.show()
        for words, *_, lane in self._lanes[len(self._tiers) :]:
            words.hide()
            lane.hide()
        self._rebuild_legend()

    def _add_lane(self) -> None:
        name = ElidedLabel("", "strong", Qt.TextElideMode.ElideRight)
        figures, lane = bits.label("", "small"), MemoryLane()
        words = QWidget()
        words.setFixedWidth(_TIER_COLUMN_PX)
        words.setLayout(bits.column(name, figures, spacing=2))
        self._lanes.append((words, name, figures, lane))
        self._layout.insertLayout(len(self._lanes) - 1, bits.row(words, lane, spacing=8))

    def _rebuild_legend(self) -> None:
        kinds = memory_tiles.kinds_shown([lane.tiles for lane in self.lanes()])
        if kinds == self._legend_kinds:
            return
        self._legend_kinds = kinds
        while (item := self._legend.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for kind in kinds:
            entry = QWidget()
            entry.setLayout(bits.row(_Swatch(kind), bits.label(kind_name(kind), "small"), spacing=8))
            self._legend.addWidget(entry)
        self._legend.addWidget(bits.label(self.tr("Striped: moving"), "small"))
