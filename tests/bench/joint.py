"""Adaptive memory planning under a changing load, compared with fixed splits; neither the index nor the model fits.

    python -m tests.bench.joint [--quick] [--json FILE] [--csv FILE] [--no-sweep] [--peers FOLDER] [--disk-rate MB]

The library consists of real documents and a million synthetic vectors (joint_library.py); the model has random weights.
The whole engine runs in a control group. Its memory limit is what it holds without either, plus a quarter of the index,
the size of the model ÷ 1.2, and room for a context. Questions about the documents come in three phases: one after the
other, as from a person who reads the answers; 16 open at a time, as when every file is asked; then one after the other
again. A phase ends after a fixed number of answers. No KV is cached, so no phase profits from an earlier one, and
answers are sampled (sampled.py).

- `adaptive`: the engine as it is. One plan sets the number of concurrent answers, resident partitions and pinned
  layers, and is made again as the load changes.
- `index_first`, `even`, `model_first`: fixed splits for a load that never changes. The number of concurrent answers is
  fixed, all, half or none of the index's budget is in memory, and the model gets the rest, placed as the engine would.

The sweep measures 16 concurrent questions for combinations of concurrent answers, share of the index's budget and share
of the remaining memory for the model. It is printed as a shaded table and written to `--csv`.

Ratios of answers per minute:

- `best_static`, `worst_static`: adaptive ÷ the best and the worst fixed split over all phases.
- `best_static_per_phase`: adaptive ÷ the best fixed split of each phase; the lowest of the three counts.

Lower bounds are in joint_figures.py; besides, the memory limit must never be hit. Exit code 1 if a bound does not hold,
2 if memory cannot be limited or there are no documents; `--quick` (a small model, short phases, one point of the sweep)
checks no bounds. The phases alone (`--no-sweep`) take about half an hour.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import Home
from engine.memory.bandwidth import measured
from engine.memory.profile import Profile
from engine.memory.profile_file import profile_file, save_profile
from tests.bench import ending, heat_map, joint_figures, peers, report
from tests.bench.bench_model import ONE_BILLION, SIX_HUNDRED_MILLION, Shape, bench_model
from tests.bench.command_line import parser_of, within_group
from tests.bench.confined import Group, forget_pages
from tests.bench.disk_rate import add_disk_rate_option
from tests.bench.given_text import vocabulary_of
from tests.bench.joint_figures import BOUNDS, INDEX_FACTOR, MODEL_FACTOR, Answered, Phase, Split
from tests.bench.joint_library import joint_library
from tests.bench.our_generation import num_threads, told
from tests.bench.real_library import DOCUMENTS, Library, read_library
from tests.bench.side_process import Limit, SideProcess
from tests.bench.stretches import stretches

STATIC = {"index_first": Split(1, 1.0), "even": Split(4, 0.5), "model_first": Split(16, 0.0)}
# KV cells and compute buffers of the answers, which do not count as weights.
CONTEXT_BYTES = 128 * 2**20
# More than any machine of this bench needs: for finding out what the engine takes without a limit.
_PLENTY = 64 * 2**30
QUESTION_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Size:
    """`vectors` beside the documents' chunks; `calm`, `busy` and `swept`: questions of a phase or sweep point.

    `passages` per question are few, so that reading them does not dominate on a small machine. The last three fields
    are the axes of the sweep.
    """

    shape: Shape
    chunks: int
    vectors: int
    passages: int
    answer_tokens: int
    calm: int
    busy: int
    swept: int
    at_once: tuple[int, ...]
    index_shares: tuple[float, ...]
    model_shares: tuple[float, ...]

    @property
    def phases(self) -> tuple[Phase, ...]:
        return Phase("calm", 1, self.calm), Phase("busy", 16, self.busy), Phase("calm", 1, self.calm)


FULL = Size(
    ONE_BILLION,
    chunks=1_500,
    vectors=1_000_000,
    passages=1,
    answer_tokens=96,
    calm=4,
    busy=32,
    swept=8,
    at_once=(1, 4, 8),
    index_shares=(0.0, 0.5, 1.0),
    model_shares=(0.6, 1.0),
)
SMALL = Size(
    SIX_HUNDRED_MILLION,
    chunks=300,
    vectors=200_000,
    passages=1,
    answer_tokens=8,
    calm=1,
    busy=3,
    swept=2,
    at_once=(8,),
    index_shares=(0.0,),
    model_shares=(1.0,),
)


@dataclass(slots=True)
class Bench:
    """What is measured, and the results so far."""

    size: Size
    home: Path
    profile: Profile
    index_bytes: int
    model: Path
    questions: Sequence[str]
    parent: Group
    limit_bytes: int = _PLENTY
    courses: dict[str, list[Answered]] = field(default_factory=dict)
    swept: list[dict[str, float]] = field(default_factory=list)

    def run(self, *, sweeps: bool = True) -> None:
        self._find_limit()
        for name, split in {"adaptive": None, **STATIC}.items():
            with self._engine(split) as side:
                self.courses[name] = [self._phase(name, phase, side) for phase in self.size.phases]
        axes = (self.size.at_once, self.size.index_shares, self.size.model_shares)
        for at_once, index_share, model_share in itertools.product(*axes) if sweeps else ():
            self._sweep(Split(at_once, index_share, model_share))

    def _find_limit(self) -> None:
        """Sets the limit from what the engine holds without model and index, and the parts of these that are to fit."""
        with told("the engine alone"), self._engine(None, has_model=False) as side:
            alone = side.settled["held_bytes"] - side.settled["index_bytes"]
        model_bytes = self.model.stat().st_size
        room = CONTEXT_BYTES + self.index_bytes / INDEX_FACTOR + model_bytes / MODEL_FACTOR
        self.limit_bytes = int(alone + room)

    def _phase(self, name: str, phase: Phase, side: SideProcess) -> Answered:
        with told(f"{name}: {phase.at_once} open at a time"):
            return Answered.heard(side.ask(questions=self.questions[: phase.answers], at_once=phase.at_once))

    def _sweep(self, split: Split) -> None:
        phase = Phase("swept", self.size.phases[1].at_once, self.size.swept)
        with self._engine(split) as side:
            answered = self._phase(f"{split}", phase, side)
        self.swept.append(
            {
                "at_once": split.at_once,
                "index_share": split.index_share,
                "model_share": split.model_share,
                "pinned_layers": answered.pinned_layers,
                "index_bytes": answered.index_bytes,
                "answers_per_min": answered.answers_per_minute,
                "latency_s": answered.mean_latency,
            }
        )

    @contextmanager
    def _engine(self, split: Split | None, *, has_model: bool = True) -> Iterator[SideProcess]:
        forget_pages(self.model)
        # Every side knows the machine's measured speed, and nothing that an earlier side has learnt.
        save_profile(profile_file(Home.under(self.home).data), self.profile)
        settings = {
            "home": str(self.home),
            "model": str(self.model) if has_model else "",
            "num_threads": num_threads(),
            "passages": self.size.passages,
            "answer_tokens": self.size.answer_tokens,
            "split": split.told() if split is not None else None,
            "first_question": self.questions[-1],
        }
        limit = Limit(self.limit_bytes, self.parent)
        with SideProcess.started("tests.bench.joint_side", settings, limit, is_ours=True) as side:
            yield side


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("joint", __doc__, quick="a small model, short phases and a small sweep, within five minutes")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the sweep there (CSV)")
    parser.add_argument("--no-sweep", action="store_true", help="only the three phases, about half an hour")
    peers.add_folder_option(parser)
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"The documents are missing: {DOCUMENTS} does not exist.", file=sys.stderr)
        return 2
    return within_group(_measure, options)


def _measure(options: argparse.Namespace, parent: Group) -> int:
    size = SMALL if options.quick else FULL
    with told(f"reading {size.chunks} passages of real documents"):
        library = read_library(size.chunks)
    model = bench_model(options.peers, size.shape, vocabulary_of(library))
    with told(f"indexing them with {size.vectors:,} synthetic vectors, unless done before"):
        folder = options.peers / f"joint-{size.chunks}-{size.vectors}"
        index_bytes = joint_library(folder, library.files, size.vectors)
    with told("measuring the machine's speed, as an idle engine does"):
        profile = measured(Profile(), folder)
    bench = Bench(size, folder, profile, index_bytes, model, asked_of(library, size.busy + 1), parent)
    bench.run(sweeps=not options.no_sweep)
    return 0 if tell(bench, options) or options.quick else 1


def asked_of(library: Library, count: int) -> list[str]:
    """Returns questions about the documents: words from a seeded choice of places."""
    return [stretch.question[:QUESTION_CHARACTERS] for stretch in stretches(library, count, num_tokens=32)]


def tell(bench: Bench, options: argparse.Namespace) -> bool:
    """Prints and writes the results; returns whether the bounds hold."""
    found = {name: joint_figures.figures(bench.size.phases, course) for name, course in bench.courses.items()}
    ours = found.pop("adaptive") | {"limit_bytes": float(bench.limit_bytes)}
    static = {name: course for name, course in bench.courses.items() if name != "adaptive"}
    named = joint_figures.named_ratios(bench.courses["adaptive"], static)
    report.show("joint", ours, found)
    if bench.swept:
        print(heat_map.heat_map(bench.swept, "at_once", "index_share", "answers_per_min"))
        print(heat_map.heat_map(bench.swept, "at_once", "pinned_layers", "answers_per_min"))
    if options.csv is not None and bench.swept:
        heat_map.write_csv(options.csv, bench.swept)
    if options.json is not None:
        report.write(options.json, ours, found, named)
    hits = sum(value for name, value in ours.items() if name.endswith("_limit_hits"))
    print(f"  {'limit_hits':<32} {hits:>12g}   bound 0: {'BROKEN' if hits else 'kept'}")
    return report.show_ratios(named, BOUNDS) and not hits


if __name__ == "__main__":
    sys.exit(ending.run(main))
