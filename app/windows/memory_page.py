"""Memory: who holds how many bytes in which tier, live; what was decided and why; rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QButtonGroup, QGridLayout, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.empty_state import EmptyState
from app.widgets.figures import bytes_text, count_text, seconds_text
from app.widgets.memory_map import MemoryMap
from app.widgets.memory_table import MemoryTableView
from app.windows.page import Page

if TYPE_CHECKING:
    from app.models.memory import MemoryModel

MAX_DECISIONS = 8
MAX_COUNTERS = 24


class MemoryPage(Page):
    """Shows a MemoryModel; while it is hidden nothing is painted or rebuilt."""

    def __init__(self, memory: MemoryModel, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Memory"), parent=parent)
        self.subtitle.setText(self.tr("Where every byte lives right now, and what moves."))
        self._memory = memory
        self.map, self.table = MemoryMap(), MemoryTableView()
        self.table.show_memory(memory.table)
        self.decisions, self._decision_lines = _text_card(self.tr("Decisions"))
        self.counters, counters_column = _text_card(self.tr("Figures"))
        self._counter_grid = QGridLayout()
        self._counter_grid.setHorizontalSpacing(16)
        self._counter_grid.setVerticalSpacing(6)
        counters_column.addLayout(self._counter_grid)
        counters_column.addStretch(1)
        self._shown_decisions: tuple[str, ...] | None = None
        self._shown_counters: dict[str, float] | None = None
        self._counter_names: tuple[str, ...] | None = None
        self._figures: dict[str, QLabel] = {}
        self._views = QStackedWidget()
        self._views.addWidget(self._map_view())
        self._views.addWidget(self._table_view())
        self.empty = EmptyState("memory", self.tr("The engine tells what it holds as soon as it is running."))
        self._stack = QStackedWidget()
        self._stack.addWidget(self._views)
        self._stack.addWidget(self.empty)
        self._add_switch()
        self.body.addWidget(self._stack, 1)
        memory.snapshot_changed.connect(self._on_snapshot)
        self._on_snapshot()

    def show_table(self, is_table: bool) -> None:
        """The table holds the same facts as the map, for reading and for screen readers."""
        self._views.setCurrentIndex(1 if is_table else 0)
        (self.table_button if is_table else self.map_button).setChecked(True)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_words()

    def decision_lines(self) -> tuple[str, ...]:
        return self._shown_decisions or ()

    def _map_view(self) -> QWidget:
        card = bits.card()
        inner = bits.column(self.map)
        inner.setContentsMargins(20, 20, 20, 16)
        card.setLayout(inner)
        words = bits.row(self.decisions, self.counters, spacing=16)
        words.setStretch(0, 3)
        words.setStretch(1, 2)
        column = QWidget()
        column.setObjectName("column")
        layout = bits.column(card, spacing=16)
        layout.addLayout(words)
        layout.addStretch(1)
        column.setLayout(layout)
        # In a low window lines would be pressed together until letters are cut.
        view = QScrollArea()
        view.setWidgetResizable(True)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setWidget(column)
        return view

    def _table_view(self) -> QWidget:
        card = bits.card()
        inner = bits.column(self.table)
        inner.setContentsMargins(4, 4, 4, 4)
        card.setLayout(inner)
        return card

    def _add_switch(self) -> None:
        group = QButtonGroup(self)
        self.map_button = bits.button(self.tr("Map"), "segment", clicked=lambda: self.show_table(False))
        self.table_button = bits.button(self.tr("Table"), "segment", clicked=lambda: self.show_table(True))
        for button in (self.map_button, self.table_button):
            button.setCheckable(True)
            group.addButton(button)
            self.buttons.addWidget(button)
        self.map_button.setChecked(True)

    def _on_snapshot(self) -> None:
        self._stack.setCurrentWidget(self._views if self._memory.tiers else self.empty)
        self.map.show_tiers(self._memory.tiers)
        if self.isVisible():
            self._show_words()

    def _show_words(self) -> None:
        memory = self._memory.memory
        decisions = memory.decisions[:MAX_DECISIONS] if memory else ()
        if decisions != self._shown_decisions:
            self._shown_decisions = decisions
            self._rebuild_decisions(decisions)
        counters = dict(memory.counters) if memory else {}
        if counters != self._shown_counters:
            self._shown_counters = counters
            self._show_counters(counters)

    def _rebuild_decisions(self, decisions: tuple[str, ...]) -> None:
        while (item := self._decision_lines.takeAt(1)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for text in decisions or (self.tr("Nothing has had to be decided yet."),):
            self._decision_lines.addWidget(bits.label(text, "plain" if decisions else "muted", wraps=True))
        self._decision_lines.addStretch(1)

    def _show_counters(self, counters: dict[str, float]) -> None:
        """They change ten times a second while an answer is written: labels are made only for other names."""
        lines = [counter_text(name, value) for name, value in list(counters.items())[:MAX_COUNTERS]]
        names = tuple(words for words, _ in lines)
        if names != self._counter_names:
            self._rebuild_counters(names)
        for words, figure in lines:
            self._figures[words].setText(figure)

    def _rebuild_counters(self, names: tuple[str, ...]) -> None:
        while (item := self._counter_grid.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        self._counter_names = names
        self._figures = {words: bits.label("", "strong") for words in names}
        if not names:
            self._counter_grid.addWidget(bits.label(self.tr("Nothing is running."), "muted"), 0, 0)
        for line, (words, figure) in enumerate(self._figures.items()):
            self._counter_grid.addWidget(bits.label(words, "muted"), line, 0)
            self._counter_grid.addWidget(figure, line, 1)


def counter_text(name: str, value: float) -> tuple[str, str]:
    """A counter's name and figure in words, its unit read from the end of its name (`disk_bytes_per_s`)."""
    units: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("_bytes_per_s", lambda rate: f"{bytes_text(rate)}/s"),
        ("_per_s", lambda rate: f"{rate:.1f}/s"),
        ("_bytes", bytes_text),
        ("_seconds", seconds_text),
        ("_ms", lambda milliseconds: seconds_text(milliseconds / 1000)),
        ("_ratio", lambda ratio: f"{ratio:.0%}"),
    )
    for ending, figure in units:
        if name.endswith(ending):
            return _words(name.removesuffix(ending)), figure(value)
    return _words(name), count_text(value)


