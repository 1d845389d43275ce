"""What the step loop writes on: a group for each request, and in it a sequence of tokens for each of its answers.

The sequences of a group share the cells of their prompt; what is sampled for each follows in cells of its own. How
far a sequence is computed is told by its cells alone, so reading a prompt, reading again what preemption threw away,
and writing on are the same: computing tokens that are not in cells yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Protocol

from engine.core import FinishReason
from engine.generation.cells import CellSequence
from engine.generation.context import Context, State
from engine.generation.keeping import Found
from engine.generation.request import Request, Written
from engine.generation.segment import Segment, tokens_of
from engine.generation.streaming import TextStream


class SequenceStatus(Enum):
    """Where a group stands: PREEMPTED has been RUNNING and has no cells, FINISHED is over, however it ended."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED = auto()


class RowSampler(Protocol):
    """Chooses the next token of one sequence and remembers it (penalties, state of a grammar)."""

    def sample(self, context: Context, row: int) -> int:
        """The token that follows the one in `row` of the last batch."""
        ...

    def close(self) -> None: ...


class Drafter(Protocol):
    """Guesses what comes next, to be verified in one pass with the token before it."""

    def draft(self, tokens: list[int], max_tokens: int) -> list[int]:
        """At most `max_tokens` tokens that are likely to follow `tokens` (the prompt and what was written)."""
        ...

    def read(self, tokens: list[int], num_read: int) -> None:
        """The last `num_read` of `tokens` were not written but read: they may be quoted."""
        ...


