"""Models larger than memory: our streaming ring beside llama.cpp's mmap, Accelerate's offload and the disk's bound.

    python -m tests.bench.oversubscribed [--quick] [--json FILE] [--peers FOLDER] [--no-accelerate] [--disk-rate MB]

A model of 3B shape with random weights is 0.8, 1.2, 1.7 and 2.5 times as large as the memory that each side may hold,
and 1, 4 and 8 greedy answers are written at once. Every side is a process in a control group of its own, so the limit
is enforced by the kernel, covers the whole process, and means the same to all sides. Peers:

- `stock`: the same llama.cpp library maps the file, and the kernel reads missing pages. Where the model fits, stock has
  the repacked weights of llama.cpp's default; where it does not, repacked copies would get it killed. Our ring streams
  repacked weights, so there texts and logits are compared with a stock process that has room for all of them.
- `bound`: the time to read the streamed layers of a pass without computing, with as many concurrent reads of the same
  size, measured between the rounds.
- `accelerate` (transformers with disk offload) at 1.2 times and one answer: as many layers of as many bytes, at 16
  bits. Not in quick runs, whose limit its libraries alone exceed.
- Our engine with a simpler ring, at 1.7 times and one answer: `next_layer_only` holds two whole layers, one of which is
  read ahead, as in FlexGen; `phase_blind` reads prompts 512 tokens at a time, llama.cpp's default, which leaves memory
  for fewer layers. Both are measured beside a busy process as well, but not in quick runs.

Our side alone is measured with drafts by prompt lookup on and off (an answer that quotes its passages, at 1.7 times),
and while layers move: 30 % of them are pinned, then 70 %, then 30 % again, in memory as large as the model.

Sides take turns, and a ratio is the median over the rounds of our tokens per second ÷ the peer's while all answers are
being written (`phase_blind`: over whole answers with their prompts):

- `stock_<factor>x_b<B>`, `bound_<factor>x_b<B>` (the share of the bound that we reach), with B answers at once.
- `stock_fits`: the lowest ratio to stock where the model fits.
- `accelerate_1.2x_b1`, `next_layer_only`, `phase_blind`.
- `drafting_1.7x_b1`: with drafts ÷ without.

Lower bounds are in oversubscription.py. Besides, texts and (of single answers) logits must equal stock's, the ledger
must agree with the kernel within 5 %, four answers must reach three times the tokens per second of one at 1.7 times, a
pass while layers move may take at most 1.5 times the slower steady state, and no major page fault or hit of the limit
may occur while decoding. Bytes read are the kernel's count (/proc/<pid>/io). Exit code 1 if a bound does not hold, a
ratio is missing (with `--no-accelerate`, Accelerate's may be) or a side was killed; 2 if memory cannot be limited.
`--quick` (a small model, fewer points, within five minutes) checks no bounds.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.generation.weights.homes import CHUNK_BYTES
from engine.generation.weights.readers import READS_AT_ONCE
from engine.memory.bandwidth import measured
from engine.memory.profile import Profile
from engine.memory.profile_file import save_profile
from tests.bench import accelerate_peer, ending, peers, report
from tests.bench.batching import prompts
from tests.bench.bench_model import ONE_BILLION, THREE_BILLION, Shape, bench_model, plain_tokens
from tests.bench.command_line import parser_of, within_group
from tests.bench.confined import Group, forget_pages
from tests.bench.direct_bandwidth import bandwidth, layer_extents
from tests.bench.disk_rate import add_disk_rate_option
from tests.bench.measured_answers import MeasuredAnswers
from tests.bench.our_generation import num_threads, told
from tests.bench.oversubscription import Moved, Point, Rounds, Turns, batch_of_four, faults, least, named_ratios
from tests.bench.peer_process import running
from tests.bench.peers import PeerFailed
from tests.bench.quoting import SEED, Library
from tests.bench.side_process import Limit, SideProcess

PROMPT_TOKENS = 32
# Room for one answer and its prompt; longer ones get a multiple of it.
SHORT_CONTEXT_TOKENS = 128
SIMPLER_POINT, ACCELERATE_POINT, MOVING_POINT = Point(1.7, 1), Point(1.2, 1), Point(1.0, 1)
PINNED_SHARES = (0.3, 0.7, 0.3)
SIMPLER = ("next_layer_only", "phase_blind")
# Lower bound on an idle machine: on one with other work, alternating turns differ by as much.
BESIDE_SIMPLER = 0.97
# Memory for the whole model in the process, beside the pages of its file.
WHOLE_FACTOR = 3.0
# Those of the turns that are reported as ratios.
OF_ACCELERATE, OF_DRAFTS = "accelerate_1.2x_b1", "drafting_1.7x_b1"
PROMISED = (*SIMPLER, OF_DRAFTS, OF_ACCELERATE)
_BUSY = "while True: pass"
# The kernel charges pages of libraries to the process that touched them first, as long as it keeps them. This process
# touches them before either side does.
_HAS_LIBRARIES = "import sys, tests.bench.our_side, tests.bench.stock_side; print(flush=True); sys.stdin.read()"


@dataclass(frozen=True, slots=True)
class Size:
    """`tokens` of an answer and of one that quotes, `rounds` at each point, `turns` with each simpler way.

    Where reading prompts matters, prompts have `long_prompt_tokens` and answers `short_answer_tokens`. A quoting answer
    has `passages`. `with_hog`: whether simpler ways are measured beside a busy process as well.
    """

    shape: Shape
    factors: tuple[float, ...]
    at_once: tuple[int, ...]
    rounds: int
    turns: int
    tokens: int
    quoting_tokens: int
    long_prompt_tokens: int
    short_answer_tokens: int
    passages: int
    with_hog: bool

    def ratios(self, *, with_accelerate: bool) -> tuple[str, ...]:
        """Returns the names of all ratios of a complete run."""
        points = [Point(factor, at_once) for factor, at_once in itertools.product(self.factors, self.at_once)]
        stock = [f"stock_{point.name}" for point in points]
        bounds = [f"bound_{point.name}" for point in points if not point.fits]
        turns = [name for name in PROMISED if with_accelerate or name != OF_ACCELERATE]
        return (*stock, *bounds, "stock_fits", *turns)


FULL = Size(
    THREE_BILLION,
    factors=(0.8, 1.2, 1.7, 2.5),
    at_once=(1, 4, 8),
    rounds=3,
    turns=2,
    tokens=12,
    quoting_tokens=60,
    long_prompt_tokens=384,
    short_answer_tokens=32,
    passages=2,
    with_hog=True,
)
# A process takes as much memory as with a large model: a smaller one would leave no room for pinned layers.
SMALL = Size(
    ONE_BILLION,
    factors=(0.8, 1.2, 1.7),
    at_once=(1,),
    rounds=1,
    turns=1,
    tokens=8,
    quoting_tokens=30,
    long_prompt_tokens=160,
    short_answer_tokens=4,
    passages=1,
    with_hog=False,
)


@dataclass(slots=True)
class Bench:
    """What is measured, and the results so far."""

    size: Size
    model: Path
    # A file of its own: pages that one side brought into memory would be free for the other.
    stock_model: Path
    # The machine's measured speeds, which the planner knows in the application as well.
    profile: Path
    parent: Group
    accelerate: Path | None
    found: dict[Point, Rounds] = field(default_factory=dict)
    turns: dict[str, Turns] = field(default_factory=dict)
    # Simpler ways that turn out the same as ours, so there is nothing to compare.
    alike: set[str] = field(default_factory=set)
    moved: Moved | None = None

    def run(self) -> None:
        with running([sys.executable, "-c", _HAS_LIBRARIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            self._measure()

    def _measure(self) -> None:
        for factor, at_once in itertools.product(self.size.factors, self.size.at_once):
            with told(f"{factor:g} times the memory, {at_once} at a time"):
                self._compare(Point(factor, at_once))
        self._move()
        self._compare_simpler()
        self._compare_drafting()
        if self.accelerate is not None:
            self._compare_accelerate(self.accelerate)

    def _compare(self, point: Point) -> None:
        """Measures ours and stock in turn."""
        rounds = Rounds()
        texts = [self._asked(point.at_once, number) for number in range(self.size.rounds + 1)]
        with self._ours(point, texts[0]) as ours, self._stock(point) as stock:
            for number, asked in enumerate(texts):
                sides = [_written(side, asked) for side in (ours, stock)]
                # The first round only warms up.
                if number:
                    rounds.ours.append(sides[0])
                    rounds.stock.append(sides[1])
                    if ours.settled["streamed_layers"]:
                        rounds.bandwidths.append(self._bandwidth(ours))
            is_packed = ours.settled["is_packed"]
        if is_packed:
            with self._stock(point, is_whole=True) as whole:
                rounds.whole = [_written(whole, asked) for asked in texts[1:]]
        self.found[point] = rounds

    def _bandwidth(self, ours: SideProcess) -> float:
        """Measures the read rate of the streamed layers, in bytes per second."""
        extents = layer_extents(self.model, ours.settled["streamed_layers"])
        return bandwidth(self.model, extents, READS_AT_ONCE, CHUNK_BYTES)

    def _move(self) -> None:
        """Measures our side alone, with as much memory as the model, while layers are pinned and released."""
        asked = self._asked(1, 0) | {"pinned_shares": PINNED_SHARES, "stride": self.size.tokens}
        asked["num_tokens"] = 1 + len(PINNED_SHARES) * self.size.tokens
        with told("layers that move"), self._ours(MOVING_POINT, asked) as ours:
            _written(ours, self._asked(1, 1))
            self.moved = Moved(_written(ours, asked), self.size.tokens)

    def _compare_simpler(self) -> None:
        """Measures ours and simpler ways in turn, alone and beside a busy process."""
        for way in SIMPLER:
            asked = self._long(0) if way == "phase_blind" else self._asked(1, 0)
            with (
                told(f"ours beside {way}"),
                self._ours(SIMPLER_POINT, asked) as ours,
                self._ours(SIMPLER_POINT, asked, way) as other,
            ):
                num_tokens = ours.settled["n_ubatch"]
                if way == "phase_blind" and num_tokens == other.settled["n_ubatch"]:
                    print(f"{way} is left out: both sides read prompts {num_tokens} tokens at a time.")
                    self.alike.add(way)
                    continue
                self._take_turns(way, ours, other)
                if self.size.with_hog:
                    with running([sys.executable, "-c", _BUSY]):
                        self._take_turns(f"{way}_beside_hog", ours, other)

    def _compare_accelerate(self, python: Path) -> None:
        limit = self._limit(ACCELERATE_POINT.factor)
        try:
            with (
                told("ours beside Accelerate"),
                accelerate_peer.started(python, self.model.parent, self.size.shape, limit) as other,
                self._ours(ACCELERATE_POINT, self._asked(1, 0)) as ours,
            ):
                self._take_turns(OF_ACCELERATE, ours, other)
        except PeerFailed as error:
            print(f"Accelerate was not measured: {error}", file=sys.stderr)

    def _take_turns(self, name: str, ours: SideProcess, other: SideProcess) -> None:
        """Measures one answer at a time; with a long prompt that counts, where the sides differ in reading prompts."""
        turns = Turns(with_prompts=name.startswith("phase_blind"))
        for number in range(self.size.turns + 1):
            asked = self._long(number) if turns.with_prompts else self._asked(1, number)
            sides = [_written(side, asked) for side in (ours, other)]
            if number:
                turns.note(*sides)
        self.turns[name] = turns

    def _compare_drafting(self) -> None:
        recorded = Library(plain_tokens(self.size.shape.vocabulary), SEED).quoting(
            self.size.quoting_tokens, self.size.passages
        )
        asked: dict[str, Any] = {
            "prompts": [recorded.prompt],
            "quotable": recorded.quotable,
            "given": recorded.answer,
            "num_tokens": len(recorded.answer),
        }
        turns = Turns()
        with told("drafts on and off"), self._ours(SIMPLER_POINT, asked) as ours:
            for number in range(self.size.turns + 1):
                sides = [_written(ours, {**asked, "has_drafts": drafts}) for drafts in (True, False)]
                # In the first turn, the engine learns what drafts gain.
                if number:
                    turns.note(*sides)
        self.turns[OF_DRAFTS] = turns

    @contextmanager
    def _ours(self, point: Point, asked: dict[str, Any], way: str = "ours") -> Iterator[SideProcess]:
        """Starts our side, placed for what it will be asked."""
        forget_pages(self.model)
        settings = {
            "model": str(self.model),
            "way": way,
            "at_once": point.at_once,
            "prompt_tokens": max(map(len, asked["prompts"])),
            "tokens": asked["num_tokens"],
            "context_tokens": room_for(asked),
            "num_threads": num_threads(),
            "profile": str(self.profile),
        }
        with SideProcess.started("tests.bench.our_side", settings, self._limit(point.factor), is_ours=True) as side:
            yield side

    @contextmanager
    def _stock(self, point: Point, *, is_whole: bool = False) -> Iterator[SideProcess]:
        """Starts stock within the point's limit; or with the whole model in memory, repacked for the processor."""
        forget_pages(self.stock_model)
        settings = {
            "model": str(self.stock_model),
            "num_cells": SHORT_CONTEXT_TOKENS * point.at_once,
            "num_threads": num_threads(),
            "is_repacked": is_whole or point.fits,
        }
        limit = self._limit(1 / WHOLE_FACTOR if is_whole else point.factor)
        with SideProcess.started("tests.bench.stock_side", settings, limit) as side:
            yield side

    def _limit(self, factor: float) -> Limit:
        return Limit(int(self.model.stat().st_size / factor), self.parent)

    def _asked(self, at_once: int, seed: int) -> dict[str, Any]:
        texts = prompts(self.size.shape, [PROMPT_TOKENS] * at_once, (at_once, seed))
        return {"prompts": texts, "num_tokens": self.size.tokens}

    def _long(self, seed: int) -> dict[str, Any]:
        texts = prompts(self.size.shape, [self.size.long_prompt_tokens], (0, seed))
        return {"prompts": texts, "num_tokens": self.size.short_answer_tokens}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("oversubscribed", __doc__, quick="a model of 0.6 GB and fewer points, within five minutes")
    parser.add_argument("--no-accelerate", action="store_true", help="do not install and measure Accelerate")
    peers.add_folder_option(parser)
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    return within_group(_measure, options)


