"""Decoding throughput with many answers at once, compared with llama-server and with KV cells reserved in advance.

    python -m tests.bench.batching [--quick] [--json FILE] [--peers FOLDER] [--no-peers]

Measures three things, on a model of 1B shape with random weights:

- Tokens per second with 1 to 16 answers at once, ours and llama-server's with as many slots. Both sides have the same
  model, threads and lengths and decode greedily without drafts; only the time in which all answers are being written
  counts.
- A backlog of requests with lengths of the Azure conversation trace, on a context that cannot hold them all: our step
  loop, which allocates a KV cell per token, and contiguous reservation with the same kernels (reserving.py). Prompts
  are scaled to a sixteenth, because most of a prompt is usually found in the cache, and answers to a half.
- How many cells n = 4 answers and a beam of 6 save by sharing those of their prompt.

Ratios:

- `llama_server`: our tokens per second ÷ theirs, the worst over all numbers of answers.
- `llama_server_sharing`: the same at the largest number, where their slots share one KV cache as ours do
  (`--kv-unified`), so that a slot can continue from what another has read. Attention then scans all cells: that is
  llama.cpp's own cost of sharing, so this ratio has no bound.
- `cell_utilisation`: the mean share of our cells that hold a token while a request waits for cells.
- `reservation_max`, `reservation_pow2`, `reservation_oracle`: our tokens per second ÷ those with that reservation
  policy.

Lower bounds are in `BOUNDS`. Exit code 1 if one does not hold, 2 if a peer fails; `--quick` (a small model, fewer
requests, within five minutes) checks none.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from engine.generation.load_plan import UBATCH_OF_PROCESSOR
from engine.generation.segment import Segment
from tests.bench import azure, ending, peers, report
from tests.bench.azure import Length
from tests.bench.bench_model import BOS, ONE_BILLION, QUICK, Shape, bench_model, plain_tokens
from tests.bench.command_line import parser_of
from tests.bench.llama_server import LlamaServer, ServerOptions
from tests.bench.our_generation import OurGeneration, greedy, num_threads, told
from tests.bench.reserving import Batched, Reserving, policies

SEED = 20_230_617
TOGETHER = (1, 2, 4, 8, 16)
PROMPT_TOKENS, ANSWER_TOKENS = 64, 64
CELLS_PER_ANSWER = 256
LONGEST = 2048
SCALE = azure.Scale(prompt_divisor=16, answer_divisor=2, most=LONGEST)
SHARING_PROMPT_TOKENS, SHARING_ANSWER_TOKENS, SHARING_CELLS = 256, 64, 16_384
# Lower bounds.
BOUNDS = {
    "llama_server": 0.95,
    "cell_utilisation": 0.96,
    "reservation_max": 2.0,
    "reservation_pow2": 1.0,
    "reservation_oracle": 1.0,
}


@dataclass(frozen=True, slots=True)
class Size:
    """`rounds` per number of answers, more where they are few; the backlog of `requests` does not fit into `cells`."""

    shape: Shape
    rounds: int
    requests: int
    cells: int


# A round with one answer takes a second and a half, in which the machine's own speed varies by a tenth. This many
# rounds last as long as one with many answers.
_SHORT = 4
FULL = Size(ONE_BILLION, rounds=4, requests=80, cells=2 * LONGEST)
SMALL = Size(QUICK, rounds=1, requests=40, cells=LONGEST)


@dataclass
class Bench:
    size: Size
    model: Path
    server: Path | None
    ours: dict[str, float] = field(default_factory=dict)
    theirs: dict[str, float] = field(default_factory=dict)
    sharing: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        self._together()
        if azure.CONVERSATIONS.is_file():
            self._backlog()
        else:
            print(f"The backlog is left out: {azure.CONVERSATIONS} does not exist.", file=sys.stderr)
        self._sharing()

    def _together(self) -> None:
        """Measures both sides in turn; the best round of each counts."""
        for count in TOGETHER:
            cells = CELLS_PER_ANSWER * count
            with OurGeneration(self.model, cells, num_sequences=64) as ours, self._server(cells, count) as server:
                self._rounds(count, ours, server)
        with self._server(cells, count, shares_cells=True) as server:
            for number in range(self.size.rounds):
                self._ask_server("llama_server_sharing", self.sharing, self._texts(count, number), server)

    def _server(
        self, num_cells: int, num_slots: int, *, shares_cells: bool = False
    ) -> AbstractContextManager[LlamaServer | None]:
        if self.server is None:
            return nullcontext()
        options = ServerOptions(num_cells, num_threads(), num_slots, shares_cells=shares_cells)
        return LlamaServer.started(self.server, self.model, options)

    def _rounds(self, count: int, ours: OurGeneration, server: LlamaServer | None) -> None:
        name = f"tokens_per_s_{count}"
        for number in range(self.size.rounds * max(1, _SHORT // count)):
            texts = self._texts(count, number)
            with told(f"ours: {count} at a time"):
                asked = ((f"{number}/{place}", (Segment(text),)) for place, text in enumerate(texts))
                answered = ours.answer_all(asked, greedy(ANSWER_TOKENS), count)
            speed = steady_rate([one.token_times for one in answered])
            self.ours[name] = max(speed, self.ours.get(name, 0.0))
            self._ask_server("llama_server", self.theirs, texts, server)

    def _texts(self, count: int, number: int) -> list[tuple[int, ...]]:
        return prompts(self.size.shape, [PROMPT_TOKENS] * count, (count, number))

    def _ask_server(
        self, side: str, speeds: dict[str, float], texts: Sequence[tuple[int, ...]], server: LlamaServer | None
    ) -> None:
        if server is None:
            return
        with told(f"{side}: {len(texts)} at a time"):
            streamed = server.complete_all(texts, [ANSWER_TOKENS] * len(texts))
        name = f"tokens_per_s_{len(texts)}"
        speeds[name] = max(steady_rate([one.token_times for one in streamed]), speeds.get(name, 0.0))

    def _backlog(self) -> None:
        lengths = azure.sample(azure.read_lengths(azure.CONVERSATIONS), self.size.requests, SCALE, SEED)
        texts = prompts(self.size.shape, [length.prompt for length in lengths], (0,))
        with OurGeneration(self.model, self.size.cells) as ours:
            with told(f"ours: a backlog of {len(lengths)} requests"):
                found = {"": self._paged(ours, texts, lengths)}
            for name, reserve in policies(LONGEST).items():
                with told(f"the same, with cells reserved: {name}"):
                    reserving = Reserving(ours.context, reserve, UBATCH_OF_PROCESSOR)
                    found[f"_{name}"] = reserving.answer_all(texts, lengths)
            ours.context.clear()
        for name, batched in found.items():
            self.ours[f"backlog{name}_tokens_per_s"] = batched.tokens_per_second
            self.ours[f"backlog{name}_utilisation"] = batched.utilisation

    def _paged(self, ours: OurGeneration, texts: Sequence[Sequence[int]], lengths: Sequence[Length]) -> Batched:
        begun = time.perf_counter()
        for number, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            ours.submit(f"backlog {number}", (Segment(tuple(text)),), greedy(length.answer))
        while ours.loop.has_work:
            ours.step()
        seconds = time.perf_counter() - begun
        tokens = sum(len(one.token_times) for one in ours.answered.values())
        return Batched(tokens / seconds, ours.loop.counters().busy_utilisation)

    def _sharing(self) -> None:
        """Measures the share of cells saved by sharing, averaged over the steps of an answer."""
        text = prompts(self.size.shape, [SHARING_PROMPT_TOKENS], (1,))[0]
        with OurGeneration(self.model, SHARING_CELLS, num_sequences=64) as ours:
            for name, sampling in (
                ("cells_saved_by_4_answers", greedy(SHARING_ANSWER_TOKENS, num_answers=4)),
                ("cells_saved_by_beam_6", greedy(SHARING_ANSWER_TOKENS, beam_width=6)),
            ):
                with told(f"ours: {name.replace('_', ' ')}"):
                    ours.submit(name, (Segment(text),), sampling)
                    shares = []
                    while ours.loop.has_work:
                        ours.step()
                        counters = ours.loop.counters()
                        if counters.cells_saved:
                            shares.append(counters.cells_saved / (counters.cells_saved + counters.cells_used))
                self.ours[name] = statistics.fmean(shares) if shares else 0.0


def prompts(shape: Shape, lengths: Iterable[int], seed: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns prompts of the given lengths: BOS and random word tokens of the bench models."""
    random = np.random.default_rng((SEED, *seed))
    words = plain_tokens(shape.vocabulary)
    return [(BOS, *random.choice(words, length - 1).tolist()) for length in lengths]


