"""Drafting: tokens in a second with prompt lookup and without it, on answers that quote their passages and on others.

`python -m tests.bench.drafting [--quick] [--json FILE]`. Both sides write the same answer on the same model, each in a
context of its own, and take turns: whichever has written less computes next, so that what else the machine does meets
both alike. The computing is real; of answers that quote, the tokens are given (see quoting.py). Where memory can be
confined (a cgroup), a model that does not fit into it is measured too: each pass then reads its layers from disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import llama_cpp.llama_cpp as llama
import psutil

from engine.core import SamplingParams
from engine.generation.cells import Cells
from engine.generation.context import Context, ContextSpec
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.model import Model
from engine.generation.request import PromptRead, Request, RequestFinished
from engine.generation.sampler import ChainSampler, Decoded
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop, Timing
from tests.bench import peers, report
from tests.bench.bench_model import ONE_BILLION, QUICK, Shape, bench_model, plain_tokens
from tests.bench.quoting import Library, Recorded

SEED = 11
MIN_QUOTING, MIN_OTHER = 1.5, 0.97
CGROUPS = Path("/sys/fs/cgroup/memory")
FREE = SamplingParams(temperature=0.8, seed=SEED)
GREEDY = SamplingParams(temperature=0.0, repeat_penalty=1.0, seed=SEED)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is written: answers of each kind, tokens of each answer, and of the one whose model is streamed."""

    shape: Shape
    answers: int
    tokens: int
    streamed_tokens: int


