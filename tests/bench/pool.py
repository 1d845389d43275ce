"""Several models that do not fit into memory together: the time of a switch, and the share of tokens in time.

    python -m tests.bench.pool [--quick] [--json FILE] [--only NAME…] [--peers FOLDER] [--no-peers] [--disk-rate MB]

Every side is a process in a control group of its own. All sides may hold the same amount beside what their process
holds without a model, and no model file is in the page cache at the start. There are two parts:

- `switch`: two models that do not fit together, each with running answers to long prompts. Ours answers both at once;
  the pool reports for each switch the time for one model to leave, and the time until the other has computed its first
  step, beyond a normal step. The peer `reloading` uses the same classes and texts: it frees context and model, loads
  the other model, creates a context, and reads prompts and written text again. Its weights are repacked, which is
  llama.cpp's default: left as mapped pages, they make it three times slower within the limit. Then two chats, one per
  model, are answered at the same time (ours only).
- `goodput`: seven models, of which two fit together. Questions come by a Poisson process, models by Zipf's law, and
  lengths from the Azure conversations of 2023. A token is in time if it arrives by the question's arrival + TTFT target
  + its position × TPOT target. The peer `router` is llama-server as a router of the same llama.cpp (`--models-dir`,
  with `--models-max` as many as fit). The rate of questions is a multiple of what one of its servers answers one by
  one, which is measured first. Each side has generated two tokens with every model before the load.

Ratios (lower bounds in brackets):

- `unload_load`: mean seconds of a switch by reloading ÷ ours (10).
- `router_goodput`: our tokens in time ÷ the router's, the median over the seeds (1.5).
- `tpot_met_two_chats`: no ratio, but the share of the two chats' tokens that arrive at the pace of the TPOT target,
  counted from the first token (.95).

Exit code 1 if a bound does not hold or was not measured, 2 if memory cannot be limited or the trace is missing;
`--quick` (smaller models, shorter prompts, one short load, within five minutes) checks no bounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import resources
from engine.memory.bandwidth import measured
from engine.memory.profile import Profile
from tests.bench import azure, ending, peers, report
from tests.bench.azure import CONVERSATIONS, Length, Scale, read_lengths
from tests.bench.batching import prompts
from tests.bench.bench_model import LEAN, LEANER, ONE_BILLION, SEED, Shape, bench_model
from tests.bench.command_line import parser_of, within_group
from tests.bench.confined import Group, forget_pages
from tests.bench.disk_rate import add_disk_rate_option
from tests.bench.given_text import words_of
from tests.bench.our_generation import num_threads, told
from tests.bench.peers import PeerFailed
from tests.bench.pool_figures import (
    BOUNDS,
    Reply,
    Switch,
    Targets,
    horizon_s,
    load_figures,
    models_at_once,
    over_peer,
    promised,
    switch_figures,
    tpot_met,
)
from tests.bench.pool_load import Asked, arrivals, questions, words
from tests.bench.serving_library import fresh
from tests.bench.side_process import Limit, SideProcess

PARTS = ("switch", "goodput")
NUM_MODELS = 7
SLOTS = 4
# Words of roles, and of what introduces a question.
MARKUP = "system user assistant Question"
# As a multiple of the memory of one of the router's servers, with its weights, cells and buffers.
MODELS_THAT_FIT = 2.5
# Compute buffers of two models' contexts, beside their cells.
BUFFER_BYTES = 48 * 2**20
# As a multiple of one model's file: with less, it could not even be loaded alone.
MODEL_ROOM = 1.15
# More than any machine of this bench needs.
_PLENTY = 64 * 2**30
# A time until which everything is waited for.
_LONG_S = 1800.0


@dataclass(frozen=True, slots=True)
class Running:
    """Texts of each of the two models that are written while the models switch."""

    at_once: int
    prompt_tokens: int
    answer_tokens: int
    switches: int
    # Steps of the peer between two switches.
    steps: int

    @property
    def tokens(self) -> int:
        return self.at_once * (self.prompt_tokens + self.answer_tokens)


@dataclass(frozen=True, slots=True)
class Size:
    """`load_share`: the rate of the load ÷ that of one of the router's servers answering one by one."""

    pair: Shape
    running: Running
    chat_tokens: int
    chat_targets: Targets
    pooled: Shape
    scale: Scale
    targets: Targets
    load_share: float
    seconds: float
    calibrating: int
    seeds: tuple[int, ...]