def _measure(options: argparse.Namespace, parent: Group) -> int:
    size = SMALL if options.quick else FULL
    with ExitStack() as undo:
        with told("writing the model, unless it exists"):
            model = bench_model(options.peers, size.shape)
            copies = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=options.peers)))
            copy = Path(shutil.copyfile(model, copies / model.name))
        python = None
        # Its libraries alone exceed the limit of a quick run.
        if not (options.quick or options.no_accelerate):
            python = accelerate_peer.interpreter(options.peers)
        with told("measuring the machine's speed"):
            profile = copies / "profile.json"
            save_profile(profile, measured(Profile(), copies, copy))
        bench = Bench(size, model, copy, profile, parent, python)
        is_complete = True
        try:
            bench.run()
        except PeerFailed as error:
            # Earlier results are reported below.
            is_complete = False
            print(f"The run was aborted: {error}", file=sys.stderr)
    promised = () if options.quick else size.ratios(with_accelerate=not options.no_accelerate)
    is_kept = tell(bench.found, bench.turns, bench.moved, options.json, set(promised) - bench.alike)
    return 0 if is_complete and (is_kept or options.quick) else 1


def tell(
    found: Mapping[Point, Rounds],
    turns: Mapping[str, Turns],
    moved: Moved | None,
    file: Path | None,
    promised: Collection[str] = (),
) -> bool:
    """Prints and writes the results; returns whether all bounds hold and all ratios in `promised` were measured."""
    ours = {name: value for point, rounds in found.items() for name, value in rounds.our_figures(point).items()}
    ours |= {name: value for what, one in turns.items() for name, value in one.figures(what).items()}
    if (gain := batch_of_four(found)) is not None:
        ours["batch_of_four_1.7x"] = gain
    others = {
        "stock": {
            name: value for point, rounds in found.items() for name, value in rounds.stock_figures(point).items()
        },
        "bound": {
            name: value for point, rounds in found.items() for name, value in rounds.bound_figures(point).items()
        },
    }
    named = named_ratios(found) | {name: turns[name].ratio for name in PROMISED if name in turns}
    bounds = least(found) | dict.fromkeys(SIMPLER, BESIDE_SIMPLER)
    broken = faults(found)
    if moved is not None:
        ours |= {"moving_worst_step": moved.worst_step, "moving_written_bytes": moved.answers.marks.written_bytes}
        broken += moved.faults()
    broken += [f"{name} is missing: it was not measured." for name in promised if name not in named]
    report.show("oversubscribed", ours, others)
    is_kept = report.show_ratios(named, {name: bounds.get(name, 0.0) for name in named})
    for sentence in broken:
        print(f"  {sentence}")
    if file is not None:
        report.write(file, ours, others, named)
    return is_kept and not broken


def room_for(asked: dict[str, Any]) -> int:
    """Returns the context size for one of these answers and its prompt."""
    needed: int = max(map(len, asked["prompts"])) + asked["num_tokens"] + 1
    return -(-needed // SHORT_CONTEXT_TOKENS) * SHORT_CONTEXT_TOKENS


def _written(side: SideProcess, asked: dict[str, Any]) -> MeasuredAnswers:
    written = MeasuredAnswers.heard(side.ask(**asked))
    if not written.pass_seconds:
        raise PeerFailed("An answer was complete before the last one had begun, so no pass writes all of them.")
    return written


if __name__ == "__main__":
    sys.exit(ending.run(main))
