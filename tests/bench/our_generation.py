"""Our side of the generation benches: the engine's step loop, KV cells and cache, assembled as in the application.

Without drafts: a random model repeats itself, so prompt lookup would gain what it does not gain on real answers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.core import SamplingParams
from engine.errors import RagdollError
from engine.generation.beam import Beams
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells
from engine.generation.context import Context, ContextSpec
from engine.generation.fingerprint import root_key
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.load_plan import UBATCH_OF_PROCESSOR
from engine.generation.loaded import cells_to_keep_in
from engine.generation.model import Model
from engine.generation.request import (
    PromptRead,
    Request,
    RequestCancelled,
    RequestFailed,
    RequestFinished,
    StepEvent,
    TextWritten,
    Written,
)
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop
from engine.memory.ledger import Ledger
from engine.memory.workspace import MAX_SEQUENCES
from engine.models.gguf import read_shape
from engine.own_cores import physical_cores

N_BATCH = 512


def num_threads() -> int:
    """Returns the engine's own default; peers get the same number."""
    return physical_cores()


def greedy(max_tokens: int, *, num_answers: int = 1, beam_width: int = 1) -> SamplingParams:
    """Returns parameters for greedy decoding, the same on both sides."""
    return SamplingParams(
        max_tokens=max_tokens, temperature=0.0, repeat_penalty=1.0, num_answers=num_answers, beam_width=beam_width
    )


@dataclass(slots=True)
class Answered:
    """Results of a request, on the clock of `time.perf_counter`; one time for each token of text."""

    submitted: float
    token_times: list[float] = field(default_factory=list)
    read: PromptRead | None = None
    answers: tuple[Written, ...] = ()
    has_ended: bool = False

    @property
    def first_token_seconds(self) -> float:
        return self.token_times[0] - self.submitted


@dataclass(frozen=True, slots=True)
class Kept:
    """Where KV is cached between prompts, and its budgets; limits on cells are the application's."""

    folder: Path
    ram_bytes: int
    disk_bytes: int


class OurGeneration:
    """A loaded model that answers in this thread; its KV cache is written to the folder at the end of the block."""

    def __init__(
        self, model: Path, num_cells: int, num_sequences: int = MAX_SEQUENCES, kept: Kept | None = None
    ) -> None:
        self._path, self._kept = model, kept
        spec = ContextSpec(num_cells, N_BATCH, UBATCH_OF_PROCESSOR, num_threads(), num_sequences)
        with ExitStack() as undo:
            self.model = Model(model, 0, lambda share: True)
            undo.callback(self.model.close)
            self.context = Context(self.model, spec)
            undo.callback(self.context.close)
            self.cells = Cells(num_cells, num_sequences)
            self.keeper = self._make_keeper(undo) if kept is not None else None
            self.loop = StepLoop(self.model, self.context, self.cells, self.keeper, make_beams=Beams)
            undo.callback(self.loop.close)
            self._closing = undo.pop_all()
        self.answered: dict[str, Answered] = {}
        self._requests: dict[str, Request] = {}
        self.before_step: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def submit(self, request_id: str, segments: Sequence[Segment], sampling: SamplingParams) -> None:
        self.answered[request_id] = Answered(time.perf_counter())
        self._requests[request_id] = Request(request_id, tuple(segments), sampling)
        self.loop.submit(self._requests[request_id])

    def replace(self, request_id: str, segments: Sequence[Segment]) -> None:
        """Gives a waiting request another prompt."""
        self._exchange(request_id, segments, self.loop.replace)

    def amend(self, request_id: str, segments: Sequence[Segment]) -> bool:
        """Gives a request that is being read another prompt; returns False where that is not possible."""
        return self._exchange(request_id, segments, self.loop.amend)

    def go_on_as(self, request_id: str, of: str, segments: Sequence[Segment], sampling: SamplingParams) -> bool:
        """Continues a prompt being read as another request that writes; returns False where that is not possible."""
        request = Request(request_id, tuple(segments), sampling)
        if not self.loop.amend(request, of):
            return False
        self.answered[request_id], self._requests[request_id] = Answered(time.perf_counter()), request
        return True

    def _exchange(self, request_id: str, segments: Sequence[Segment], exchanged: Callable[[Request], bool]) -> bool:
        anew = replace(self._requests[request_id], segments=tuple(segments))
        if anew == self._requests[request_id] or not exchanged(anew):
            return False
        self._requests[request_id] = anew
        return True

    def step(self) -> None:
        """Computes one batch and records its events."""
        self.before_step()
        for event in self.loop.step():
            self._note(event, time.perf_counter())

    def ask(self, request_id: str, segments: Sequence[Segment], sampling: SamplingParams) -> Answered:
        """Answers one request while no other is open."""
        self.submit(request_id, segments, sampling)
        return self.answer(request_id)

    def answer(self, request_id: str) -> Answered:
        """Runs until no work is left, and returns this request's results."""
        while self.loop.has_work:
            self.step()
        return self.answered[request_id]

    def answer_all(
        self, asked: Iterable[tuple[str, Sequence[Segment]]], sampling: SamplingParams, at_once: int
    ) -> list[Answered]:
        """Answers all requests with `at_once` of them open; the next is submitted when one has ended."""
        waiting, ids = iter(asked), list[str]()
        while True:
            while self._num_open(ids) < at_once and (one := next(waiting, None)) is not None:
                ids.append(one[0])
                self.submit(*one, sampling)
            if not self.loop.has_work:
                return [self.answered[request_id] for request_id in ids]
            self.step()

    def _num_open(self, ids: Sequence[str]) -> int:
        return sum(not self.answered[request_id].has_ended for request_id in ids)

    def _make_keeper(self, undo: ExitStack) -> KnowledgeKeeper:
        assert self._kept is not None
        files = CacheFiles(self._kept.folder, Ledger(), _tell_problem)
        undo.callback(files.close)
        # In the application, this happens while the model is loaded.
        files.scanned.wait()
        root = root_key(self._path, "f16", self.context.num_cells)
        keeper = KnowledgeKeeper(root, self.context, self.cells, Ledger(), files)
        undo.callback(keeper.close)
        kept_cells = cells_to_keep_in(self.cells.num_cells, read_shape(self._path), self._kept.ram_bytes)
        files.set_budget(self._kept.disk_bytes)
        keeper.set_budgets(kept_cells, self._kept.ram_bytes)
        return keeper

    def _note(self, event: StepEvent, now: float) -> None:
        answered = self.answered[event.request_id]
        match event:
            case PromptRead():
                answered.read = event
            case TextWritten():
                answered.token_times += [now] * event.num_tokens
            case RequestFinished() | RequestCancelled():
                answered.answers, answered.has_ended = event.answers, True
            case RequestFailed():
                raise event.error


def _tell_problem(error: RagdollError) -> None:
    print(f"  {error}", file=sys.stderr)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Prints a step and its duration to stderr; a whole run takes many minutes."""
    begun = time.monotonic()
    print(f"  {what} …", file=sys.stderr, end="", flush=True)
    yield
    print(f" {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
