"""The parts of a step loop without llama.cpp: keys and values that can be told right from wrong, scripted tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Literal

from engine.core import SamplingParams
from engine.generation.admission import Admission, AdmissionLimits
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Stretch
from engine.generation.counters import Tally
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Found
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.request import Request, StepEvent
from engine.generation.residence import Residence
from engine.generation.segment import Segment, tokens_of
from engine.generation.sequence import Branch, Hypothesis, TokenSequence
from engine.generation.streaming import TextStream
from tests.helpers.kept import TOKEN_BYTES, FakeContext, values_of
from tests.helpers.loop_desk import FakeKeeper, StillTime

__all__ = ["TOKEN_BYTES", "DiskKeeper", "Parts", "Script", "ScriptedBeams", "prompt"]
END = 0
PLAIN = SamplingParams(max_tokens=8, temperature=0.0, repeat_penalty=1.0)
Path = tuple[Segment, ...]


class FakeModel:
    """Every token is its number and a blank; 0 says that the answer is done."""

    num_tokens = 10_000

    def __init__(self, can_share_prefixes: bool = True) -> None:
        self.can_share_prefixes = can_share_prefixes

    def piece(self, token: int, special: bool = False) -> bytes:
        return b"%d " % token

    def ends(self, token: int) -> bool:
        return token == END


class LoopContext(FakeContext):
    """Computes batches as llama.cpp does, but for the logits; `refuses` are the slots it has no room to load into."""

    def __init__(self, model: FakeModel, num_cells: int = 256, n_ubatch: int = 32, num_sequences: int = 32) -> None:
        super().__init__(num_cells, num_sequences)
        self.model, self.n_batch, self.n_ubatch = model, n_ubatch, n_ubatch
        self.is_streamed = self.is_spoilt = self.attends_by_tiles = self.attends_on_processor = False
        self.gap_seconds = self.cell_cost = 0.0
        self.can_rewind = model.can_share_prefixes
        self.loads = self.saves = True
        self.batches: list[list[Stretch]] = []

    def decode(self, stretches: Sequence[Stretch]) -> list[int]:
        self.batches.append(list(stretches))
        rows, count = [], 0
        for stretch in stretches:
            self.read(stretch.slot, stretch.position, stretch.tokens)
            rows.append(count)
            count += len(stretch.tokens)
        assert count <= self.n_ubatch
        return rows

    def disk_seconds(self) -> tuple[float, float]:
        return 0.0, 0.0

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        # -1 is everything, as in llama.cpp.
        super().copy(source, target, start, max(self.values[source], default=-1) + 1 if end < 0 else end)

    def remove(self, slot: int, start: int = 0, end: int = -1) -> bool:
        if start and not self.can_rewind:
            return False
        return super().remove(slot, start, end)

    def clear(self) -> None:
        assert not any(self.values.values())
        self.is_spoilt = False

    def save(self, slot: int, into) -> int:
        return super().save(slot, into) if self.saves else 0

    def load(self, state, slot: int) -> bool:
        return super().load(state, slot) if self.loads else False


class Script:
    """A sampler that says what it was told to."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = iter(tokens)
        self.rows: list[int] = []
        self.accepted: list[int] = []
        self.is_closed = False

    def accept(self, tokens: Sequence[int]) -> None:
        self.accepted += tokens

    def sample(self, context: object, row: int) -> int:
        self.rows.append(row)
        return next(self._tokens, END)

    def close(self) -> None:
        self.is_closed = True


class ScriptedBeams:
    """A search whose steps are given: for each, the branches; none when they are over."""

    def __init__(self, steps: Sequence[Sequence[Branch]] = (), found: Sequence[Hypothesis] = ()) -> None:
        self._steps, self._found = iter(steps), found
        self.rows: list[list[int]] = []

    def advance(self, context: object, rows: Sequence[int]) -> Sequence[Branch]:
        self.rows.append(list(rows))
        return next(self._steps, ())

    def answers(self) -> Sequence[Hypothesis]:
        return self._found


class DiskKeeper(FakeKeeper):
    """Kept paths that have left the cells are on disk, on their way from there once they were found, or in memory."""

    def __init__(self, context: LoopContext, cells: Cells) -> None:
        super().__init__(context, cells)  # type: ignore[arg-type]
        self.away: dict[Path, Literal["disk", "coming", "memory"]] = {}
        self.num_peeks = 0

    def peek(self, segments: Sequence[Segment]) -> int:
        self.num_peeks += 1
        return super().peek(segments)

    def find(self, segments: Sequence[Segment]) -> Found:
        path = self._path(segments)
        for node in path:
            if self.away.get(node) == "disk":
                self.away[node] = "coming"
        return self._pinned(path)

    def is_ready(self, found: Found) -> bool:
        return all(self.away.get(node) != "coming" for node in found.path)

    def read_by_now(self, found: Found) -> Found:
        self.let_go(found)
        return self._pinned(list(takewhile(lambda node: self.away.get(node) != "coming", found.path)))

    def _pinned(self, path: Sequence[Path]) -> Found:
        num_tokens = sum(len(node[-1].tokens) for node in path)
        num_away = sum(len(node[-1].tokens) for node in path if node in self.away)
        self.pins.append(Found(num_tokens, num_away, tuple(path)))
        return self.pins[-1]

    def arrives(self) -> None:
        """What is on its way from disk is in memory now."""
        self.away.update((node, "memory") for node, home in self.away.items() if home == "coming")

    def restore(self, found: Found, sequence: CellSequence) -> int:
        for node in found.path:
            start, tokens = sequence.end, node[-1].tokens
            if node in self.nodes:
                self._cells.share(self.nodes[node], sequence, start, start + len(tokens))
                self._context.copy(self.nodes[node].slot, sequence.slot, start, start + len(tokens))
            elif self.away.get(node) == "memory":
                self._context.read(sequence.slot, start, tokens)  # type: ignore[attr-defined]
                self._cells.grow(sequence, len(tokens))
            else:
                break
        return sequence.end

    def leaving(self) -> list[Path]:
        pinned = {node for found in self.pins for node in found.path}
        return sorted(self.nodes.keys() - pinned, key=len, reverse=True)

    def give_back(self, path: Path) -> None:
        super().give_back(path)
        self.away[path] = "disk"

    def forget_all(self) -> None:
        """As when documents are removed from the library: in no tier any longer, whoever holds it."""
        self.leave_cells()
        self.away.clear()

    def _path(self, segments: Sequence[Segment]) -> list[Path]:
        paths = (tuple(segments[: end + 1]) for end in range(len(segments)))
        return list(takewhile(lambda path: path in self.nodes or path in self.away, paths))


