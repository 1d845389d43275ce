"""A load over time as a picture and a table: arrivals, backlog, answers at once, index, pinned layers, KV.

Drawn offscreen with Qt, which the application depends on anyway.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.bench.heat_map import write_csv
from tests.bench.serving_figures import Moment, Run

WIDTH, PANEL_HEIGHT, MARGIN = 1000, 150, 60
# Number of intervals in which arrivals are counted.
ARRIVAL_WINDOWS = 24
_GAP = 28
_COLOURS = ("#3366cc", "#dc6900")


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time in seconds; each holds until the next."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines under one title, on a common scale from 0."""

    title: str
    lines: tuple[Line, ...]

    @property
    def most(self) -> float:
        """Returns the greatest value, or 1 if all are 0, so that it can be a divisor."""
        return max((value for line in self.lines for _, value in line.points), default=0.0) or 1.0


def panels(run: Run) -> list[Panel]:
    """Returns the panels of a run, from top to bottom."""
    moments = run.moments
    at_once = (_line("written", moments, "answers_at_once"), _line("slots", moments, "slots"))
    kept = (_mib_line("memory", moments, "kv_ram_bytes"), _mib_line("disk", moments, "kv_disk_bytes"))
    return [
        Panel("questions a minute", (Line("arrivals", tuple(arrival_rates(run, ARRIVAL_WINDOWS))),)),
        Panel("backlog: questions that have arrived and not ended", (_line("backlog", moments, "backlog"),)),
        Panel("answers at once, and slots for them", at_once),
        Panel("index in memory, MiB", (_mib_line("index", moments, "index_bytes"),)),
        Panel("layers pinned in memory", (_line("pinned", moments, "pinned_layers"),)),
        Panel("keys and values, MiB", kept),
    ]


def arrival_rates(run: Run, windows: int) -> list[tuple[float, float]]:
    """Returns questions per minute in each of `windows` parts of the arrival time."""
    arrivals = [one.arrival_s for one in run.served]
    seconds = max(max(arrivals), 1e-9) / windows
    counts = [0] * windows
    for arrival in arrivals:
        counts[min(windows - 1, int(arrival / seconds))] += 1
    return [(place * seconds, 60 * count / seconds) for place, count in enumerate(counts)]


def stairs(line: Line, seconds: float, most: float, width: float, height: float) -> list[tuple[float, float]]:
    """Returns the corners of a step line in a box, from its upper left corner."""
    if not line.points:
        return []

    def place(at_s: float, value: float) -> tuple[float, float]:
        return width * at_s / seconds, height * (1 - value / most)

    corners = [place(*line.points[0])]
    for (_, before), (at_s, value) in pairwise(line.points):
        corners += [place(at_s, before), place(at_s, value)]
    return [*corners, place(seconds, line.points[-1][1])]


def write_moments(file: Path, run: Run) -> None:
    """Writes a line per snapshot."""
    names = list(Moment.__dataclass_fields__)
    write_csv(file, [{name: getattr(moment, name) for name in names} for moment in run.moments])


def draw(file: Path, title: str, drawn: Sequence[Panel], seconds: float) -> None:
    """Draws the panels below each other, as a PNG."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QPointF, QRectF, Qt
    from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPolygonF
    from PySide6.QtWidgets import QApplication

    # A QApplication, because tests of the window may follow in this process, and a process has only one.
    application = QApplication.instance() or QApplication([])
    height = MARGIN + len(drawn) * (PANEL_HEIGHT + _GAP) + _GAP
    image = QImage(WIDTH, height, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.drawText(MARGIN, _GAP, title)
    wide = WIDTH - 2 * MARGIN
    for number, panel in enumerate(drawn):
        top = MARGIN + number * (PANEL_HEIGHT + _GAP)
        painter.setPen(QColor("#999999"))
        painter.drawRect(QRectF(MARGIN, top, wide, PANEL_HEIGHT))
        painter.setPen(QColor("black"))
        painter.drawText(MARGIN, top - 6, panel.title)
        box = QRectF(0, top, MARGIN - 6, PANEL_HEIGHT)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, f"{panel.most:.3g}")
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom, "0")
        for place, line in enumerate(panel.lines):
            corners = stairs(line, seconds, panel.most, wide, PANEL_HEIGHT)
            painter.setPen(QPen(QColor(_COLOURS[place % len(_COLOURS)]), 1.6))
            painter.drawPolyline(QPolygonF([QPointF(MARGIN + x, top + y) for x, y in corners]))
            painter.drawText(QPointF(WIDTH - MARGIN + 4, top + 14 * (place + 1)), line.name)
    painter.setPen(QColor("black"))
    painter.drawText(MARGIN, height - 8, "0 s")
    painter.drawText(WIDTH - 2 * MARGIN, height - 8, f"{seconds:.0f} s")
    painter.end()
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(str(file))
    del application


def _line(name: str, moments: Sequence[Moment], field: str) -> Line:
    return Line(name, tuple((moment.at_s, float(getattr(moment, field))) for moment in moments))


def _mib_line(name: str, moments: Sequence[Moment], field: str) -> Line:
    return Line(name, tuple((at_s, value / 2**20) for at_s, value in _line(name, moments, field).points))
