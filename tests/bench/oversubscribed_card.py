"""A model larger than the graphics card: our planner's placement beside llama.cpp's own fit (`--fit on`).

    python -m tests.bench.oversubscribed_card [--quick] [--json FILE] [--peers FOLDER] [--usable GB …] [--ram GB]

Another process holds the card's memory but for `--usable` GB (ballast.py), as on cards of 8, 12 and 24 GB. A 32B model
of random weights (17.6 GB) is loaded. Measured are a prompt of 1,200 tokens, as long as one with passages of documents,
and one and four greedy answers at once to short prompts.

- `ours`: layers, KV, ring and step loop as in the application, placed by its planner from measured speeds of this
  machine and card.
- `llama_server`: built from the same source for the same card, placing layers by its own rule, which is its default.
  Both sides have room for the same number of tokens and use the same number of threads.
- With `--ram`, both are also limited in main memory (a control group). Card and memory together are then smaller than
  the model, so some layers are read from the disk for every token. There, prompts are also measured with layers outside
  the card computed by the processor, as in earlier versions (`uncopied_<GB>gb_<GB>gb_ram_read`: its seconds ÷ ours).

Only one side is loaded at a time, so that each has all of the usable memory. A ratio is the median over the rounds,
ours ÷ theirs: tokens per second while all answers are being written (`stock_<GB>gb_b<B>`), and prompt tokens per second
(`stock_<GB>gb_read`). `<GB>gb_ours_used_gb` is the card's decrease in free memory, including the driver's share for the
process; `<GB>gb_ours_ledger_gb` is what our ledger accounts for there.

Both are built with `CMAKE_ARGS=-DGGML_CUDA=on` (tests/bench/peers.py). There are no bounds yet: results are recorded in
tests/bench/results. Exit code 2 without a card or without any result.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.memory.bandwidth import measured
from engine.memory.device_rates import device_rates
from engine.memory.devices import probe_devices
from engine.memory.profile import Profile
from engine.memory.profile_file import save_profile
from tests.bench import confined, ending, peers, report
from tests.bench.batching import prompts
from tests.bench.bench_model import ONE_BILLION, THIRTY_TWO_BILLION, Shape, bench_model
from tests.bench.command_line import parser_of
from tests.bench.confined import CannotConfine, forget_pages
from tests.bench.measured_answers import MeasuredAnswers, same_share
from tests.bench.our_generation import num_threads, told
from tests.bench.peers import PeerFailed
from tests.bench.side_process import Limit, SideProcess

GB = 10**9
CONTEXT_TOKENS, SHORT_PROMPT_TOKENS = 1536, 32
NO_CARD = 2
# How long to wait for a side's memory on the card to be freed, and how much of it may remain.
LEAVING_SECONDS, LEFT_BYTES = 10.0, 64 * 2**20
RATES = (
    "device_bytes_per_s",
    "device_rate",
    "host_to_device_bytes_per_s",
    "pageable_to_device_bytes_per_s",
    "ram_bytes_per_s",
    "processor_rate",
    "disk_bytes_per_s",
)
Asked = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """`usable_gb` of the card and `rounds` at each; `prompt_tokens` to read, `tokens` to write per answer.

    The planner expects these lengths.
    """

    shape: Shape
    usable_gb: tuple[float, ...]
    at_once: tuple[int, ...]
    rounds: int
    prompt_tokens: int
    tokens: int
    warming_tokens: int

    def reading(self, seed: int) -> Asked:
        """Returns a long prompt, with just enough of an answer to show that it was read."""
        return {"prompts": prompts(self.shape, [self.prompt_tokens], (0, seed)), "num_tokens": 2}

    def warming(self) -> Asked:
        """Returns a request that shows the engine how the model is used before anything is measured."""
        return {"prompts": prompts(self.shape, [self.warming_tokens], (0, self.rounds)), "num_tokens": 2}

    def writing(self, at_once: int, seed: int) -> Asked:
        """Returns `at_once` short prompts."""
        texts = prompts(self.shape, [SHORT_PROMPT_TOKENS] * at_once, (at_once, seed))
        return {"prompts": texts, "num_tokens": self.tokens}


FULL = Size(THIRTY_TWO_BILLION, (8, 12, 24), (1, 4), rounds=2, prompt_tokens=1200, tokens=16, warming_tokens=1200)
SMALL = Size(ONE_BILLION, (1.2,), (1, 4), rounds=2, prompt_tokens=1200, tokens=16, warming_tokens=1200)
# For points at which layers are read from the disk for every token.
OF_THE_DISK = {"at_once": (4,), "rounds": 1, "tokens": 5, "warming_tokens": 64}


@dataclass(slots=True)
class Rounds:
    """Results of both sides for one kind of request, round by round."""

    ours: list[MeasuredAnswers] = field(default_factory=list)
    theirs: list[MeasuredAnswers] = field(default_factory=list)

    def note(self, ours: MeasuredAnswers, theirs: MeasuredAnswers) -> None:
        self.ours.append(ours)
        self.theirs.append(theirs)

    @property
    def writing(self) -> float:
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median(our.tokens_per_second / their.tokens_per_second for our, their in pairs)

    @property
    def reading(self) -> float:
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median(their.read_seconds / our.read_seconds for our, their in pairs)

    @property
    def same_text(self) -> float:
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.fmean(same_share(our.tokens, their.tokens) for our, their in pairs)


@dataclass(frozen=True, slots=True)
class Point:
    """A card of `usable_gb`, and the memory limit of each side; None sets no limit."""

    usable_gb: float
    ram_gb: float | None = None

    @property
    def name(self) -> str:
        limited = "" if self.ram_gb is None else f"_{self.ram_gb:g}gb_ram"
        return f"{self.usable_gb:g}gb{limited}"


@dataclass(slots=True)
class Bench:
    """What is measured, and the results so far."""

    size: Size
    model: Path
    server: Path
    profile: Path
    rounds: dict[str, Rounds] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    placements: dict[str, Any] = field(default_factory=dict)

    def compare(self, point: Point) -> None:
        """Measures ours, then llama.cpp; both are not loaded at once, so that each has all of the usable memory."""
        size = self.size if point.ram_gb is None else replace(self.size, **OF_THE_DISK)
        asked: dict[str, Callable[[int], Asked]] = {f"{point.name}_read": size.reading}
        asked |= {f"{point.name}_b{at_once}": partial(size.writing, at_once) for at_once in size.at_once}
        found = {name: list[list[MeasuredAnswers]]() for name in asked}
        with self._ballast(point) as ballast:
            if point.ram_gb is not None:
                self._read_uncopied(point, size)
                _wait_until_free(ballast)
            for side_name, start in (("ours", self._ours), ("theirs", self._theirs)):
                with told(f"{point.name}: {side_name}"), start(point, size) as side:
                    _written(side, size.warming())
                    for name, questions in asked.items():
                        found[name].append([_written(side, questions(number)) for number in range(size.rounds)])
                    if side_name == "ours":
                        self._note_settled(point, side)
                        # Keeps our results if the other side fails or is aborted.
                        self.figures |= {_figure(name): _median(name, ours[0]) for name, ours in found.items()}
                        print(json.dumps(self.figures), file=sys.stderr, flush=True)
                    used_bytes = ballast.settled["free_bytes"] - ballast.ask()["free_bytes"]
                    self.figures[f"{point.name}_{side_name}_used_gb"] = used_bytes / GB
                _wait_until_free(ballast)
        self.rounds |= {name: Rounds(ours, theirs) for name, (ours, theirs) in found.items()}

    def _read_uncopied(self, point: Point, size: Size) -> None:
        """Measures a prompt with streamed layers computed by the processor instead of copied to the card."""
        with told(f"{point.name}: uncopied"), self._ours(point, size, "uncopied") as side:
            _written(side, size.warming())
            self.figures[f"{point.name}_uncopied_read_s"] = _written(side, size.reading(0)).read_seconds

    def _note_settled(self, point: Point, side: SideProcess) -> None:
        """Records our placement and the ledger's bytes on the card."""
        self.placements[point.name] = side.settled
        self.figures[f"{point.name}_ours_layers_on_card"] = side.settled["n_gpu_layers"]
        self.figures[f"{point.name}_ours_ledger_gb"] = side.settled["gpu_bytes"] / GB

    @contextmanager
    def _ballast(self, point: Point) -> Iterator[SideProcess]:
        settings = {"usable_bytes": int(point.usable_gb * GB)}
        with SideProcess.started("tests.bench.ballast", settings, None) as side:
            yield side

    @contextmanager
    def _ours(self, point: Point, size: Size, way: str = "ours") -> Iterator[SideProcess]:
        settings = {
            "model": str(self.model),
            "way": way,
            "at_once": max(size.at_once),
            "prompt_tokens": size.prompt_tokens,
            "tokens": size.tokens,
            "context_tokens": CONTEXT_TOKENS,
            "num_threads": num_threads(),
            "profile": str(self.profile),
        }
        with SideProcess.started("tests.bench.our_side", settings, self._limit(point), is_ours=True) as side:
            yield side

    @contextmanager
    def _theirs(self, point: Point, size: Size) -> Iterator[SideProcess]:
        settings = {
            "binary": str(self.server),
            "model": str(self.model),
            "num_cells": CONTEXT_TOKENS * max(size.at_once),
            "num_slots": max(size.at_once),
            "num_threads": num_threads(),
        }
        with SideProcess.started("tests.bench.card_server_side", settings, self._limit(point)) as side:
            yield side

    def _limit(self, point: Point) -> Limit | None:
        if point.ram_gb is None:
            return None
        forget_pages(self.model)
        return Limit(int(point.ram_gb * GB), confined.find())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("oversubscribed_card", __doc__, quick="a model of 0.6 GB on a card of 1.2 GB")
    parser.add_argument("--usable", type=float, nargs="+", metavar="GB", help="memory to leave free (default: 8 12 24)")
    parser.add_argument("--ram", type=float, metavar="GB", help="also limit main memory, with the smallest card")
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    if not probe_devices():
        print("llama.cpp sees no graphics card here (packaging/README.md: llama.cpp on a GPU).", file=sys.stderr)
        return NO_CARD
    try:
        return _measure(options, SMALL if options.quick else FULL)
    except (CannotConfine, PeerFailed) as error:
        print(error, file=sys.stderr)
        return NO_CARD


