"""The whole engine when neither the index nor the model fits: memory that follows the load, beside fixed ways to share.

    python -m tests.bench.joint [--quick] [--json FILE] [--csv FILE] [--no-sweep] [--peers FOLDER] [--disk-rate MB]

Real documents and many synthetic vectors beside them (joint_library.py), and a model of random weights. The engine is a
process in a control group whose limit is what it holds with neither, a quarter of the index, the 1.2th part of the
model, and room for a context. Questions about the documents come as a load that moves between what people do: one after
the other, as somebody asks who reads the answers; then 16 at a time, as when each of many files is asked; then one
after the other again. A phase ends when so many were answered. Nothing is kept of what was read, so that no phase gains
by the one before, and answers are sampled (sampled.py).

- Adaptive is the engine as it is: one plan for answers at once, resident partitions and pinned layers, made anew as the
  load moves.
- Fixed are splits for a load that is always the same: so many answers at once, of the index's budget all, half or
  nothing in memory, and the model in the rest, placed in it as the engine would.

The sweep measures questions that come together, for each number of answers at once, share of the index's budget and
share of what is left that the model may have; it goes to a CSV file (`--csv`) and, as shades, to the terminal. Ratios,
of answers a minute:

- `best_static`, `worst_static`: adaptive ÷ the best and the worst fixed one, over all phases.
- `best_static_per_phase`: adaptive ÷ the best fixed one of each phase; the worst of these.

Exit code 1 when a bound does not hold; `--quick` (a small model, short phases, a small sweep) binds nothing. It is 2
where memory cannot be limited, or there are no documents.
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
# Cells and buffers of the answers, which are no part of the weights.
CONTEXT_BYTES = 128 * 2**20
# More than any machine of the bench is asked for: to see what the engine takes when it may have it.
_PLENTY = 64 * 2**30
QUESTION_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Size:
    """`vectors` beside the documents' chunks; questions answered in a calm and a busy phase, and at each point swept.

    `passages` are read for each, few, so that reading them does not hide all else on a small machine. The shares and
    numbers are the sweep's axes.
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
    """What is measured, and what was found so far."""

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
        """What the engine holds without model and index, and of these as much as is to fit."""
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
        # Each knows the machine as it was measured, and none what another has learnt.
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
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the sweep there")
    parser.add_argument("--no-sweep", action="store_true", help="the moving load alone, in half an hour")
    peers.add_folder_option(parser)
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"There are no documents at {DOCUMENTS}.", file=sys.stderr)
        return 2
    return within_group(_measure, options)


def _measure(options: argparse.Namespace, parent: Group) -> int:
    size = SMALL if options.quick else FULL
    with told(f"reading {size.chunks} passages of real documents"):
        library = read_library(size.chunks)
    model = bench_model(options.peers, size.shape, vocabulary_of(library))
    with told(f"indexing them with {size.vectors:,} vectors more, unless they are"):
        folder = options.peers / f"joint-{size.chunks}-{size.vectors}"
        index_bytes = joint_library(folder, library.files, size.vectors)
    with told("measuring how fast this machine is, as an engine does that nobody asks anything"):
        profile = measured(Profile(), folder)
    bench = Bench(size, folder, profile, index_bytes, model, asked_of(library, size.busy + 1), parent)
    bench.run(sweeps=not options.no_sweep)
    return 0 if tell(bench, options) or options.quick else 1


def asked_of(library: Library, count: int) -> list[str]:
    """Questions that are about the documents: words of theirs, a seeded choice of places."""
    return [stretch.question[:QUESTION_CHARACTERS] for stretch in stretches(library, count, num_tokens=32)]


def tell(bench: Bench, options: argparse.Namespace) -> bool:
    """Shows and writes what was found; whether the bounds hold."""
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