@dataclass(frozen=True, slots=True)
class Branch:
    """How a beam goes on: the one it follows, by its place among those there were, and the next token."""

    parent: int
    token: int


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An answer that a beam search has found: its tokens, without the one that ended it.

    `last_token` is that one where it completed a stop string.
    """

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    last_token: int | None = None


class BeamSearch(Protocol):
    """Decides which beams go on; the loop carries it out on sequences that share cells."""

    def advance(self, context: Context, rows: Sequence[int]) -> Sequence[Branch]:
        """The beams after this step, given the row of each beam's last token (at first, of the prompt's).

        There are none once the search is over.
        """
        ...

    def answers(self) -> Sequence[Hypothesis]:
        """What was found, the best first; also before it is over."""
        ...


@dataclass(frozen=True, slots=True)
class SavedPart:
    """Keys and values of a preempted sequence for the positions `start`…`end`, outside of the cells."""

    start: int
    end: int
    state: State

    @property
    def num_bytes(self) -> int:
        return self.state.nbytes


@dataclass(frozen=True, slots=True)
class Insertion:
    """What an answer read while it was being written: `segments` that begin at position `start`."""

    start: int
    segments: tuple[Segment, ...]

    @property
    def end(self) -> int:
        return self.start + sum(len(segment.tokens) for segment in self.segments)


@dataclass(slots=True, eq=False)
class TokenSequence:
    """One answer being written: `tokens` are the prompt and what was sampled, `held` the cells of those computed.

    `texts` were told, `unsaid` is to be; `num_untold` counts the tokens since the last text. `ended_by_token`: the
    last token completed a stop string. `insertions` were read where they stand, and are none of the answer. What
    chooses and guesses its tokens is made when the first of them is chosen or guessed: hundreds may wait.
    """

    number: int
    tokens: list[int]
    prompt_length: int
    make_sampler: Callable[[], RowSampler] | None
    stream: TextStream
    max_tokens: int
    make_drafter: Callable[[], Drafter | None] | None = None
    held: CellSequence | None = None
    saved: list[SavedPart] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)
    num_untold: int = 0
    draft: list[int] = field(default_factory=list)
    ended_by_token: bool = False
    finish_reason: FinishReason | None = None
    insertions: tuple[Insertion, ...] = ()
    num_inserted: int = 0
    _sampler: RowSampler | None = field(default=None, init=False)
    _drafter: Drafter | None = field(default=None, init=False)

    @property
    def num_computed(self) -> int:
        return self.held.end if self.held else 0

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.prompt_length - self.num_inserted

    @property
    def is_live(self) -> bool:
        return self.finish_reason is None

    @property
    def lacks_only_last(self) -> bool:
        """Whether all of the answer is computed but the token that was sampled last."""
        return not self.ended_by_token and self.num_computed == len(self.tokens) - 1

    @property
    def written(self) -> Written:
        """The answer so far; where a stop string ended it, the token that completed the string is left out."""
        starts = [self.prompt_length, *(insertion.end for insertion in self.insertions)]
        ends = [*(insertion.start for insertion in self.insertions), len(self.tokens) - self.ended_by_token]
        tokens = chain.from_iterable(self.tokens[start:end] for start, end in zip(starts, ends, strict=True))
        return Written("".join(self.texts), tuple(tokens), self.finish_reason or "stop")

    def behind_prompt(self, end: int) -> list[Segment]:
        """What was written and read up to position `end`; of what was read, only whole segments."""
        segments: list[Segment] = []
        start = self.prompt_length
        for insertion in self.insertions:
            segments.append(Segment(tuple(self.tokens[start : min(insertion.start, end)])))
            start = insertion.start
            for segment in insertion.segments:
                start += len(segment.tokens)
                if start > end:
                    return segments
                segments.append(segment)
        return [*segments, Segment(tuple(self.tokens[start:end]))] if start < end else segments

    def read(self, segments: Sequence[Segment]) -> None:
        """Takes in text that is to be computed before the next token is chosen, and is none of the answer."""
        tokens = tokens_of(segments)
        self.insertions += (Insertion(len(self.tokens), tuple(segments)),)
        self.tokens += tokens
        self.num_inserted += len(tokens)
        if (drafter := self._made_drafter()) is not None:
            drafter.read(self.tokens, len(tokens))

    def choose(self, context: Context, row: int) -> int:
        """The token that follows the one in `row` of the last batch.

        Raises:
            RagdollError: As its sampler does.
        """
        if self._sampler is None:
            if self.make_sampler is None:
                raise ValueError("a sequence without a sampler is not sampled")
            self._sampler = self.make_sampler()
        return self._sampler.sample(context, row)

    def guess(self, max_tokens: int) -> list[int]:
        """At most `max_tokens` tokens that are likely to come next."""
        drafter = self._made_drafter()
        return drafter.draft(self.tokens, max_tokens)[:max_tokens] if drafter is not None else []

    def close(self) -> None:
        self.make_sampler = None
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def _made_drafter(self) -> Drafter | None:
        if self.make_drafter is not None:
            self._drafter, self.make_drafter = self.make_drafter(), None
        return self._drafter


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request with its sequences, and what became of it so far; owned by the step loop.

    `arrival` counts requests. `times_passed` is how often a later request was admitted first because more of it was
    kept. `has_forked`: the sequences have their own cells behind the prompt that they share. `is_swapped`: it left
    the cells, and what was only its own is saved. `prefill_seconds` is its share of the steps that computed its
    prompt, `read_since` when the first of them began. With `beams`, its sequences are the beams, without samplers.
    """

    request: Request
    arrival: int
    sequences: list[TokenSequence]
    waiting_since: float
    beams: BeamSearch | None = None
    status: SequenceStatus = SequenceStatus.WAITING
    waited_seconds: float = 0.0
    times_passed: int = 0
    found: Found | None = None
    has_forked: bool = False
    is_swapped: bool = False
    has_read_prompt: bool = False
    cached_tokens: int = 0
    computed_tokens: int = 0
    prefill_seconds: float = 0.0
    read_since: float = 0.0

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def prompt_length(self) -> int:
        return self.sequences[0].prompt_length

    @property
    def live(self) -> list[TokenSequence]:
        return [sequence for sequence in self.sequences if sequence.finish_reason is None]

    @property
    def lead(self) -> TokenSequence:
        """The sequence that reads the prompt for all others."""
        return next((sequence for sequence in self.sequences if sequence.finish_reason is None), self.sequences[0])

    @property
    def num_tokens(self) -> int:
        """Cells it takes with everything computed that is known, the prompt once."""
        return self.prompt_length + sum(len(sequence.tokens) - self.prompt_length for sequence in self.live)

    @property
    def num_sequences(self) -> int:
        """Sequence numbers it takes."""
        return max(len(self.live), self.request.sampling.beam_width)

    @property
    def num_unread(self) -> int:
        """Tokens that it has to compute before it can write on, beyond the one that each answer always has."""
        if not self.has_forked and len(self.sequences) > 1:
            return self.num_tokens - self.lead.num_computed
        return sum(num_tokens for _, num_tokens in self.due() if num_tokens > 1)

    def due(self) -> Iterator[tuple[TokenSequence, int]]:
        """Sequences with the number of tokens that are to be computed before they can go on."""
        if not self.has_forked and len(self.sequences) > 1:
            yield self.lead, self.prompt_length - self.lead.num_computed
            return
        for sequence in self.sequences:
            if sequence.finish_reason is None:
                held = sequence.held
                yield sequence, len(sequence.tokens) - (held.start + len(held.cells) if held else 0)


@dataclass(slots=True)
class Groups:
    """All requests that have not ended: those without cells, and those with, in order of arrival.

    `closing` are answers that have ended, and wait for their last token to be computed so that all of it is kept.
    `suspects` were in a batch that could not be computed; each is computed alone to find out whose fault it was.
    """

    waiting: list[SequenceGroup] = field(default_factory=list)
    running: list[SequenceGroup] = field(default_factory=list)
    closing: list[SequenceGroup] = field(default_factory=list)
    suspects: list[SequenceGroup] = field(default_factory=list)

    def find(self, request_id: str) -> SequenceGroup | None:
        """The group of a request that has not ended."""
        return next((group for group in (*self.running, *self.waiting) if group.request_id == request_id), None)

    def remove(self, group: SequenceGroup) -> None:
        for groups in (self.running, self.waiting, self.suspects):
            if group in groups:
                groups.remove(group)
