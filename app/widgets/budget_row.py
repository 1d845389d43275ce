"""The budget of one tier: a slider, its figure, and "Automatic"; reported only once the slider is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QSlider, QWidget

from app.sentences import joined
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import WIDEST_BYTES, bytes_text
from app.widgets.roomy_label import RoomyLabel
from app.widgets.tier_names import tier_name

if TYPE_CHECKING:
    from engine.protocol import Tier, TierSnapshot

MIB = 2**20
SETTLE_MS = 600
_MAX_STEPS = 256
_NAME_LETTERS = 20
# The least that the engine accepts; below it, nothing could run.
_LEAST_BYTES = {"gpu": 0, "ram": 256 * MIB, "disk": 256 * MIB}


class BudgetRow(QWidget):
    """Shows the budget of `tier` and lets the user choose it.

    The keys move it by a step, Page Up and Page Down by ten; moving it leaves "Automatic".
    """

    wished = Signal(str, object)  # tier, bytes while the slider is being moved; None when it is released
    chosen = Signal(str, object)  # tier, bytes or None for automatic

    def __init__(self, tier: Tier, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tier = tier
        self._snapshot: TierSnapshot | None = None
        self._budget_bytes: int | None = None
        self._step = 1
        # Whether the slider was moved and the value was not reported yet.
        self._is_moved = False
        self._name = ElidedLabel("", "plain", Qt.TextElideMode.ElideRight, letters=_NAME_LETTERS)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        bits.pass_wheel(self.slider)
        self.slider.setPageStep(10)
        self.figure = RoomyLabel(bytes_text(WIDEST_BYTES), "strong")
        self.figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.automatic = QCheckBox(self.tr("Automatic"))
        self.words = bits.label("", "small", wraps=True)
        self.problem = bits.label("", "problem", wraps=True)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._choose)
        line = bits.row(self._name, spacing=12)
        line.addWidget(self.slider, 1)
        line.addWidget(self.figure)
        line.addWidget(self.automatic)
        column = bits.column(spacing=4)
        column.addLayout(line)
        column.addWidget(self.words)
        column.addWidget(self.problem)
        self.setLayout(column)
        for label in (self.words, self.problem):
            label.hide()
        self.slider.valueChanged.connect(self._on_moved)
        self.slider.sliderReleased.connect(self._on_released)
        self.automatic.clicked.connect(self._on_automatic)

    def show_tier(self, tier: TierSnapshot) -> None:
        """Shows a tier and its present budget; a slider that is being moved stays."""
        if tier.capacity_bytes != (self._snapshot.capacity_bytes if self._snapshot else None):
            self._fit_slider(tier)
        is_same = self._snapshot is not None and _facts(tier) == _facts(self._snapshot)
        self._snapshot = tier
        if not is_same:
            name = tier_name(tier.name)
            self._name.setText(name)
            self.slider.setAccessibleName(self.tr("Budget of %1").replace("%1", name))
            self.automatic.setAccessibleName(self.tr("Budget of %1: automatic").replace("%1", name))
            self._show()

    def show_budget(self, budget_bytes: int | None, problem: str = "") -> None:
        """Shows the setting, None for automatic; `problem` is why a change was refused."""
        self._budget_bytes = budget_bytes
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self._show()

    @property
    def value_bytes(self) -> int:
        """Returns the bytes at the slider's position."""
        least = _LEAST_BYTES[self.tier]
        capacity = self._snapshot.capacity_bytes if self._snapshot is not None else least
        return max(least, min(self.slider.value() * self._step, capacity))

    @property
    def _is_busy(self) -> bool:
        return self.slider.isSliderDown() or self._settle.isActive()

    def _fit_slider(self, tier: TierSnapshot) -> None:
        step = 64 * MIB
        while tier.capacity_bytes / step > _MAX_STEPS:
            step *= 2
        self._step = step
        self.slider.blockSignals(True)
        self.slider.setRange(-(-_LEAST_BYTES[self.tier] // step), max(1, -(-tier.capacity_bytes // step)))
        self.slider.blockSignals(False)

    def _show(self) -> None:
        if self._snapshot is None or self._is_busy:
            return
        is_automatic = self._budget_bytes is None
        in_force = self._snapshot.budget_bytes
        shown = self._budget_bytes
        if shown is None:
            shown = self._snapshot.capacity_bytes if in_force is None else in_force
        self.slider.blockSignals(True)
        self.slider.setValue(round(shown / self._step))
        self.slider.blockSignals(False)
        self.automatic.setChecked(is_automatic)
        self._show_figure(shown)
        words = self._sentence(self._snapshot)
        self.words.setText(words)
        self.words.setVisible(bool(words))

    def _show_figure(self, num_bytes: int) -> None:
        self.figure.setText(bytes_text(num_bytes))
        self.slider.setAccessibleDescription(
            self.tr("%1 of %2")
            .replace("%1", bytes_text(num_bytes))
            .replace("%2", bytes_text(self._snapshot.capacity_bytes if self._snapshot else 0))
        )

    def _sentence(self, tier: TierSnapshot) -> str:
        """Returns what the budget is too small for, and what is given up because of it; "" if there is no problem."""
        told = []
        if tier.pressure != "none":
            told.append(
                self.tr("More is in use than the budget allows.")
                if _is_over(tier)
                else self.tr("The system reports that memory is low.")
            )
        chosen = self._budget_bytes
        if chosen is not None and tier.budget_bytes is not None and tier.budget_bytes < chosen - self._step:
            words = self.tr("%1 for now: other programs need the rest.")
            told.append(words.replace("%1", bytes_text(tier.budget_bytes)))
        if tier.given_up:
            # Whole sentences, some of which occur several times.
            told += dict.fromkeys(tier.given_up)
        return joined(*told)

    def _on_moved(self) -> None:
        self._is_moved = True
        self.automatic.setChecked(False)
        self._show_figure(self.value_bytes)
        self.wished.emit(self.tier, self.value_bytes)
        if not self.slider.isSliderDown():
            self._settle.start()

    def _on_released(self) -> None:
        """Reports a moved slider; one that was only pressed can show the updates from the meantime."""
        if self._is_moved:
            self._choose()
        else:
            self._show()

    def _on_automatic(self, is_automatic: bool) -> None:
        self._settle.stop()
        if is_automatic:
            self._take(None)
        else:
            self._take(self.value_bytes)

    def settle(self) -> None:
        """Reports the slider's value, if it was moved and not reported yet."""
        if self._is_moved:
            self._choose()

    def _choose(self) -> None:
        self._settle.stop()
        self._take(self.value_bytes)

    def _take(self, budget_bytes: int | None) -> None:
        self._is_moved = False
        self.wished.emit(self.tier, None)
        if budget_bytes != self._budget_bytes:
            self._budget_bytes = budget_bytes
            self.chosen.emit(self.tier, budget_bytes)
        self._show()


def _facts(tier: TierSnapshot) -> tuple[object, ...]:
    """Returns the parts of a tier that a row shows."""
    return tier.name, tier.capacity_bytes, tier.budget_bytes, tier.pressure, tier.given_up, _is_over(tier)


def _is_over(tier: TierSnapshot) -> bool:
    """Returns whether more is held than the budget allows."""
    return tier.budget_bytes is not None and tier.counted_bytes > tier.budget_bytes
