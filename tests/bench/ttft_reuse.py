"""Time to first token when documents recur: our KV reuse beside llama-server's prompt cache and llama-cpp-python's.

    python -m tests.bench.ttft_reuse [--quick] [--json FILE] [--peers FOLDER] [--no-peers]

A model of 1B shape with random weights reads 4 of 200 documents (256 tokens each) per question. Popularity follows
Zipf's law such that 3 % of the documents take 60 % of the places, and retrieval returns them in a different order each
time. All sides get the same questions, cells and threads and decode greedily. Peers read passages in the order found;
ours may order them along cached KV, within the loss of relevance that the application's settings allow. llama-server
and llama-cpp-python have 8 GiB of RAM for their caches (the server's default); ours has 2 GiB, and 16 GiB on the disk.

Ratios are mean times to first token, theirs ÷ ours, unless stated otherwise:

- `llama_server`: over all questions, from empty caches, with arrivals of a Poisson process as in RAGCache (§7), at the
  same times for both sides. The rate is what llama-server manages, one by one or with all slots in use, whichever is
  higher; time in the queue counts. `llama_server_at_0.8` and `_at_1.2`: at .8 and 1.2 of that rate.
- `llama_server_alone`, `llama_cpp_python`: each question comes after the previous answer. Half of all tokens have not
  been read by anybody before, so reuse cannot gain more than a factor of two.
- `llama_server_varying`: like `llama_server_alone`, for other questions with 2 to 6 documents each (no bound).
- `throughput_llama_server`: questions per second with four always open, ours ÷ theirs.
- `second_question_cold`: our first question over documents ÷ our second one, in another order.
- `second_question_permuted`, `second_question_same_order`: that second question, with the same documents in another
  order or in the same one.
- `turn_10`: in a chat with new evidence in each turn, the new tokens of turn 10 ÷ the tokens computed for it.
- `after_restart`: our first question ÷ one over known documents after everything was closed and opened again.
- `no_reorder`: ours with passages in the order found ÷ ours with ordering.
- `no_speculation`: ours with reading that starts when the search has ended ÷ during it. The search is simulated, with
  four stages, each of which may change the passages.

Decisions (ordering passages, and finding and moving cached KV for a prompt) have an upper bound of 1 ms processor time
at the 99th percentile; their wall time, in which other threads run too, is shown beside it. Lower bounds of the ratios
are in `BOUNDS`. Exit code 1 if a bound does not hold or was not measured, with `--no-peers` too; 2 if a peer failed,
after printing the results so far. `--quick` (a small model, fewer questions, within five minutes) checks no bounds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import GIB
from engine.generation.segment import Segment, tokens_of
from engine.yielding import switch_often
from tests.bench import ending, peers, report
from tests.bench.bench_model import ONE_BILLION, QUICK, Shape, bench_model
from tests.bench.command_line import parser_of
from tests.bench.llama_peer import LlamaProcess
from tests.bench.llama_server import DEFAULT_SLOTS, LlamaServer, ServerOptions
from tests.bench.our_generation import Kept, OurGeneration, num_threads, told
from tests.bench.peers import PeerFailed
from tests.bench.recurring import Recurring
from tests.bench.reuse_sides import CrowdSide, DecisionTimes, Ours, Python, Server, Side

NUM_CELLS = 8192
RAM_BYTES, DISK_BYTES = 2 * GIB, 16 * GIB
TURNS = 10
# Shares of the rate that llama-server manages; the main ratio is taken at the first one.
LOADS = (1.0, 0.8, 1.2)
# Lower bounds.
BOUNDS = {
    "llama_server": 4.0,
    "llama_server_at_0.8": 1.0,
    "llama_server_at_1.2": 1.0,
    "llama_server_alone": 1.0,
    "throughput_llama_server": 2.0,
    "llama_cpp_python": 1.0,
    "second_question_cold": 25.0,
    "second_question_permuted": 10.0,
    "second_question_same_order": 1.0,
    "turn_10": 0.95,
    "after_restart": 10.0,
    "no_reorder": 1.0,
    "no_speculation": 1.0,
}
MAX_DECISION_MS = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    shape: Shape
    questions: int
    varying: int
    sets: int
    searches: int
    loads: tuple[float, ...]


FULL = Size(ONE_BILLION, questions=60, varying=20, sets=3, searches=12, loads=LOADS)
SMALL = Size(QUICK, questions=16, varying=8, sets=1, searches=5, loads=LOADS[:1])


@dataclass
class Bench:
    """What is measured, and the results so far; each side starts with empty caches."""

    size: Size
    model: Path
    work: Path
    recurring: Recurring
    server: Path | None
    has_python: bool
    found: dict[str, dict[str, float]] = field(default_factory=dict)
    # Of all our sides: ordering passages, and finding cached KV for a prompt.
    decisions: DecisionTimes = field(default_factory=DecisionTimes)

    def run(self) -> None:
        sides: dict[str, Callable[[], AbstractContextManager[Side]]] = {"ours": lambda: self._ours("kept")}
        if self.server is not None:
            sides["llama_server"] = self._server
        if self.has_python:
            sides["llama_cpp_python"] = self._python
        for name, opened in sides.items():
            figures = self.found[name] = {}
            with opened() as side:
                figures |= self._stream(name, side)
                figures |= self._second_questions(name, side)
                if name != "llama_cpp_python":
                    figures |= self._chat(name, side)
                if isinstance(side, Ours):
                    figures |= _hits(side)
            if name != "llama_cpp_python":
                with opened() as side, told(f"{name}: a known question after a restart"):
                    figures["after_restart_s"] = self._after_restart(side)
        self._varying()
        self._throughput()
        if self.server is not None:
            theirs = self.found["llama_server"]
            for load in self.size.loads:
                self._under_load(load, max(theirs["alone_per_s"], theirs["questions_per_s"]))
        self._without()

    @property
    def decision_times(self) -> dict[str, float]:
        """Returns the times of all decisions so far."""
        if not self.decisions.cpu_seconds:
            return {}
        return {
            "decision_p99_ms": 1e3 * _p99(self.decisions.cpu_seconds),
            "decision_wall_p99_ms": 1e3 * _p99(self.decisions.wall_seconds),
        }

    def _stream(self, name: str, side: Side) -> dict[str, float]:
        """Asks all questions in turn; `computed_share` is the share of prompt tokens that had to be computed."""
        asks = list(self.recurring.stream(self.size.questions))
        with told(f"{name}: {len(asks)} questions, one after the other"):
            begun = time.perf_counter()
            outcomes = [side.ask(ask) for ask in asks]
            seconds = time.perf_counter() - begun
        ttft = statistics.fmean(outcome.seconds for outcome in outcomes)
        figures = {"ttft_s": ttft, "alone_per_s": len(asks) / seconds}
        computed = [outcome.computed_tokens for outcome in outcomes if outcome.computed_tokens is not None]
        if computed:
            figures["computed_share"] = sum(computed) / sum(len(tokens_of(ask.segments)) for ask in asks)
        return figures

    def _second_questions(self, name: str, side: Side) -> dict[str, float]:
        """Asks over unseen documents: a first question, a second, and one with another order."""
        seconds: dict[str, list[float]] = {"cold_s": [], "same_order_s": [], "permuted_s": []}
        with told(f"{name}: second questions over the same documents"):
            for number in range(self.size.sets):
                for figure, ask in zip(seconds, self.recurring.second_questions(number), strict=True):
                    seconds[figure].append(side.ask(ask).seconds)
        return {figure: statistics.fmean(values) for figure, values in seconds.items()}

    def _chat(self, name: str, side: Side) -> dict[str, float]:
        """Runs turns that each add a passage and a question to an unchanged history."""
        with told(f"{name}: a chat of {TURNS} turns"):
            ask = self.recurring.turn(0, ())
            outcome = side.ask(ask)
            for number in range(1, TURNS):
                ask = self.recurring.turn(number, (*ask.segments, Segment(outcome.tokens)))
                outcome = side.ask(ask)
        # Adds the last token of the previous answer, which was sampled but not computed.
        new_tokens = len(tokens_of((*ask.passages, ask.question))) + 1
        assert outcome.computed_tokens is not None
        return {"turn_10_s": outcome.seconds, "turn_10_new_share": new_tokens / outcome.computed_tokens}

    def _after_restart(self, side: Side) -> float:
        sets = range(self.size.sets)
        return statistics.fmean(side.ask(self.recurring.second_questions(number, 3)[-1]).seconds for number in sets)

    def _varying(self) -> None:
        for name, opened in self._crowds("varying numbers"):
            asks = list(self.recurring.varying(self.size.varying))
            with opened() as side, told(f"{name}: {len(asks)} questions of 2 to 6 documents"):
                self.found[name]["varying_ttft_s"] = statistics.fmean(side.ask(ask).seconds for ask in asks)

    def _throughput(self) -> None:
        for name, opened in self._crowds("throughput"):
            with opened() as side, told(f"{name}: {DEFAULT_SLOTS} questions at a time"):
                asks = list(self.recurring.stream(self.size.questions))
                self.found[name]["questions_per_s"] = side.questions_per_second(asks)

    def _under_load(self, load: float, capacity_per_s: float) -> None:
        asks = list(self.recurring.stream(self.size.questions))
        arrivals = self.recurring.arrivals(len(asks), load * capacity_per_s)
        for name, opened in self._crowds(f"load {load}"):
            with opened() as side, told(f"{name}: {60 * load * capacity_per_s:.1f} questions a minute"):
                self.found[name][_loaded(load)] = statistics.fmean(side.as_they_come(asks, arrivals))

    def _crowds(self, purpose: str) -> Iterator[tuple[str, Callable[[], AbstractContextManager[CrowdSide]]]]:
        """Yields the sides that accept questions while others are answered, with empty caches."""
        yield "ours", lambda: self._ours(f"kept for {purpose}")
        if self.server is not None:
            yield "llama_server", self._server

    def _without(self) -> None:
        """Measures ours without ordering and without speculation."""
        ours = self.found["ours"]
        with self._ours("kept as it comes") as side:
            side.reorder_loss = 0.0
            ours["no_reorder_ttft_s"] = self._stream("ours, passages as they come", side)["ttft_s"]
            ours |= {f"no_reorder_{name}": ratio for name, ratio in _hits(side).items()}
        for figure, is_speculative in (("searched_ttft_s", True), ("no_speculation_ttft_s", False)):
            with self._ours(figure) as side, told(f"ours: questions with their search ({figure})"):
                ours[figure] = statistics.fmean(
                    side.first_token_after_search(ask, search, is_speculative)
                    for ask, search in self.recurring.searches(self.size.searches)
                )
                ours |= {figure.replace("ttft_s", name): ratio for name, ratio in _hits(side).items()}

    @contextmanager
    def _ours(self, folder: str) -> Iterator[Ours]:
        kept = Kept(self.work / folder, RAM_BYTES, DISK_BYTES)
        with OurGeneration(self.model, NUM_CELLS, kept=kept) as generation:
            yield Ours(generation, decisions=self.decisions)

    @contextmanager
    def _server(self) -> Iterator[Server]:
        assert self.server is not None
        with LlamaServer.started(self.server, self.model, ServerOptions(NUM_CELLS, num_threads())) as server:
            yield Server(server)

    @contextmanager
    def _python(self) -> Iterator[Python]:
        with LlamaProcess.started(self.model, NUM_CELLS, num_threads()) as llama:
            yield Python(llama)


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(0.99 * len(seconds)))]


def _loaded(load: float) -> str:
    """Returns the name of the mean time to first token under a load."""
    return f"ttft_s_at_{load}"


def _hits(side: Ours) -> dict[str, float]:
    assert side.generation.keeper is not None
    figures = side.generation.keeper.figures()
    return {
        "hit_ratio_cells": figures.cells.hit_ratio,
        "hit_ratio_ram": figures.ram.hit_ratio,
        "hit_ratio_disk": figures.disk.hit_ratio,
    }


def named_ratios(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns the measured ratios under their documented names."""
    ours, server = found.get("ours", {}), found.get("llama_server", {})
    named = {
        "second_question_cold": _over(ours, "cold_s", ours, "permuted_s"),
        "turn_10": ours.get("turn_10_new_share"),
        "after_restart": _over(ours, "cold_s", ours, "after_restart_s"),
        "no_reorder": _over(ours, "no_reorder_ttft_s", ours, "ttft_s"),
        "no_speculation": _over(ours, "no_speculation_ttft_s", ours, "searched_ttft_s"),
        "llama_server": _over(server, _loaded(LOADS[0]), ours),
        "llama_server_alone": _over(server, "ttft_s", ours),
        "llama_server_varying": _over(server, "varying_ttft_s", ours),
        "throughput_llama_server": _over(ours, "questions_per_s", server),
        "second_question_permuted": _over(server, "permuted_s", ours),
        "second_question_same_order": _over(server, "same_order_s", ours),
        **{f"llama_server_at_{load}": _over(server, _loaded(load), ours) for load in LOADS[1:]},
        "llama_cpp_python": _over(found.get("llama_cpp_python", {}), "ttft_s", ours),
    }
    return {name: value for name, value in named.items() if value is not None}