def prompt(first: int, num_tokens: int, *more: int) -> tuple[Segment, ...]:
    """A segment of consecutive tokens, and after it others of as many as said."""
    segments, start = [], first
    for length in (num_tokens, *more):
        segments.append(Segment(tuple(range(start, start + length))))
        start += length
    return tuple(segments)


class Parts:
    """The parts of a step loop on one context, and groups put together by hand; time stands still."""

    def __init__(
        self,
        can_share_prefixes: bool = True,
        keeper: Callable[[LoopContext, Cells], Any] = DiskKeeper,
        max_running: int = 16,
        swap_budget_bytes: int = 1 << 20,
        pays_by_pass: bool = False,
        **options: int,
    ) -> None:
        self.model = FakeModel(can_share_prefixes)
        self.context: Any = LoopContext(self.model, **options)
        self.cells = Cells(self.context.num_cells, self.context.num_sequences)
        self.keeper = keeper(self.context, self.cells)
        self.time, self.groups, self.tally, self.profile = StillTime(), Groups(), Tally(), PrefillProfile()
        self.events: list[StepEvent] = []
        self.residence = Residence(self.context, self.cells, self.keeper, self.time)
        self.admission = Admission(
            self.groups,
            self.cells,
            self.keeper,
            self.residence,
            self.profile,
            self.tally,
            self.time,
            AdmissionLimits(max_running, self.context.n_ubatch, swap_budget_bytes, pays_by_pass=pays_by_pass),
        )
        self._num_arrived = 0

    def waiting(
        self, segments: Sequence[Segment], written: Sequence[Sequence[int]] = ((),), **request: Any
    ) -> SequenceGroup:
        """A request that waits, with an answer for each of `written`: the tokens that were sampled for it."""
        self._num_arrived += 1
        sampling = replace(PLAIN, num_answers=len(written))
        asked = Request(f"r{self._num_arrived}", tuple(segments), **{"sampling": sampling, **request})
        prompt_tokens = tokens_of(segments)
        sequences = [
            TokenSequence(
                number, [*prompt_tokens, *tokens], len(prompt_tokens), None, TextStream(), sampling.max_tokens
            )
            for number, tokens in enumerate(written)
        ]
        group = SequenceGroup(asked, self._num_arrived, sequences, self.time())
        self.groups.add(group)
        return group

    def running(
        self, segments: Sequence[Segment], written: Sequence[Sequence[int]] = ((),), *, lacks: int = 1, **request: Any
    ) -> SequenceGroup:
        """A request with cells, in which all is computed but the last `lacks` tokens of each answer."""
        group = self.waiting(segments, written, **request)
        self.groups.waiting.remove(group)
        self.groups.running.append(group)
        group.status = SequenceStatus.RUNNING
        lead, *others = group.sequences
        lead.held = self.cells.open()
        shared = group.prompt_length if others else 0
        self.compute(lead.held, lead.tokens[:shared])
        for other in others:
            self.residence.fork(lead, other, shared)
        for sequence in group.sequences:
            self.compute(sequence.held, sequence.tokens[: len(sequence.tokens) - lacks])
        group.has_forked = len(group.sequences) > 1
        group.has_read_prompt = lead.num_computed >= group.prompt_length
        return group

    def reading(
        self, segments: Sequence[Segment], written: Sequence[Sequence[int]], num_computed: int
    ) -> SequenceGroup:
        """A request of which so much is computed, by the lead for all others."""
        group = self.waiting(segments, written)
        self.groups.waiting.remove(group)
        self.groups.running.append(group)
        group.status = SequenceStatus.RUNNING
        group.lead.held = self.cells.open()
        self.compute(group.lead.held, group.lead.tokens[:num_computed])
        return group

    def compute(self, held: CellSequence | None, tokens: Sequence[int]) -> None:
        """Computes what of `tokens` a sequence does not hold."""
        assert held is not None
        rest = tokens[held.end :]
        self.context.read(held.slot, held.end, rest)
        self.cells.grow(held, len(rest))

    def keep(self, *segments: Segment) -> None:
        """Has a prompt kept in cells."""
        held = self.cells.open()
        self.compute(held, tokens_of(segments))
        self.keeper.keep(segments, held, 1.0, held.end)
        self.residence.close(held)

    def check(self) -> None:
        """Every cell is free or held by somebody known, with the values that reading the tokens gives."""
        groups = [*self.groups.running, *self.groups.waiting, *self.groups.closing]
        sequences = [each for group in groups for each in group.sequences if each.held is not None]
        self.cells.check_integrity([*(each.held for each in sequences), *self.keeper.held()])
        for sequence in sequences:
            values = self.context.values.get(sequence.held.slot, {})
            assert [values[at] for at in sorted(values)] == values_of(sequence.tokens[: sequence.held.end])
