"""Models larger than memory: the ring beside llama.cpp's own mapping of the file, Accelerate, and what the disk allows.

    python -m tests.bench.oversubscribed [--quick] [--json FILE] [--peers FOLDER] [--no-accelerate] [--disk-rate MB]

A model of random weights is 0.8, 1.2, 1.7 and 2.5 times as large as the memory that each side may hold, and 1, 4 and 8
greedy answers are written at once. The limit is real: every side is a process in a control group of its own, and what
it was not given before counts against it. It holds for all of the process, so it means the same to all sides.

- Ours: weights, ring, context and step loop as the application puts them together, placed by its planner.
- Stock: llama.cpp maps the file, and the kernel reads what it lacks; the same library. Where the model fits, with the
  repacked weights that it takes by itself; these would be its end where it does not. Ours streams them so: there its
  texts and logits are compared with those of stock that has room for all of them.
- The bound: what the ring streams for a pass ÷ how fast the same layers can be read without computing, with as many
  reads at once and of the same size, measured between the rounds.
- Accelerate (transformers, disk offload) at 1.2 times and one answer: as many layers of as many bytes, at 16 bits. Not
  in quick runs, whose limit its libraries alone exceed.
- Ours with a simpler ring, at 1.7 times and one answer: `next_layer_only` holds two whole layers, of which it
  reads one ahead, as FlexGen does, and
  `phase_blind` reads prompts 512 tokens at a time, as llama.cpp does by default, and has as many layers less in memory.
  Both also beside a busy process, but not in quick runs.
- Drafts by prompt lookup on and off, at 1.7 times, in an answer that quotes its passages.
- Layers that move: 30 % of them are pinned, then 70 %, then 30 % again, in memory as large as the model.

Sides take turns, and a ratio is the median of those of the rounds: tokens a second of ours ÷ the peer's while all
answers are being written (`phase_blind`: of whole answers with their prompts). Ratios: `stock_<factor>x_b<B>`,
`bound_<factor>x_b<B>` (the share of the bound that we reach), `stock_fits`, `accelerate_1.2x_b1`, `next_layer_only`,
`phase_blind`, `drafting_1.7x_b1`.

Bytes are those that the kernel says a process read (/proc/<pid>/io). Exit code 1 when a bound does not hold, a text
differs, a ratio of these is missing (`--no-accelerate` does without Accelerate's) or a side was killed; `--quick` (a
small model, fewer points) binds nothing. It is 2 where memory cannot be limited.
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
# Room of one answer and its prompt; others get as many times that as they need.
SHORT_CONTEXT_TOKENS = 128
SIMPLER_POINT, ACCELERATE_POINT, MOVING_POINT = Point(1.7, 1), Point(1.2, 1), Point(1.0, 1)
PINNED_SHARES = (0.3, 0.7, 0.3)
SIMPLER = ("next_layer_only", "phase_blind")
# What ours must be at least beside these, in peace: turns taken on a machine that has other work differ by as much.
BESIDE_SIMPLER = 0.97
# Memory of a process that holds all of the model, and pages of its file beside it.
WHOLE_FACTOR = 3.0
# Of the turns, those whose ratios others know by name.
OF_ACCELERATE, OF_DRAFTS = "accelerate_1.2x_b1", "drafting_1.7x_b1"
PROMISED = (*SIMPLER, OF_DRAFTS, OF_ACCELERATE)
_BUSY = "while True: pass"
# Pages of libraries are charged to whoever touches them first, for as long as he has them: neither side is to be it.
_HAS_LIBRARIES = "import sys, tests.bench.our_side, tests.bench.stock_side; print(flush=True); sys.stdin.read()"


@dataclass(frozen=True, slots=True)
class Size:
    """`tokens` of an answer and of one that quotes, `rounds` at each point, `turns` with each simpler way.

    Where reading counts, `long_prompt_tokens` are read and `short_answer_tokens` written; so many `passages` may be
    quoted. `with_hog`: whether simpler ways are measured beside a busy process too.
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
        """What they are all called."""
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
# The process takes as much as with a large model: a smaller one would leave nothing of its share to be pinned.
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
    """What is measured, and what was found so far."""

    size: Size
    model: Path
    # A file of its own: pages of the file that one side brought into memory would cost the other nothing.
    stock_model: Path
    # What the planner knows of the machine, as it does in the application.
    profile: Path
    parent: Group
    accelerate: Path | None
    found: dict[Point, Rounds] = field(default_factory=dict)
    turns: dict[str, Turns] = field(default_factory=dict)
    # Simpler ways that are ours here, so that there is nothing to compare.
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
        """Ours and stock in turn."""
        rounds = Rounds()
        texts = [self._asked(point.at_once, number) for number in range(self.size.rounds + 1)]
        with self._ours(point, texts[0]) as ours, self._stock(point) as stock:
            for number, asked in enumerate(texts):
                sides = [_written(side, asked) for side in (ours, stock)]
                # The first round is there to warm up.
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
        """Of the layers that are streamed, in bytes a second."""
        extents = layer_extents(self.model, ours.settled["streamed_layers"])
        return bandwidth(self.model, extents, READS_AT_ONCE, CHUNK_BYTES)

    def _move(self) -> None:
        """Ours alone, in memory as large as the model: more layers are pinned while an answer is written, and less."""
        asked = self._asked(1, 0) | {"pinned_shares": PINNED_SHARES, "stride": self.size.tokens}
        asked["num_tokens"] = 1 + len(PINNED_SHARES) * self.size.tokens
        with told("layers that move"), self._ours(MOVING_POINT, asked) as ours:
            _written(ours, self._asked(1, 1))
            self.moved = Moved(_written(ours, asked), self.size.tokens)

    def _compare_simpler(self) -> None:
        """Ours and what is simpler, in peace and beside a busy process."""
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
            print(f"Accelerate is left out: {error}", file=sys.stderr)

    def _take_turns(self, name: str, ours: SideProcess, other: SideProcess) -> None:
        """One answer at a time; with a long prompt, which counts, where reading prompts is what differs."""
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
                # The first one learns what drafts are worth.
                if number:
                    turns.note(*sides)
        self.turns[OF_DRAFTS] = turns

    @contextmanager
    def _ours(self, point: Point, asked: dict[str, Any], way: str = "ours") -> Iterator[SideProcess]:
        """Placed for what it is asked."""
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
        """Within the point's limit; or with all of it in memory, in the order that the processor reads fastest."""
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
    parser.add_argument("--no-accelerate", action="store_true", help="do without Accelerate, and install nothing")
    peers.add_folder_option(parser)
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    return within_group(_measure, options)


