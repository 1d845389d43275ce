"""The engine's counters: rates with a line of the last minutes, the others as figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout, QWidget

from app.models.cell_use import CELLS_OF
from app.models.rates import RateHistory, is_rate
from app.widgets import bits
from app.widgets.counter_words import counter_hint, counter_text
from app.widgets.figure import Figure
from app.widgets.sparkline import Sparkline

MAX_COUNTERS = 32
_OF_PARTS = ("partition", "sweep_load")
# The counters of most interest, in this order; others follow as the engine names them.
_FIRST = ("tokens_per_s", "disk_read_bytes_per_s", "streamed_bytes_per_s")


@dataclass(frozen=True, slots=True)
class _Line:
    """A counter's widgets; `spark` is None if it is not a rate."""

    words: str
    figure: Figure
    spark: Sparkline | None


class FiguresCard(QFrame):
    """Shows counters, which change ten times a second during an answer; widgets are made only for new names."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._rates: RateHistory | None = None
        self._names: tuple[str, ...] | None = None
        self._lines: dict[str, _Line] = {}
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnMinimumWidth(1, 72)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(8)
        column.addWidget(bits.label(self.tr("Figures"), "section"))
        column.addLayout(self._grid)
        column.addStretch(1)

    def show_counters(self, counters: Mapping[str, float]) -> None:
        """Shows the present counters."""
        names = _ordered(counters)
        if names != self._names:
            self._rebuild(names, counters)
            if self._rates is not None:
                self.show_rates(self._rates)
        for name in names:
            _, figure = counter_text(name, counters[name])
            self._lines[name].figure.set_text(figure)

    def show_rates(self, rates: RateHistory) -> None:
        """Shows the recent rates as lines."""
        self._rates = rates
        for name, line in self._lines.items():
            if line.spark is not None:
                points = rates.points(name)
                line.spark.show_points(points, self._range(name, [value for _, value in points]))

    def shown(self) -> tuple[tuple[str, str], ...]:
        """Returns each counter's words and figure, from top to bottom."""
        return tuple((line.words, line.figure.text) for line in self._lines.values())

    def _range(self, name: str, values: list[float]) -> str:
        if not values:
            return ""
        words = self.tr("Last minutes: between %1 and %2")
        return words.replace("%1", counter_text(name, min(values))[1]).replace("%2", counter_text(name, max(values))[1])

    def _rebuild(self, names: tuple[str, ...], counters: Mapping[str, float]) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        self._names, self._lines = names, {}
        if not names:
            self._grid.addWidget(bits.label(self.tr("Nothing is running."), "muted"), 0, 0)
        for row, name in enumerate(names):
            words, _ = counter_text(name, counters[name])
            label, figure, hint = bits.label(words, "muted"), Figure(), counter_hint(name)
            for widget in (label, figure):
                widget.setToolTip(hint)
            # A screen reader may read the figure alone, so it names the counter.
            figure.setAccessibleDescription(". ".join(part for part in (words, hint) if part))
            self._grid.addWidget(label, row, 0)
            spark = Sparkline(words) if is_rate(name) else None
            if spark is not None:
                self._grid.addWidget(spark, row, 1)
            self._grid.addWidget(figure, row, 2)
            self._lines[name] = _Line(words, figure, spark)


def _ordered(counters: Mapping[str, float]) -> tuple[str, ...]:
    """Returns the counters to show: rates before gauges, and those of most interest before the others."""
    counters = {name: value for name, value in counters.items() if not _is_idle(name, counters)}
    first = [name for name in _FIRST if name in counters]
    rates = [name for name in counters if is_rate(name) and name not in first]
    others = [name for name in counters if not is_rate(name) and not name.startswith(CELLS_OF)]
    return (*first, *rates, *others)[:MAX_COUNTERS]


def _is_idle(name: str, counters: Mapping[str, float]) -> bool:
    """Returns whether a counter is about the parts of an index that is too small to have any."""
    return name.startswith(_OF_PARTS) and not counters.get("partitions", 1.0)