# What a name alone would not say.
_COUNTERS = {
    "tokens": QT_TRANSLATE_NOOP("memory", "Tokens written"),
    "questions_waiting": QT_TRANSLATE_NOOP("memory", "Questions under way"),
    "preemptions": QT_TRANSLATE_NOOP("memory", "Answers set aside for others"),
    "drafts_accepted": QT_TRANSLATE_NOOP("memory", "Guessed tokens that were right"),
    "kv_cells_used": QT_TRANSLATE_NOOP("memory", "KV cells in use"),
    "kv_found_in_cells": QT_TRANSLATE_NOOP("memory", "Of all prompts, still in cells"),
    "kv_found_in_memory": QT_TRANSLATE_NOOP("memory", "… kept in memory"),
    "kv_found_on_disk": QT_TRANSLATE_NOOP("memory", "… kept on disk"),
    "kv_kept_in_cells": QT_TRANSLATE_NOOP("memory", "Read before, kept in cells"),
    "kv_kept_in_memory": QT_TRANSLATE_NOOP("memory", "… in memory"),
    "kv_kept_on_disk": QT_TRANSLATE_NOOP("memory", "… on disk"),
    "partitions": QT_TRANSLATE_NOOP("memory", "Index parts"),
    "partitions_resident": QT_TRANSLATE_NOOP("memory", "Index parts in memory"),
    "partition_loads": QT_TRANSLATE_NOOP("memory", "Index parts read from disk"),
    "sweep_fixed": QT_TRANSLATE_NOOP("memory", "A search takes"),
    "sweep_query": QT_TRANSLATE_NOOP("memory", "… and for each question"),
    "sweep_load": QT_TRANSLATE_NOOP("memory", "… and for each part from disk"),
}


def _words(name: str) -> str:
    if name in _COUNTERS:
        return QCoreApplication.translate("memory", str(_COUNTERS[name]))
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if not words.startswith("kv ") else f"KV {words[3:]}"


def _text_card(title: str) -> tuple[QWidget, QVBoxLayout]:
    card = bits.card()
    layout = QVBoxLayout(card)
    layout.setContentsMargins(20, 16, 20, 16)
    layout.setSpacing(8)
    layout.addWidget(bits.label(title, "section"))
    return card, layout