def _measure(options: argparse.Namespace, parent: Group) -> int:
    size = SMALL if options.quick else FULL
    with ExitStack() as undo:
        with told("writing the model, unless it is there"):
            model = bench_model(options.peers, size.shape)
            copies = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=options.peers)))
            copy = Path(shutil.copyfile(model, copies / model.name))
        python = None
        # Its libraries alone are larger than the limit of a quick run.
        if not (options.quick or options.no_accelerate):
            python = accelerate_peer.interpreter(options.peers)
        with told("measuring how fast this machine is"):
            profile = copies / "profile.json"
            save_profile(profile, measured(Profile(), copies, copy))
        bench = Bench(size, model, copy, profile, parent, python)
        is_complete = True
        try:
            bench.run()
        except PeerFailed as error:
            # What was found before is told.
            is_complete = False
            print(f"The run ends here: {error}", file=sys.stderr)
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
    """Shows and writes what was found; whether all that is promised was so, and all ratios that are were found."""
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
    broken += [f"{name} is missing: it is promised, and was not measured." for name in promised if name not in named]
    report.show("oversubscribed", ours, others)
    is_kept = report.show_ratios(named, {name: bounds.get(name, 0.0) for name in named})
    for sentence in broken:
        print(f"  {sentence}")
    if file is not None:
        report.write(file, ours, others, named)
    return is_kept and not broken


def room_for(asked: dict[str, Any]) -> int:
    """Tokens of a context for one of these answers and its prompt."""
    needed: int = max(map(len, asked["prompts"])) + asked["num_tokens"] + 1
    return -(-needed // SHORT_CONTEXT_TOKENS) * SHORT_CONTEXT_TOKENS


def _written(side: SideProcess, asked: dict[str, Any]) -> MeasuredAnswers:
    written = MeasuredAnswers.heard(side.ask(**asked))
    if not written.pass_seconds:
        raise PeerFailed("An answer was whole before the last one had begun: there is no pass that writes all of them.")
    return written


if __name__ == "__main__":
    sys.exit(ending.run(main))