def _over(those: Mapping[str, float], name: str, others: Mapping[str, float], other_name: str = "") -> float | None:
    """Returns one figure ÷ another, by default of the same name; None unless both are known."""
    above, below = those.get(name), others.get(other_name or name)
    return above / below if above is not None and below else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("ttft_reuse", __doc__, quick="a small model and fewer questions, within five minutes")
    peers.add_options(parser, alone="measure only our side")
    return peers.run_beside(parser.parse_args(arguments), _measure)


def _measure(options: argparse.Namespace, server: Path | None) -> bool:
    switch_often()  # as the application does
    size = SMALL if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="ttft-reuse-") as work:
        model, recurring = bench_model(options.peers, size.shape), Recurring(size.shape.vocabulary)
        bench = Bench(size, model, Path(work), recurring, server, has_python=not options.no_peers)
        try:
            bench.run()
        except PeerFailed:
            # Reports results that took minutes to measure.
            _tell(bench, options)
            raise
    return _tell(bench, options)


def _tell(bench: Bench, options: argparse.Namespace) -> bool:
    """Prints and writes the results; returns whether all bounds were measured and hold."""
    ours = {**bench.found.get("ours", {}), **bench.decision_times}
    others = {name: figures for name, figures in bench.found.items() if name != "ours"}
    print(f"3 % of the documents take {bench.recurring.top_share(bench.size.questions):.0%} of the places")
    report.show("first tokens", ours, others, {"decision_p99_ms": MAX_DECISION_MS})
    named = named_ratios(bench.found)
    if options.json is not None:
        report.write(options.json, ours, others, named)
    # A quick run measures only some of them.
    promised = {name: BOUNDS[name] for name in named if name in BOUNDS} if options.quick else BOUNDS
    is_soon_decided = ours.get("decision_p99_ms", math.inf) <= MAX_DECISION_MS
    return report.show_promised(named, promised) and is_soon_decided


if __name__ == "__main__":
    sys.exit(ending.run(main))