FULL = Size(
    pair=ONE_BILLION,
    running=Running(at_once=4, prompt_tokens=1000, answer_tokens=1000, switches=8, steps=8),
    chat_tokens=400,
    chat_targets=Targets(ttft_s=10.0, tpot_s=0.25),
    pooled=LEAN,
    scale=Scale(prompt_divisor=4, answer_divisor=2, most=1500),
    targets=Targets(ttft_s=10.0, tpot_s=0.25),
    # The router answers several questions of one model at once, and so more than one by one. At 1.0, 84 % of its tokens
    # were in time, at 1.5 a third: at lower rates, there is little to gain for any side.
    load_share=1.5,
    seconds=300.0,
    calibrating=24,
    seeds=(1, 2, 3),
)
SMALL = Size(
    pair=LEAN,
    running=Running(at_once=4, prompt_tokens=500, answer_tokens=500, switches=6, steps=8),
    chat_tokens=150,
    chat_targets=Targets(ttft_s=2.0, tpot_s=0.1),
    pooled=LEANER,
    scale=Scale(prompt_divisor=16, answer_divisor=4, most=500),
    targets=Targets(ttft_s=2.0, tpot_s=0.1),
    # At this rate, about half of the router's tokens are in time; lower rates leave little to gain.
    load_share=0.75,
    seconds=40.0,
    calibrating=12,
    seeds=(1,),
)


@dataclass(frozen=True, slots=True)
class Load:
    """Questions, and the time until which answers are waited for."""

    asked: tuple[Asked, ...]
    until_s: float

    @classmethod
    def of(cls, asked: Sequence[Asked], targets: Targets) -> Load:
        return cls(tuple(asked), horizon_s([(one.arrival_s, one.answer_tokens) for one in asked], targets))

    def told(self) -> dict[str, Any]:
        return {"asked": [one.told() for one in self.asked], "until_s": self.until_s}


@dataclass(frozen=True, slots=True)
class Server:
    """Memory of one of the router's servers, and the number of questions per second that it answers one by one."""

    alone_bytes: int
    num_bytes: int
    per_second: float


