"""What the step loop writes on: a group for each request, and in it a sequence of tokens for each of its answers.

The sequences of a group share the cells of their prompt; what is sampled for each follows in cells of its own. How
far a sequence is computed is told by its cells alone, so reading a prompt, reading again what preemption threw away,
and writing on are the same: computing tokens that are not in cells yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from engine.core import FinishReason
from engine.generation.cells import CellSequence
from engine.generation.context import Context, State
from engine.generation.keeping import Found
from engine.generation.request import Request, Written
from engine.generation.segment import tokens_of
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

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        """How the last draft did."""
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


@dataclass(slots=True, eq=False)
class TokenSequence:
    """One answer being written: `tokens` are the prompt and what was sampled, `held` the cells of those computed."""

    number: int
    tokens: list[int]
    prompt_length: int
    sampler: RowSampler
    stream: TextStream
    max_tokens: int
    drafter: Drafter | None = None
    held: CellSequence | None = None
    saved: list[SavedPart] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)
    num_untold: int = 0
    draft: list[int] = field(default_factory=list)
    ended_by_token: bool = False
    finish_reason: FinishReason | None = None

    @property
    def num_computed(self) -> int:
        return self.held.end if self.held else 0

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def is_live(self) -> bool:
        return self.finish_reason is None

    @property
    def written(self) -> Written:
        """The answer so far; where a stop string ended it, the token that completed the string is left out."""
        end = len(self.tokens) - self.ended_by_token
        tokens = tuple(self.tokens[self.prompt_length : end])
        return Written("".join(self.texts), tokens, self.finish_reason or "stop")


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request with its sequences, and what became of it so far; owned by the step loop.

    `arrival` counts requests. `times_passed` is how often a later request was admitted first because more of it was
    kept. `has_forked`: the sequences have their own cells behind the prompt that they share. `is_swapped`: it left
    the cells, and what was only its own is saved. `prefill_seconds` is its share of the steps that computed its
    prompt, `read_since` when the first of them began.
    """

    request: Request
    arrival: int
    sequences: list[TokenSequence]
    waiting_since: float
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
        live = self.live
        return self.prompt_length + sum(len(sequence.tokens) - self.prompt_length for sequence in live)

    def due(self) -> Iterator[tuple[TokenSequence, int]]:
        """Sequences with the number of tokens that are to be computed before they can go on."""
        if not self.has_forked and len(self.sequences) > 1:
            yield self.lead, self.prompt_length - self.lead.num_computed
            return
        for sequence in self.sequences:
            if sequence.finish_reason is None:
                yield sequence, len(sequence.tokens) - sequence.num_computed

    def prompt_tokens(self) -> list[int]:
        return tokens_of(self.request.segments)
