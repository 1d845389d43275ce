"""How much of each tier Ragdoll may hold: a row for each, and whether losses are allowed if nothing else helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.budget_row import BudgetRow

if TYPE_CHECKING:
    from app.models.engine_settings import EngineSettingsModel
    from engine.protocol import Tier, TierSnapshot

_MAY_LOSE = "memory.may_lose"


def setting_of(tier: str) -> str:
    """Returns the dotted name of a tier's budget."""
    return f"memory.{tier}_budget_bytes"


class BudgetsCard(QFrame):
    """Shows and changes the budgets among the engine's settings; hidden if this engine knows none."""

    wished = Signal(str, object)  # tier, bytes while a slider is being moved; None when it is released

    def __init__(self, settings: EngineSettingsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._settings = settings
        self._asked: str = ""
        self._problems: dict[str, str] = {}
        self.rows: dict[str, BudgetRow] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(20, 16, 20, 16)
        self._column.setSpacing(10)
        self._column.addWidget(bits.label(self.tr("Budgets"), "section"))
        words = self.tr("The most that Ragdoll may use. Automatic leaves other programs what they need.")
        self._column.addWidget(bits.label(words, "small", wraps=True))
        self.may_lose = QCheckBox(self.tr("Reduce precision or context when nothing else helps"))
        self.may_lose.setToolTip(self.tr("An 8-bit KV cache, or a smaller context. You are notified."))
        self.may_lose.clicked.connect(self._on_may_lose)
        self._column.addWidget(self.may_lose)
        self.may_lose_problem = bits.label("", "small", wraps=True)
        self._column.addWidget(self.may_lose_problem)
        settings.settings_changed.connect(self._show_settings)
        settings.request_failed.connect(self._on_refused)
        self._show_settings()

    def show_tiers(self, tiers: Sequence[TierSnapshot]) -> None:
        """Shows the present tiers."""
        for tier in tiers:
            if tier.tier not in self.rows:
                self._add_row(tier.tier)
            self.rows[tier.tier].show_tier(tier)
        present = {tier.tier for tier in tiers}
        for name, row in self.rows.items():
            row.setVisible(name in present and self._settings.has(setting_of(name)))

    def _add_row(self, tier: Tier) -> None:
        row = self.rows[tier] = BudgetRow(tier)
        row.wished.connect(self.wished)
        row.chosen.connect(self._on_chosen)
        self._column.insertWidget(self._column.indexOf(self.may_lose), row)
        self._show_row(tier, row)

    def _on_chosen(self, tier: str, budget_bytes: Any) -> None:
        self._asked = tier
        self._problems.pop(tier, None)
        self._settings.change(setting_of(tier), budget_bytes)

    def _on_may_lose(self, may_lose: bool) -> None:
        self._asked = _MAY_LOSE
        self._problems.pop(_MAY_LOSE, None)
        self._settings.change(_MAY_LOSE, may_lose)

    def _on_refused(self, sentence: str, way_out: str) -> None:
        self._problems[self._asked] = f"{sentence} {way_out}".strip()

    def _show_settings(self) -> None:
        settings = self._settings
        self.setVisible(any(settings.has(setting_of(tier)) for tier in ("gpu", "ram", "disk")))
        self.may_lose.setVisible(settings.has(_MAY_LOSE))
        self.may_lose.setChecked(bool(settings.value(_MAY_LOSE)))
        self.may_lose_problem.setText(self._problems.get(_MAY_LOSE, ""))
        self.may_lose_problem.setVisible(_MAY_LOSE in self._problems)
        for tier, row in self.rows.items():
            self._show_row(tier, row)

    def _show_row(self, tier: str, row: BudgetRow) -> None:
        name = setting_of(tier)
        row.setVisible(self._settings.has(name))
        value = self._settings.value(name)
        row.show_budget(value if isinstance(value, int) else None, self._problems.get(tier, ""))
