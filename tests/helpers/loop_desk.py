"""A step loop on a small model, with what it said; time stands still unless a test lets it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import llama_cpp.llama_cpp as llama
import numpy as np

from engine.core import Priority, SamplingParams
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Context, ContextSpec
from engine.generation.keeping import Found, Keeper
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
from engine.generation.steps import Timing

ENDS = (RequestFinished, RequestCancelled, RequestFailed)
GREEDY = SamplingParams(max_tokens=24, temperature=0.0, repeat_penalty=1.0, seed=7)


_NEAR_TIE = 0.01


class KeptInTests(Keeper, Protocol):
    """A keeper that shows what it holds, and whom it holds it for."""

    def held(self) -> list[CellSequence]: ...

    @property
    def pins(self) -> list[Found]: ...


class StillTime:
    """Seconds that pass only when a test says so: what is measured is nothing, so guesses stay as they are."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


class LoopDesk:
    """A model, its context and a loop; `events` is all that the loop told."""

    def __init__(
        self,
        path: Path,
        num_cells: int = 512,
        n_ubatch: int = 64,
        num_sequences: int = 32,
        keeper: Callable[[Context, Cells], KeptInTests] | None = None,
        **options,
    ) -> None:
        self.model = Model(path, 0, lambda _: True)
        self.context = Context(self.model, ContextSpec(num_cells, n_ubatch, n_ubatch, 1, num_sequences))
        self.cells = Cells(self.context.num_cells, self.context.num_sequences)
        self.keeper = keeper(self.context, self.cells) if keeper else None
        self.time = StillTime()
        timing = Timing(self.time, lambda _: None)
        self.loop = StepLoop(self.model, self.context, self.cells, self.keeper, timing=timing, **options)
        self.events: list[StepEvent] = []

    def prompt(self, text: str) -> tuple[int, ...]:
        # As a text begins that is read as a whole.
        return (self.model.bos, *self.model.tokenize(f" {text}"))

    def ask(
        self,
        request_id: str,
        prompt: str | Sequence[Segment],
        priority: Priority = "interactive",
        sampling: SamplingParams = GREEDY,
    ) -> Request:
        segments = (Segment(self.prompt(prompt), "instructions"),) if isinstance(prompt, str) else tuple(prompt)
        request = Request(request_id, segments, sampling, priority)
        self.loop.submit(request)
        return request

    def step(self) -> list[StepEvent]:
        new = self.loop.step()
        self.events += new
        self.check()
        return new

    def run(self, max_steps: int = 5000) -> None:
        """Steps until there is nothing left to do."""
        for _ in range(max_steps):
            if not self.loop.has_work:
                return
            self.step()
        raise AssertionError(f"there is still work after {max_steps} steps")

    def write(self, prompt: str, sampling: SamplingParams = GREEDY, request_id: str = "alone") -> RequestFinished:
        """What is written when nothing else is."""
        self.ask(request_id, prompt, sampling=sampling)
        self.run()
        return self.finished(request_id)

    def end_of(self, request_id: str) -> StepEvent:
        """How a request ended: exactly once."""
        (end,) = [event for event in self.events if isinstance(event, ENDS) and event.request_id == request_id]
        return end

    def finished(self, request_id: str) -> RequestFinished:
        end = self.end_of(request_id)
        assert isinstance(end, RequestFinished), end
        return end

    def text(self, request_id: str, answer: int = 0) -> str:
        """The text told piece by piece."""
        return "".join(
            event.text
            for event in self.events
            if isinstance(event, TextWritten) and (event.request_id, event.answer) == (request_id, answer)
        )

    def reading(self, request_id: str) -> PromptRead:
        (read,) = [event for event in self.events if isinstance(event, PromptRead) and event.request_id == request_id]
        return read

    def held(self) -> list[CellSequence]:
        groups = self.loop._groups
        held = [
            sequence.held
            for group in (*groups.running, *groups.waiting, *groups.closing)
            for sequence in group.sequences
            if sequence.held is not None
        ]
        return held + (self.keeper.held() if self.keeper else [])

    def check(self) -> None:
        """Every cell is free or held by somebody known, and llama.cpp holds what we count."""
        held = self.held()
        self.cells.check_integrity(held)
        ends = {sequence.slot: sequence.end - 1 for sequence in held if sequence.cells}
        memory = llama.llama_get_memory(self.context.handle)
        for slot in range(self.context.num_sequences):
            assert llama.llama_memory_seq_pos_max(memory, slot) == ends.get(slot, -1)

    def close(self) -> None:
        """Ends everything; nothing may be left."""
        self.events += self.loop.close()
        if self.keeper:
            assert not self.keeper.pins
            self.keeper.free_cells(self.cells.num_cells)
        self.check()
        assert self.cells.num_free == self.cells.num_cells
        assert self.cells.num_free_slots == self.context.num_sequences
        self.context.close()
        self.model.close()