FULL = Size(ONE_BILLION, answers=3, tokens=300, streamed_tokens=60)
BRIEF = Size(QUICK, answers=1, tokens=150, streamed_tokens=40)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it may go, and what counts as time."""

    num_threads: int
    clock: Callable[[], float] = time.perf_counter


class GivenTokens:
    """Samples like any answer does, and then says what was recorded."""

    def __init__(self, model: Model, params: SamplingParams, answer: Sequence[int]) -> None:
        self._chain, self._rest = ChainSampler(model, params), iter(answer)

    def sample(self, context: Decoded, row: int) -> int:
        freely = self._chain.sample(context, row)
        return next(self._rest, freely)

    def close(self) -> None:
        self._chain.close()


class Side:
    """One of the two that write: with drafts or without."""

    def __init__(self, model: Model, has_drafts: bool, pace: Pace) -> None:
        self.context = Context(model, ContextSpec(4096, 128, 128, pace.num_threads, num_sequences=8))
        self._clock = pace.clock
        self._model, self._answer = model, ()
        costs = PassCosts()
        self._loop = StepLoop(
            model,
            self.context,
            Cells(self.context.num_cells, self.context.num_sequences),
            make_sampler=lambda model, params: GivenTokens(model, params, self._answer),
            make_drafter=partial(PromptLookup, costs=costs) if has_drafts else None,
            note_pass=costs.note if has_drafts else None,
            timing=Timing(pace.clock),
        )
        self.seconds, self.num_timed = 0.0, 0

    def begin(self, recorded: Recorded, params: SamplingParams) -> None:
        """Reads the prompt, and writes the first token."""
        self._answer = recorded.answer
        segments = (Segment((self._model.bos, *recorded.prompt)),)
        self._loop.submit(Request("answer", segments, params, quotable=recorded.quotable))
        self._before = self._loop.counters().generated_tokens
        self.written: RequestFinished | None = None
        while not any(isinstance(event, PromptRead) for event in self._step()):
            pass
        self._first = self.num_written

    def go_on(self) -> None:
        since = self._clock()
        self._step()
        self.seconds += self._clock() - since
        if self.written is not None:
            self.num_timed += self.num_written - self._first

    @property
    def num_written(self) -> int:
        return self._loop.counters().generated_tokens - self._before

    @property
    def tokens_per_second(self) -> float:
        return self.num_timed / self.seconds

    @property
    def drafts(self) -> tuple[int, int]:
        """Drafted tokens, and those of them that came true."""
        counters = self._loop.counters()
        return counters.drafted_tokens, counters.accepted_tokens

    def close(self) -> None:
        self._loop.close()
        self.context.close()

    def _step(self) -> list[object]:
        events = self._loop.step()
        self.written = next((event for event in events if isinstance(event, RequestFinished)), None)
        return list(events)


@dataclass(frozen=True, slots=True)
class Duel:
    """What both sides made of the same answers."""

    with_drafts: float
    without: float
    num_passes_saved_share: float
    accepted_share: float
    are_same: bool

    @property
    def ratio(self) -> float:
        return self.with_drafts / self.without


def duel(model: Model, answers: Sequence[Recorded], params: SamplingParams, pace: Pace) -> Duel:
    """Has both sides write all answers, one after the other."""
    drafting, plain = (Side(model, has_drafts, pace) for has_drafts in (True, False))
    are_same = True
    for recorded in answers:
        for side in (drafting, plain):
            side.begin(recorded, params)
        while open_sides := [side for side in (drafting, plain) if side.written is None]:
            min(open_sides, key=lambda side: side.num_written).go_on()
        are_same &= drafting.written == plain.written
    drafted, accepted = drafting.drafts
    for side in (drafting, plain):
        side.close()
    return Duel(
        drafting.tokens_per_second,
        plain.tokens_per_second,
        accepted / plain.num_timed,
        accepted / drafted if drafted else 0.0,
        are_same,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.drafting", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small model and short answers, in about two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1, metavar="N")
    parser.add_argument(
        "--busy", action="store_true", help="count the processor's time, on one thread: for a machine that does more"
    )
    parser.add_argument("--confined", type=int, metavar="BYTES", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    size = BRIEF if options.quick else FULL
    pace = Pace(1, time.process_time) if options.busy else Pace(options.threads)
    if options.confined:
        return _run_confined(options.model, options.confined, size, options.threads)
    file = bench_model(options.peers, size.shape)
    ours, ratios = _measure(file, size, pace)
    streamed = _streamed(file, size, options)
    if streamed:
        ours |= {f"quoting_streamed {name}": value for name, value in streamed.items()}
        ratios["quoting_streamed"] = streamed["with drafts"] / streamed["without"]
    report.show("Drafting", {**ours, **{f"ratio {name}": value for name, value in ratios.items()}}, {})
    if options.json:
        report.write(options.json, ours, {}, ratios)
    is_good = ratios["quoting"] >= MIN_QUOTING and ratios["other"] >= MIN_OTHER
    return 0 if is_good and ours["same greedy text"] == 1.0 else 1


def _measure(file: Path, size: Size, pace: Pace) -> tuple[dict[str, float], dict[str, float]]:
    model = Model(file, 0, lambda _: True)
    library = Library(plain_tokens(size.shape.vocabulary), SEED)
    given = SamplingParams(max_tokens=size.tokens, seed=SEED)
    cases = {
        "quoting": ([library.quoting(size.tokens) for _ in range(size.answers)], given),
        "prose": ([library.prose(size.tokens) for _ in range(size.answers)], given),
        "free": ([library.free()], _of_length(FREE, size.tokens)),
        "greedy": ([library.free()], _of_length(GREEDY, size.tokens)),
    }
    ours: dict[str, float] = {}
    found: dict[str, Duel] = {}
    for name, (answers, params) in cases.items():
        found[name] = duel(model, answers, params, pace)
        ours |= {f"{name} {figure}": value for figure, value in _figures(found[name]).items()}
        report.show(name, _figures(found[name]), {})
        sys.stdout.flush()
    model.close()
    ours["same greedy text"] = float(found["greedy"].are_same)
    return ours, {"quoting": found["quoting"].ratio, "other": min(found["prose"].ratio, found["free"].ratio)}


def _of_length(params: SamplingParams, num_tokens: int) -> SamplingParams:
    return SamplingParams(
        max_tokens=num_tokens,
        temperature=params.temperature,
        repeat_penalty=params.repeat_penalty,
        seed=params.seed,
    )


def _figures(found: Duel) -> dict[str, float]:
    return {
        "with drafts": found.with_drafts,
        "without": found.without,
        "ratio": found.ratio,
        "passes saved": found.num_passes_saved_share,
        "accepted": found.accepted_share,
    }


# --- a model that does not fit ---


def _streamed(file: Path, size: Size, options: argparse.Namespace) -> dict[str, float]:
    """Figures of a process whose memory holds half of the model; {} where that cannot be set up."""
    with tempfile.TemporaryDirectory(dir=options.peers) as folder:
        # A copy of its own, so that no page of it is counted as somebody else's.
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        _forget_pages(copy)
        limit = file.stat().st_size // 2 + 400 * 2**20
        command = [sys.executable, "-m", "tests.bench.drafting", "--confined", str(limit), "--model", str(copy)]
        command += ["--threads", str(options.threads)] + (["--quick"] if options.quick else [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"quoting_streamed is left out: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
        return {}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _run_confined(file: Path, limit: int, size: Size, num_threads: int) -> int:
    with _confined(limit):
        original = llama.llama_model_default_params

        def without_repacking() -> object:
            # Repacked weights would be memory of the process, which cannot be read again from the file.
            params = original()
            params.use_extra_bufts = False
            return params

        llama.llama_model_default_params = without_repacking
        model = Model(file, 0, lambda _: True)
        library = Library(plain_tokens(size.shape.vocabulary), SEED)
        given = SamplingParams(max_tokens=size.streamed_tokens, seed=SEED)
        found = duel(model, [library.quoting(size.streamed_tokens, num_passages=2)], given, Pace(num_threads))
        model.close()
    print(json.dumps(_figures(found)))
    return 0


@contextmanager
def _confined(limit: int) -> Iterator[None]:
    """Bounds this process's memory, its share of the page cache with it (cgroup v1); needs root."""
    group = CGROUPS / f"ragdoll-drafting-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "tasks").write_text(str(os.getpid()))
        yield
    finally:
        (CGROUPS / "tasks").write_text(str(os.getpid()))
        group.rmdir()


def _forget_pages(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
