"""The memory map: the model's layers by index, one lane per tier, what just moved in words, and the legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.models.memory_moves import Move
from app.widgets import bits, layer_homes, memory_tiles
from app.widgets.elided import ElidedLabel
from app.widgets.figures import WIDEST_BYTES, bytes_text, count_text
from app.widgets.layer_strip import LayerStrip
from app.widgets.memory_lane import MemoryLane
from app.widgets.memory_legend import MemoryLegend
from app.widgets.moves_line import MovesLine
from app.widgets.roomy_label import RoomyLabel
from app.widgets.tier_names import tier_name

if TYPE_CHECKING:
    from app.models.cell_use import CellUse
    from engine.protocol import Tier, TierSnapshot

_NAME_LETTERS = 20
# How far streaming stripes move between snapshots; half their period would look as if they stood still.
_FLOW_PX = 3
_GAP_PX = 8


class MemoryMap(QWidget):
    """Strip, lanes and legend. Snapshots that arrive while it is hidden are kept, not painted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tiers: tuple[TierSnapshot, ...] = ()
        self._cells: CellUse | None = None
        self._is_stale = False
        self._flow = 0
        self._lanes: list[tuple[QWidget, QLabel, QLabel, MemoryLane]] = []
        self.strip = LayerStrip()
        self._layers_words, _title, self._layers_figures = self._make_words(self.tr("Model layers"))
        self.moves = MovesLine()
        self.legend = MemoryLegend()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(10)
        self._layout.addLayout(bits.row(self._layers_words, self.strip, spacing=_GAP_PX))
        self._layout.addWidget(self.moves)
        self._layout.addWidget(self.legend)

    def lanes(self) -> tuple[MemoryLane, ...]:
        return tuple(lane for *_, lane in self._lanes)

    def lane_of(self, tier: Tier) -> MemoryLane | None:
        """Returns the lane of a tier; None if the machine has no such tier, or nothing was shown yet."""
        kinds = [shown.tier for shown in self._tiers]
        return self.lanes()[kinds.index(tier)] if tier in kinds and len(self._lanes) >= len(kinds) else None

    def show_tiers(
        self,
        tiers: Sequence[TierSnapshot],
        cells: CellUse | None = None,
        moves: Sequence[Move] = (),
        *,
        is_streaming: bool = False,
    ) -> None:
        """Shows what each owner holds now.

        Args:
            tiers: The tiers of a snapshot.
            cells: Which chats use the cells of the context.
            moves: What moved since the last snapshot: marked and described for a moment.
            is_streaming: Layers are being read from the disk right now, and are shown moving.
        """
        self.moves.show_streaming(is_streaming)
        if (tuple(tiers), cells) == (self._tiers, self._cells) and not is_streaming:
            return
        self._tiers, self._cells = tuple(tiers), cells
        self._flow += _FLOW_PX if is_streaming else 0
        self._is_stale = True
        if self.isVisible():
            self._rebuild(moves)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._rebuild(())

    def _rebuild(self, moves: Sequence[Move]) -> None:
        self._is_stale = False
        while len(self._lanes) < len(self._tiers):
            self._add_lane()
        for (words, name, figures, lane), tier in zip(self._lanes, self._tiers, strict=False):
            _say(name, tier_name(tier.name))
            held = sum(span.num_bytes for span in tier.spans)
            _say(figures, self._held_words(held, tier.capacity_bytes))
            lane.show_tier(tier, self._cells, moves, self._flow)
            words.show()
            lane.show()
        for words, *_, lane in self._lanes[len(self._tiers) :]:
            words.hide()
            lane.hide()
        self._show_layers()
        self.moves.indent(max((words.sizeHint().width() for words, *_ in self._lanes), default=0) + _GAP_PX)
        self.moves.note(moves)
        self._show_legend()

    def _make_words(self, title: str = "") -> tuple[QWidget, QLabel, QLabel]:
        """Returns the words left of a lane: its name, and a line of figures below."""
        name = ElidedLabel(title, "strong", Qt.TextElideMode.ElideRight, letters=_NAME_LETTERS)
        figures = RoomyLabel(self._held_words(WIDEST_BYTES, WIDEST_BYTES), "small")
        words = QWidget()
        words.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        column = bits.column(name, figures, spacing=2)
        column.addStretch(1)
        words.setLayout(column)
        return words, name, figures

    def _held_words(self, held_bytes: float, capacity_bytes: float) -> str:
        words = self.tr("%1 of %2").replace("%1", bytes_text(held_bytes))
        return words.replace("%2", bytes_text(capacity_bytes))

    def _show_layers(self) -> None:
        layers = layer_homes.layers(self._tiers)
        self.strip.show_layers(layers, self._flow)
        self.strip.setVisible(bool(layers))
        self._layers_words.setVisible(bool(layers))
        words = self.tr("%1 layers") if len(layers) != 1 else self.tr("1 layer")
        _say(self._layers_figures, words.replace("%1", count_text(len(layers))))
        self._layers_words.setToolTip(layer_homes.homes_sentence(layers))

    def _add_lane(self) -> None:
        words, name, figures = self._make_words()
        lane = MemoryLane()
        self._lanes.append((words, name, figures, lane))
        self._layout.insertLayout(len(self._lanes), bits.row(words, lane, spacing=_GAP_PX))

    def _show_legend(self) -> None:
        tiles = [lane.tiles for lane in self.lanes()[: len(self._tiers)]]
        states = {tile.state for lane in tiles for tile in lane} - {"resident"}
        homes = {layer.home for layer in self.strip.layers}
        self.legend.show_occurring(memory_tiles.kinds_shown(tiles), sorted(states), sorted(homes))


def _say(label: QLabel, text: str) -> None:
    """Sets a text only if it changes, because setting it lays out the whole page again."""
    if label.text() != text:
        label.setText(text)