class BestToken:
    """Samples greedily, and knows how close the closest decision was."""

    def __init__(self) -> None:
        self.margin = float("inf")

    def sample(self, context: Context, row: int) -> int:
        logits = context.logits(row)
        second, best = np.argpartition(logits, -2)[-2:]
        self.margin = min(self.margin, abs(float(logits[best] - logits[second])))
        return int(logits.argmax())

    def close(self) -> None:
        return


def decisive_prompts(path: Path, count: int, max_tokens: int, prompts: Iterable[str]) -> dict[str, Written]:
    """Prompts whose greedy answers hang on no near tie, with those answers as they are written alone.

    In another batch, or in other cells, attention sums in another order: logits differ by some thousandths (flash
    attention sums in 16 bits), and a near tie could fall the other way without anything being wrong.
    """
    found: dict[str, Written] = {}
    samplers: list[BestToken] = []

    def make_sampler(model: Model, params: SamplingParams) -> BestToken:
        samplers.append(BestToken())
        return samplers[-1]

    desk = LoopDesk(path, make_sampler=make_sampler)
    for number, prompt in enumerate(prompts):
        finished = desk.write(prompt, replace(GREEDY, max_tokens=max_tokens), f"r{number}")
        if samplers[-1].margin > _NEAR_TIE:
            found[prompt] = finished.answers[0]
        if len(found) == count:
            break
    desk.close()
    assert len(found) == count
    return found


class FakeKeeper:
    """Keeps paths of segments in cells; `unready` of them pretend to be read from disk for so many looks."""

    keeps_whole = False
    has_room = True

    def __init__(self, context: Context, cells: Cells) -> None:
        self._context, self._cells = context, cells
        self.nodes: dict[tuple[Segment, ...], CellSequence] = {}
        self.pins: list[Found] = []
        self.unready = self.num_spared = 0
        self.kept: list[tuple[int, float, int]] = []

    def held(self) -> list[CellSequence]:
        return list(self.nodes.values())

    def peek(self, segments: Sequence[Segment]) -> int:
        return sum(len(path[-1].tokens) for path in self._path(segments))

    def find(self, segments: Sequence[Segment]) -> Found:
        found = Found(self.peek(segments), 0, tuple(self._path(segments)))
        self.pins.append(found)
        return found

    def is_ready(self, found: Found) -> bool:
        self.unready -= 1
        return self.unready < 0

    def read_by_now(self, found: Found) -> Found:
        return found

    def restore(self, found: Found, sequence: CellSequence) -> int:
        for path in found.path:
            node = self.nodes.get(path)
            if node is None:
                break
            self._cells.share(node, sequence, node.start, node.end)
            self._context.copy(node.slot, sequence.slot, node.start, node.end)
        return sequence.end

    def keep(
        self,
        segments: Sequence[Segment],
        sequence: CellSequence,
        seconds: float,
        computed_tokens: int,
        *,
        can_wait: bool = True,
    ) -> None:
        self.kept.append((sum(len(segment.tokens) for segment in segments), seconds, computed_tokens))
        start, path = 0, ()
        for segment in segments:
            path, end = (*path, segment), start + len(segment.tokens)
            if path not in self.nodes and self._cells.num_free_slots > 0:
                node = self._cells.open(start)
                self._cells.share(sequence, node, start, end)
                self._context.copy(sequence.slot, node.slot, start, end)
                self.nodes[path] = node
            start = end

    def hold(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        num_kept = len(self.kept)
        self.keep(segments, sequence, 0.0, 0)
        del self.kept[num_kept:]

    def let_go(self, found: Found) -> None:
        self.pins = [other for other in self.pins if other is not found]

    def free_cells(self, num_cells: int) -> int:
        before = self._cells.num_free
        for path in self.leaving():
            if self._cells.num_free - before >= num_cells:
                break
            self.give_back(path)
        return self._cells.num_free - before

    def free_slots(self, num_slots: int) -> int:
        leaving = self.leaving()[:num_slots]
        for path in leaving:
            self.give_back(path)
        return len(leaving)

    def leaving(self) -> list[tuple[Segment, ...]]:
        """What may leave the cells, in that order."""
        return sorted(self.nodes, key=len, reverse=True)

    def spare_cells(self) -> None:
        self.num_spared += 1

    def leave_cells(self) -> None:
        for path in list(self.nodes):
            self.give_back(path)

    def give_back(self, path: tuple[Segment, ...]) -> None:
        node = self.nodes.pop(path)
        self._context.remove(node.slot)
        self._cells.close(node)

    def _path(self, segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
        paths = [tuple(segments[: end + 1]) for end in range(len(segments))]
        known = [path in self.nodes for path in paths]
        return paths[: known.index(False) if False in known else len(paths)]
