"""What the planner decides for consumer machines, from headers alone, and how long it takes to decide.

    python -m tests.bench.placements [--quick] [--json FILE]

A table: cards of 8, 12 and 24 GB and none, 16, 32 and 64 GB of memory, 3B, 8B, 32B and 70B models in Q4_K_M, each with
the sentence that people read. The models are files that end behind their headers but for a hole of the weights' size
(tests/bench/model_headers.py), read as any other. The rates are those of a desktop computer of the middle
(tests/helpers/machines.py), so what is predicted here is arithmetic and no measurement. Planning is timed in processor
time; `--quick` times less often. What binds is the least of several runs, since a plan is the same work each time and
whatever else runs on the processor's core only adds to it; the median is told beside. Exit code 1 when a bound does not
hold.
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
    """One machine and model; `seconds` is the least that planning took of a processor, `usual_seconds` the median."""

    card_gb: int
    memory_gb: int
    model: str
    placement: Placement
    seconds: float
    usual_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.placements", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="time each decision three times instead of fifteen")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
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
    """What the models' headers tell."""
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        return [read_shape(write_header(Path(folder), header)) for header in HEADERS]


def rows(shapes: Sequence[ModelShape], backlog: Backlog, runs: int) -> Iterator[Row]:
    """Every machine with every model."""
    for shape, card, memory in itertools.product(shapes, CARDS_GB, MEMORY_GB):
        placement, taken = timed(machine(card, memory), backlog, shape, runs)
        yield Row(card, memory, shape.name, placement, min(taken), statistics.median(taken))


def timed(hardware: Hardware, backlog: Backlog, shape: ModelShape, runs: int) -> tuple[Placement, list[float]]:
    """The decision as the application makes it, and the processor time of each run; the first one only warms up."""
    planner, demand = ProfiledPlanner(lambda: DESKTOP), wanted(shape, parallel_answers=16)
    placement, taken = planner.placed(hardware, backlog, demand), []
    for _ in range(runs):
        before = time.process_time()
        planner.placed(hardware, backlog, demand)
        taken.append(time.process_time() - before)
    return placement, taken


def show(title: str, table: Sequence[Row]) -> None:
    """A line for each machine, with the sentence."""
    print(f"{title}:")
    print(f"  {'card':>5} {'memory':>7} {'model':>6} {'first word':>11}  what is told")
    for row in table:
        card = f"{row.card_gb} GB" if row.card_gb else "none"
        first_word = f"{row.placement.prediction.ttft_s:.1f} s"
        print(f"  {card:>5} {row.memory_gb:>4} GB {row.model:>6} {first_word:>11}  {row.placement.sentence}")


def figures_of(table: Sequence[Row]) -> dict[str, float]:
    """What all of them have in common."""
    return {
        "decisions": len(table),
        "slowest_s": max(row.seconds for row in table),
        "slowest_usual_s": max(row.usual_seconds for row in table),
        "median_s": statistics.median(row.seconds for row in table),
        "most_evaluated": max(row.placement.num_evaluated for row in table),
        "without_placement": sum(not row.placement.fits for row in table),
    }


def rates_of(all_rows: dict[str, list[Row]]) -> dict[str, float]:
    """Tokens per second, by backlog and machine."""
    return {
        f"tokens_per_s/{name}/{row.card_gb}gb/{row.memory_gb}gb/{row.model}": row.placement.prediction.tokens_per_s
        for name, table in all_rows.items()
        for row in table
    }


if __name__ == "__main__":
    sys.exit(ending.run(main))