@dataclass
class Bench:
    """What is measured, and the results so far."""

    size: Size
    home: Path
    profile: Profile
    pair: Sequence[Path]
    pooled: Sequence[Path]
    binary: Path | None
    has_peers: bool
    parent: Group
    switches: list[Switch] = field(default_factory=list)
    reloading: list[Switch] = field(default_factory=list)
    chats: list[Reply] = field(default_factory=list)
    ours: list[list[Reply]] = field(default_factory=list)
    our_switches: list[Switch] = field(default_factory=list)
    router: list[list[Reply]] = field(default_factory=list)
    # The router's messages for questions that it refused or answers that it aborted.
    refused: list[str] = field(default_factory=list)
    server: Server | None = None

    def run(self, parts: Sequence[str]) -> None:
        if "switch" in parts:
            self.measure_switches()
            if self.has_peers:
                self.measure_reloading()
        if "goodput" in parts and self.binary is not None:
            self.measure_router()
            self.measure_goodput()

    def measure_switches(self) -> None:
        """Measures switches, then the two chats with the same engine."""
        running, tokens = self.size.running, self.size.chat_tokens
        chats = [Asked(words(32, random.Random(model)), model, 0.0, tokens) for model in range(2)]
        targets = self.size.chat_targets
        with self._ours(self.pair, self._room_of_pair, self._pair_tokens, targets) as side:
            switched = self._told("switching", side, running=self._running(), switches=running.switches)
            heard = self._told("two chats", side, **Load(tuple(chats), _LONG_S).told())
        self.switches = [Switch.heard(one) for one in switched["switches"]]
        self.chats = [Reply.heard(one) for one in heard["replies"]]

    def measure_reloading(self) -> None:
        running = self.size.running
        settings = {
            "models": [str(path) for path in self.pair],
            "num_threads": num_threads(),
            "num_cells": running.tokens,
            "num_sequences": running.at_once,
        }
        texts = [prompts(self.size.pair, [running.prompt_tokens] * running.at_once, (seed,)) for seed in (1, 2)]
        with self._side("pool_unload_side", settings, self.pair, self._room_of_pair) as side:
            asked = {"texts": texts, "steps": running.steps, "switches": running.switches}
            heard = self._told("unloading and loading", side, **asked)
        self.reloading = [Switch.heard(one) for one in heard["switches"]]

    def measure_router(self) -> None:
        """Measures one of its servers first, which determines the load."""
        with self._router(NUM_MODELS, _PLENTY) as side:
            alone_bytes = side.settled["held_bytes"]
            side.ask(warms=[0])
            per_second = self._rate_of(side)
            # Uses all slots, so that the server touches all memory that it ever will.
            full = questions([0.0] * 2 * SLOTS, 1, self._lengths, seed=0)
            side.ask(**Load(tuple(full), _LONG_S).told())
            self.server = Server(alone_bytes, side.ask()["held_bytes"] - alone_bytes, per_second)
        for seed in self.size.seeds:
            most = max(1, int(MODELS_THAT_FIT))
            with self._router(most, alone_bytes + self._room_of_pool) as side:
                side.ask(warms=list(range(NUM_MODELS)))
                heard = self._told(f"router, seed {seed}", side, **self._load(seed).told())
            self.router.append([Reply.heard(one) for one in heard["replies"]])
            self.refused += heard["refused"]

    def _rate_of(self, side: SideProcess) -> float:
        """Measures questions per second, answered one by one."""
        asked = questions([0.0] * self.size.calibrating, 1, self._lengths, seed=0)
        with told("one server of the router"):
            replies = [side.ask(**Load((one,), _LONG_S).told())["replies"][0] for one in asked]
        return len(replies) / sum(Reply.heard(reply).token_s[-1] for reply in replies)

    def measure_goodput(self) -> None:
        for seed in self.size.seeds:
            with self._ours(self.pooled, self._room_of_pool, self._slot_tokens, self.size.targets) as side:
                heard = self._told(f"ours, seed {seed}", side, **self._load(seed).told())
            self.ours.append([Reply.heard(one) for one in heard["replies"]])
            self.our_switches += [Switch.heard(one) for one in heard["switches"]]

    @cached_property
    def _lengths(self) -> list[Length]:
        return azure.sample(read_lengths(CONVERSATIONS), 1000, self.size.scale, SEED)

    @cached_property
    def _alone_bytes(self) -> int:
        """Measures what our engine holds without any model."""
        with told("the engine alone"), self._engine((), _PLENTY, self._pair_tokens, self.size.targets) as side:
            return int(side.settled["held_bytes"])

    @property
    def _room_of_pair(self) -> int:
        """Returns room for one model and the cells of both, so that the other model does not fit."""
        cells = 2 * self.size.running.tokens * self.size.pair.kv_bytes_per_token
        return int(MODEL_ROOM * self.pair[0].stat().st_size) + cells + BUFFER_BYTES

    @property
    def _room_of_pool(self) -> int:
        assert self.server is not None
        return int(MODELS_THAT_FIT * self.server.num_bytes)

    @property
    def _pair_tokens(self) -> int:
        return self.size.running.tokens // self.size.running.at_once

    @property
    def _slot_tokens(self) -> int:
        """Returns the tokens of a question, its answer and the template around them."""
        return -(-(self.size.scale.most + 256) // 256) * 256

    def _running(self) -> list[dict[str, Any]]:
        running, random_ = self.size.running, random.Random(0)
        texts = [words(running.prompt_tokens, random_) for _ in range(2 * running.at_once)]
        return [Asked(text, n % 2, 0.0, running.answer_tokens).told() for n, text in enumerate(texts)]

    def _load(self, seed: int) -> Load:
        assert self.server is not None
        moments = list(arrivals(self.size.load_share * self.server.per_second, self.size.seconds, seed))
        return Load.of(questions(moments, NUM_MODELS, self._lengths, seed), self.size.targets)

    def _told(self, what: str, side: SideProcess, **asked: Any) -> Mapping[str, Any]:
        with told(what):
            return side.ask(**asked)

    @contextmanager
    def _ours(self, models: Sequence[Path], room: int, tokens: int, targets: Targets) -> Iterator[SideProcess]:
        with self._engine(models, self._alone_bytes + room, tokens, targets) as side:
            yield side

    @contextmanager
    def _engine(self, models: Sequence[Path], limit_bytes: int, tokens: int, targets: Targets) -> Iterator[SideProcess]:
        settings = {
            "home": str(self.home),
            "models": [str(path) for path in models],
            "num_threads": num_threads(),
            "max_context": tokens,
            "at_once": SLOTS,
            **asdict(targets),
        }
        forget_all(models)
        started = SideProcess.started(
            "tests.bench.pool_our_side", settings, Limit(limit_bytes, self.parent), is_ours=True
        )
        with fresh(self.home, self.pair[0], self.profile), started as side:
            yield side

    @contextmanager
    def _router(self, most: int, limit_bytes: int) -> Iterator[SideProcess]:
        settings = {
            "binary": str(self.binary),
            "folder": str(self.pooled[0].parent),
            "names": [path.stem for path in self.pooled],
            "most": most,
            "num_threads": num_threads(),
            "num_slots": SLOTS,
            "slot_tokens": self._slot_tokens,
            "is_repacked": True,
        }
        forget_all(self.pooled)
        started = SideProcess.started("tests.bench.pool_router_side", settings, Limit(limit_bytes, self.parent))
        with started as side:
            yield side

    @contextmanager
    def _side(
        self, module: str, settings: Mapping[str, Any], models: Sequence[Path], room: int
    ) -> Iterator[SideProcess]:
        """Starts a side; its limit is what it reports to hold without a model, plus `room`."""
        with SideProcess.started(f"tests.bench.{module}", settings, Limit(_PLENTY, self.parent)) as alone:
            limit = Limit(alone.settled["held_bytes"] + room, self.parent)
        forget_all(models)
        with SideProcess.started(f"tests.bench.{module}", settings, limit) as side:
            yield side


def forget_all(models: Sequence[Path]) -> None:
    for path in models:
        forget_pages(path)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("pool", __doc__, quick="smaller models and one short load, within five minutes")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure only these parts")
    peers.add_options(parser, alone="measure only our own switches and chats, without reloading and router")
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    if not CONVERSATIONS.exists():
        print(f"The trace is missing: {CONVERSATIONS} does not exist.", file=sys.stderr)
        return 2
    return within_group(_beside_peers, options)


def _beside_peers(options: argparse.Namespace, parent: Group) -> int:
    return peers.run_beside(options, lambda options, binary: _measure(options, parent, binary))


def _measure(options: argparse.Namespace, parent: Group, binary: Path | None) -> bool:
    bench = prepared(SMALL if options.quick else FULL, options.peers, parent, binary, not options.no_peers)
    bounds = {} if options.quick else promised(options.only, not options.no_peers)
    try:
        bench.run(options.only)
    except PeerFailed:
        # Reports results that took minutes to measure.
        tell(bench, options.json, bounds)
        raise
    return tell(bench, options.json, bounds)


def prepared(size: Size, folder: Path, parent: Group, binary: Path | None, has_peers: bool) -> Bench:
    # Whole words, as in real models' vocabularies: otherwise the template would be as long as the question.
    known = words_of([resources.text(f"prompts/{name}.txt") for name in ("answer", "answer_short")] + [MARKUP])
    with told("writing the models, unless they exist"):
        pair = [bench_model(folder, size.pair, known, SEED + number) for number in range(2)]
        # A folder of its own, because the router serves all models of a folder.
        pooled_folder = folder / f"pool-{size.pooled.name}-with-words"
        pooled = [bench_model(pooled_folder, size.pooled, known, SEED + number) for number in range(NUM_MODELS)]
    with told("measuring the machine's speed"):
        profile = measured(Profile(), folder, pair[0])
    return Bench(size, folder / "pool-home", profile, pair, pooled, binary, has_peers, parent)


def tell(bench: Bench, file: Path | None, bounds: Mapping[str, float]) -> bool:
    """Prints and writes the results; returns whether the bounds hold and all of `bounds` were measured."""
    ours, others, named = found(bench)
    report.show("pool", ours, others)
    if file is not None:
        report.write(file, ours, others, named)
    missing = report.unmeasured(bounds, named)
    for line in missing:
        print(line)
    return report.show_ratios(named, BOUNDS) and not missing


def found(bench: Bench) -> tuple[dict[str, float], dict[str, dict[str, float]], dict[str, float]]:
    """Returns our figures, the peers', and the ratios under their documented names."""
    ours, others, named = switch_figures(bench.switches), dict[str, dict[str, float]](), dict[str, float]()
    if bench.reloading:
        others["reloading"] = switch_figures(bench.reloading)
        if bench.switches:
            named["unload_load"] = others["reloading"]["switch_mean_s"] / ours["switch_mean_s"]
    if bench.chats:
        named["tpot_met_two_chats"] = tpot_met(bench.chats, bench.size.chat_targets.tpot_s)
        ours["tpot_met_two_chats"] = named["tpot_met_two_chats"]
        ours["two_chats_ttft_max_s"] = max((one.ttft_s for one in bench.chats if one.ttft_s is not None), default=0.0)
    if bench.ours:
        ours |= _of_load(bench.ours, bench.size.targets)
        ours |= {f"load_{name}": value for name, value in switch_figures(bench.our_switches).items()}
    if bench.router:
        others["router"] = {**_of_load(bench.router, bench.size.targets), "refused": float(len(bench.refused))}
    if bench.router and bench.server is not None:
        others["router"] |= {"server_bytes": bench.server.num_bytes, "server_per_s": bench.server.per_second}
    if bench.ours and bench.router:
        pairs = zip(bench.ours, bench.router, strict=True)
        named["router_goodput"] = statistics.median(over_peer(*pair, bench.size.targets) for pair in pairs)
    return ours, others, named


def _of_load(loads: Sequence[Sequence[Reply]], targets: Targets) -> dict[str, float]:
    """Returns one side's figures, each the median over the seeds."""
    every = [{**load_figures(load, targets), "models_at_once": models_at_once(load)} for load in loads]
    return {name: statistics.median(one[name] for one in every if name in one) for name in every[0]}


if __name__ == "__main__":
    sys.exit(ending.run(main))