def _measure(options: argparse.Namespace, size: Size) -> int:
    with told("writing the model, unless it exists"):
        model = bench_model(options.peers, size.shape)
    profile = options.peers / "card-profile.json"
    with told("measuring the speed of the machine and its card"):
        found = replace(measured(Profile(), options.peers, model), **device_rates())
        save_profile(profile, found)
    print(json.dumps({name: getattr(found, name) for name in RATES}))
    usable = tuple(options.usable or size.usable_gb)
    points = [Point(one) for one in usable] + ([Point(min(usable), options.ram)] if options.ram else [])
    bench = Bench(size, model, peers.llama_server(options.peers), profile)
    for point in points:
        try:
            bench.compare(point)
        except (CannotConfine, PeerFailed, OSError) as error:
            print(f"{point.name} is incomplete: {error}", file=sys.stderr)
        tell(bench, options.json)
    return 0 if bench.rounds else NO_CARD


def tell(bench: Bench, file: Path | None) -> None:
    """Prints and writes the results so far, so that they are kept if a later point fails."""
    ours, theirs, named = dict(bench.figures), dict[str, float](), dict[str, float]()
    for name, rounds in bench.rounds.items():
        for side, answers in ((ours, rounds.ours), (theirs, rounds.theirs)):
            side[_figure(name)] = _median(name, answers)
        ours[f"{name}_same_text"] = rounds.same_text
        named[f"stock_{name}"] = rounds.reading if name.endswith("_read") else rounds.writing
        if uncopied := bench.figures.get(f"{name.removesuffix('_read')}_uncopied_read_s"):
            named[f"uncopied_{name}"] = uncopied / _median(name, rounds.ours)
    report.show("oversubscribed_card", ours, {"llama_server": theirs})
    report.show_ratios(named, dict.fromkeys(named, 0.0))
    for name, said in bench.placements.items():
        print(f"  {name}: {json.dumps(said)[:1500]}")
    if file is not None:
        report.write(file, ours, {"llama_server": theirs}, named)


def _figure(name: str) -> str:
    return f"{name}_s" if name.endswith("_read") else f"{name}_tokens_per_s"


def _median(name: str, answers: Sequence[MeasuredAnswers]) -> float:
    if name.endswith("_read"):
        return statistics.median(one.read_seconds for one in answers)
    return statistics.median(one.tokens_per_second for one in answers)


def _wait_until_free(ballast: SideProcess) -> None:
    """Waits, because a driver may free a side's memory only a moment after its end."""
    deadline = time.monotonic() + LEAVING_SECONDS
    while ballast.ask()["free_bytes"] < ballast.settled["free_bytes"] - LEFT_BYTES and time.monotonic() < deadline:
        time.sleep(0.1)


def _written(side: SideProcess, asked: Asked) -> MeasuredAnswers:
    return MeasuredAnswers.heard(side.ask(**asked))


if __name__ == "__main__":
    sys.exit(ending.run(main))
