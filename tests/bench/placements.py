"""The planner's decisions for typical consumer machines, from model headers alone, and how long deciding takes.

    python -m tests.bench.placements [--quick] [--json FILE]

Prints a table for cards of 8, 12 and 24 GB and none, 16, 32 and 64 GB of memory, and 3B, 8B, 32B and 70B models in
Q4_K_M, with the sentence that users read. The models are sparse files without weights (model_headers.py), read like any
other. The rates are those of a mid-range desktop computer (tests/helpers/machines.py), so the predictions are
arithmetic, not measurements, and there is no peer.

Planning is measured in processor time, fifteen times per decision (three with `--quick`). The bound applies to the
fastest run of the slowest decision, because a plan is the same work each time and other load only adds to it; the
median is shown as well. Exit code 1 if a decision takes more than 5 ms or a machine gets no placement. Takes seconds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core import ModelShape
from engine.memory.demand import Backlog
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from engine.models.gguf import read_shape
from engine.profiled import ProfiledPlanner
from tests.bench import ending, report
from tests.bench.model_headers import HEADERS, write_header
from tests.helpers.machines import DESKTOP, machine, wanted

CARDS_GB, MEMORY_GB = (0, 8, 12, 24), (16, 32, 64)
BACKLOGS = {"one question": Backlog(), "16 questions": Backlog(waiting=15, running=1, cached_share=0.3)}
MOST_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Row:
    """A machine and a model; `seconds` is the least processor time of a decision, `usual_seconds` the median."""

    card_gb: int
    memory_gb: int
    model: str
    placement: Placement
    seconds: float
    usual_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.placements",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="three runs per decision instead of fifteen")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there (JSON)")
    chosen = parser.parse_args(arguments)
    all_rows: dict[str, list[Row]] = {}
    shapes = shapes_of_headers()
    for name, backlog in BACKLOGS.items():
        all_rows[name] = list(rows(shapes, backlog, runs=3 if chosen.quick else 15))
        show(name, all_rows[name])
    figures = figures_of(list(itertools.chain.from_iterable(all_rows.values())))
    report.show("planning", figures, {}, {"slowest_s": MOST_SECONDS})
    if chosen.json is not None:
        report.write(chosen.json, figures | rates_of(all_rows), {})
    return 0 if figures["slowest_s"] <= MOST_SECONDS and not figures["without_placement"] else 1


def shapes_of_headers() -> list[ModelShape]:
    """Returns the shapes of the models, read from their headers."""
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        return [read_shape(write_header(Path(folder), header)) for header in HEADERS]


def rows(shapes: Sequence[ModelShape], backlog: Backlog, runs: int) -> Iterator[Row]:
    """Yields a row for every machine and model."""
    for shape, card, memory in itertools.product(shapes, CARDS_GB, MEMORY_GB):
        placement, taken = timed(machine(card, memory), backlog, shape, runs)
        yield Row(card, memory, shape.name, placement, min(taken), statistics.median(taken))


def timed(hardware: Hardware, backlog: Backlog, shape: ModelShape, runs: int) -> tuple[Placement, list[float]]:
    """Returns the decision as the application makes it, and the processor time of each run after a warm-up."""
    planner, demand = ProfiledPlanner(lambda: DESKTOP), wanted(shape, parallel_answers=16)
    placement, taken = planner.placed(hardware, backlog, demand), []
    for _ in range(runs):
        before = time.process_time()
        planner.placed(hardware, backlog, demand)
        taken.append(time.process_time() - before)
    return placement, taken


def show(title: str, table: Sequence[Row]) -> None:
    """Prints a line per machine and model, with the sentence."""
    print(f"{title}:")
    print(f"  {'card':>5} {'memory':>7} {'model':>6} {'first word':>11}  sentence")
    for row in table:
        card = f"{row.card_gb} GB" if row.card_gb else "none"
        first_word = f"{row.placement.prediction.ttft_s:.1f} s"
        print(f"  {card:>5} {row.memory_gb:>4} GB {row.model:>6} {first_word:>11}  {row.placement.sentence}")


def figures_of(table: Sequence[Row]) -> dict[str, float]:
    """Returns figures over all rows."""
    return {
        "decisions": len(table),
        "slowest_s": max(row.seconds for row in table),
        "slowest_usual_s": max(row.usual_seconds for row in table),
        "median_s": statistics.median(row.seconds for row in table),
        "most_evaluated": max(row.placement.num_evaluated for row in table),
        "without_placement": sum(not row.placement.fits for row in table),
    }


def rates_of(all_rows: dict[str, list[Row]]) -> dict[str, float]:
    """Returns tokens per second by backlog, machine and model."""
    return {
        f"tokens_per_s/{name}/{row.card_gb}gb/{row.memory_gb}gb/{row.model}": row.placement.prediction.tokens_per_s
        for name, table in all_rows.items()
        for row in table
    }


if __name__ == "__main__":
    sys.exit(ending.run(main))