def steady_rate(token_times: Sequence[Sequence[float]]) -> float:
    """Returns tokens per second while all answers are written: from the last first token to the first last one."""
    begun, ended = max(times[0] for times in token_times), min(times[-1] for times in token_times)
    tokens = sum(begun < time <= ended for times in token_times for time in times)
    return tokens / (ended - begun) if ended > begun else 0.0


def named_ratios(
    ours: dict[str, float], theirs: dict[str, float], sharing: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Returns the ratios under their documented names, as far as they were measured."""
    named = {}
    for side, speeds in (("llama_server", theirs), ("llama_server_sharing", sharing)):
        if speeds:
            named[side] = min(ours[name] / speed for name, speed in speeds.items())
    if "backlog_utilisation" in ours:
        named["cell_utilisation"] = ours["backlog_utilisation"]
        for name in policies(LONGEST):
            named[f"reservation_{name}"] = ours["backlog_tokens_per_s"] / ours[f"backlog_{name}_tokens_per_s"]
    return named


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("batching", __doc__, quick="a small model and fewer requests, within five minutes")
    peers.add_options(parser, alone="measure only our side and the reservation policies")
    return peers.run_beside(parser.parse_args(arguments), _measure)


def _measure(options: argparse.Namespace, server: Path | None) -> bool:
    size = SMALL if options.quick else FULL
    bench = Bench(size, bench_model(options.peers, size.shape), server)
    bench.run()
    measured = {"llama_server": bench.theirs, "llama_server_sharing": bench.sharing}
    others = {side: speeds for side, speeds in measured.items() if speeds}
    report.show("batching", bench.ours, others)
    named = named_ratios(bench.ours, bench.theirs, bench.sharing)
    if options.json is not None:
        report.write(options.json, bench.ours, others, named)
    promised = {name: least for name, least in BOUNDS.items() if server is not None or name != "llama_server"}
    return report.show_promised(named, promised)


if __name__ == "__main__":
    sys.exit(ending.run(main))
