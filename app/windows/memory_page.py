"""Memory: which owner holds how many bytes in which tier, live; what was decided and why; budgets; rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QBoxLayout, QButtonGroup, QScrollArea, QStackedWidget, QWidget

from app.widgets import bits
from app.widgets.budgets_card import BudgetsCard
from app.widgets.decisions_card import DecisionsCard
from app.widgets.empty_state import EmptyState
from app.widgets.figures_card import FiguresCard
from app.widgets.memory_map import MemoryMap
from app.widgets.memory_table import MemoryTablePane
from app.windows.page import Page

if TYPE_CHECKING:
    from app.models.engine_settings import EngineSettingsModel
    from app.models.memory import MemoryModel
    from engine.protocol import MemoryReply, Tier

# In a narrower page, words and figures are below each other.
_TWO_COLUMNS_LETTERS = 116
_FIGURES_MS = 250


class MemoryPage(Page):
    """Shows a MemoryModel; while it is hidden nothing is painted or rebuilt."""

    def __init__(self, memory: MemoryModel, settings: EngineSettingsModel, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Memory"), parent=parent)
        self.subtitle.setText(self.tr("What uses memory right now, and what is moving."))
        self._memory, self._settings = memory, settings
        settings.setParent(self)
        self._told: MemoryReply | None = None
        self.map, self.table = MemoryMap(), MemoryTablePane(memory.table)
        self.budgets = BudgetsCard(settings)
        self.decisions, self.counters = DecisionsCard(), FiguresCard()
        self._cards = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        # Figures that change ten times a second cannot be read, and each change lays out the page again.
        self._rest = QTimer(self, singleShot=True, interval=_FIGURES_MS)
        self._rest.timeout.connect(self._after_rest)
        self._scroll = QScrollArea()
        self._views = QStackedWidget()
        self._views.addWidget(self._map_view())
        self._views.addWidget(self.table)
        self.empty = EmptyState("memory", self.tr("Memory use appears once the engine is running."))
        self._stack = QStackedWidget()
        self._stack.addWidget(self._views)
        self._stack.addWidget(self.empty)
        self._add_switch()
        self.body.addWidget(self._stack, 1)
        self.budgets.wished.connect(self._on_wish)
        memory.snapshot_changed.connect(self._on_snapshot)
        memory.rates_changed.connect(self._on_rates)
        self._on_snapshot()

    def show_table(self, is_table: bool) -> None:
        """Shows the table, with the same facts as the map for reading and for screen readers, or the map."""
        self._views.setCurrentIndex(1 if is_table else 0)
        (self.table_button if is_table else self.map_button).setChecked(True)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._settings.is_known:
            # The settings may have been changed elsewhere.
            self._settings.refresh()
        self._on_snapshot()
        self.counters.show_rates(self._memory.rates)

    def fit(self) -> None:
        super().fit()
        is_wide = self.width() >= _TWO_COLUMNS_LETTERS * self.fontMetrics().averageCharWidth()
        self._cards.setDirection(
            QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom
        )  # fmt: skip

    def settle(self) -> None:
        for row in self.budgets.rows.values():
            row.settle()

    def show_budgets(self) -> None:
        """Scrolls to the budgets, and moves the focus to the first."""
        self.show_table(False)
        # Only what is laid out can be scrolled to.
        QTimer.singleShot(0, self, self._scroll_to_budgets)

    def _map_view(self) -> QWidget:
        card = bits.card()
        inner = bits.column(self.map)
        inner.setContentsMargins(20, 18, 20, 16)
        card.setLayout(inner)
        self._cards.setSpacing(16)
        self._cards.addWidget(self.decisions, 3)
        self._cards.addWidget(self.counters, 2)
        column = QWidget()
        column.setObjectName("column")
        layout = bits.column(card, spacing=16)
        layout.addLayout(self._cards)
        layout.addWidget(self.budgets)
        layout.addStretch(1)
        column.setLayout(layout)
        # Without scrolling, lines in a low window would be squeezed until letters are cut.
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(column)
        return self._scroll

    def _add_switch(self) -> None:
        self.budgets_button = bits.button(self.tr("Budgets"), "ghost", "settings", self.show_budgets)
        self.buttons.addWidget(self.budgets_button)
        group = QButtonGroup(self)
        self.map_button = bits.button(self.tr("Map"), "segment", clicked=lambda: self.show_table(False))
        self.table_button = bits.button(self.tr("Table"), "segment", clicked=lambda: self.show_table(True))
        for button in (self.map_button, self.table_button):
            button.setCheckable(True)
            group.addButton(button)
            self.buttons.addWidget(button)
        self.map_button.setChecked(True)

    def _scroll_to_budgets(self) -> None:
        self._scroll.ensureWidgetVisible(self.budgets)
        row = next((row for row in self.budgets.rows.values() if row.isVisible()), None)
        if row is not None:
            row.slider.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_snapshot(self) -> None:
        memory = self._memory
        self._stack.setCurrentWidget(self._views if memory.tiers else self.empty)
        if not self.isVisible():
            self.map.show_tiers(memory.tiers)
        else:
            self.map.show_tiers(memory.tiers, memory.cells, memory.moves, is_streaming=memory.is_streaming)
            self.budgets.show_tiers(memory.tiers)
            self.decisions.show_memory(memory.memory)
            if not self._rest.isActive():
                self._show_figures()

    def _on_rates(self) -> None:
        if self.isVisible():
            self.counters.show_rates(self._memory.rates)

    def _show_figures(self) -> None:
        self._rest.start()
        memory = self._told = self._memory.memory
        self.counters.show_counters(memory.counters if memory else {})

    def _after_rest(self) -> None:
        if self.isVisible() and self._memory.memory is not self._told:
            self._show_figures()

    def _on_wish(self, tier: Tier, budget_bytes: int | None) -> None:
        lane = self.map.lane_of(tier)
        if lane is not None:
            lane.show_wish(budget_bytes)
