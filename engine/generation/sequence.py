"""An answer under way: a sequence of tokens, the cells of those that are computed, and the sampler of the next.

The cells alone show how far a sequence is computed, so reading a prompt, recomputing after a preemption and decoding
are the same: computing tokens that are not in cells yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from engine.core import FinishReason
from engine.generation.cells import CellSequence
from engine.generation.context import Context, State
from engine.generation.request import Written
from engine.generation.segment import Segment, tokens_of
from engine.generation.streaming import TextStream
from engine.generation.thinking import Thoughts


class RowSampler(Protocol):
    """Chooses the next token of one sequence and remembers it (penalties, state of a grammar)."""

    def sample(self, context: Context, row: int) -> int:
        """Returns the token that follows the one in `row` of the last batch."""
        ...

    def accept(self, tokens: Sequence[int]) -> None:
        """Continues after these tokens, as if it had chosen them."""
        ...

    def renew(self) -> None:
        """Makes everything again that depends on the vocabulary, because the model was reloaded."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Guess:
    """What may come next: `tokens`, and how likely each of them is if those before it are right.

    `pass_seconds` returns the time of a pass of n tokens (None if unknown); without it, all of the guess is verified.
    """

    tokens: Sequence[int] = ()
    likely: Sequence[float] = ()
    pass_seconds: Callable[[int], float | None] | None = None


class Drafter(Protocol):
    """Guesses the next tokens, which are verified in one pass with the token before them."""

    def draft(self, tokens: list[int], max_tokens: int) -> Guess:
        """Returns at most `max_tokens` tokens that are likely to follow `tokens` (the prompt and what was written)."""
        ...

    def read(self, tokens: list[int], num_read: int) -> None:
        """Notes that the last `num_read` of `tokens` were read instead of written, so they may be quoted."""
        ...


@dataclass(frozen=True, slots=True)
class Branch:
    """How a beam continues: the index of its parent beam, and the next token."""

    parent: int
    token: int


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An answer that a beam search has found: its tokens, without the one that ended it.

    `last_token` is the one that ended it, if it completed a stop string.
    """

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    last_token: int | None = None


class BeamSearch(Protocol):
    """Decides which beams continue; the loop applies that to sequences that share cells."""

    def advance(self, context: Context, rows: Sequence[int]) -> Sequence[Branch]:
        """Returns the beams after this step, given the row of each beam's last token (at first, of the prompt's).

        There are none once the search is over.
        """
        ...

    def answers(self) -> Sequence[Hypothesis]:
        """Returns the hypotheses found so far, best first."""
        ...


@dataclass(frozen=True, slots=True)
class SavedPart:
    """Saved keys and values of a preempted sequence for the positions `start`…`end`.

    `is_on_disk`: they are mapped from a file.
    """

    start: int
    end: int
    state: State
    is_on_disk: bool = False

    @property
    def num_bytes(self) -> int:
        return self.state.nbytes


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text that was added while an answer was being written: `segments` that begin at position `start`."""

    start: int
    segments: tuple[Segment, ...]

    @property
    def end(self) -> int:
        return self.start + sum(len(segment.tokens) for segment in self.segments)


@dataclass(slots=True, eq=False)
class TokenSequence:
    """One answer being written: `tokens` are the prompt and what was sampled, `held` the cells of those computed.

    `texts` were reported, `unsaid` will be; `num_untold` counts the tokens since the last text. `num_of_stop` tokens at
    the end hold the stop string that ended it; `is_cut_within` if the first of them also holds some of the answer.
    `insertions` were read at their positions, and are not part of the answer. Samplers and drafters are made when they
    are first used, because hundreds of answers may wait. `thoughts` come before the answer, if the model thinks;
    `make_thinker` makes their sampler, if the answer has a grammar that does not apply to thoughts.
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
    num_of_stop: int = 0
    is_cut_within: bool = False
    finish_reason: FinishReason | None = None
    insertions: tuple[Insertion, ...] = ()
    num_inserted: int = 0
    thoughts: Thoughts | None = None
    make_thinker: Callable[[], RowSampler] | None = None
    _sampler: RowSampler | None = field(default=None, init=False)
    _thinker: RowSampler | None = field(default=None, init=False)
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
    def is_thinking(self) -> bool:
        return self.thoughts is not None and self.thoughts.is_thinking

    @property
    def num_thought(self) -> int:
        """The number of tokens that were written before the answer."""
        return self.thoughts.num_tokens if self.thoughts is not None else 0

    @property
    def lacks_only_last(self) -> bool:
        """Whether all of the answer is computed except the last sampled token."""
        return not self.num_of_stop and self.num_computed == len(self.tokens) - 1

    @property
    def written(self) -> Written:
        """The answer so far; if a stop string ended it, the tokens that hold the string are left out."""
        starts = [self.prompt_length, *(insertion.end for insertion in self.insertions)]
        ends = [*(insertion.start for insertion in self.insertions), len(self.tokens) - self.num_of_stop]
        tokens = chain.from_iterable(self.tokens[start:end] for start, end in zip(starts, ends, strict=True))
        thoughts = self.thoughts.text.rstrip() if self.thoughts is not None else ""
        text, reason = "".join(self.texts), self.finish_reason or "stop"
        return Written(text, tuple(tokens), reason, thoughts, self.num_thought, self.is_cut_within)

    @property
    def going_on(self) -> list[int]:
        """The tokens that were written since the last insertion."""
        return self.tokens[self.insertions[-1].end if self.insertions else self.prompt_length :]

    def behind_prompt(self, end: int) -> list[Segment]:
        """Returns what was written and inserted up to position `end`; only whole segments of insertions."""
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
        """Inserts text that is computed before the next token is chosen, and is not part of the answer."""
        tokens = tokens_of(segments)
        self.insertions += (Insertion(len(self.tokens), tuple(segments)),)
        self.tokens += tokens
        self.num_inserted += len(tokens)
        if (drafter := self._made_drafter()) is not None:
            drafter.read(self.tokens, len(tokens))

    def choose(self, context: Context, row: int) -> int:
        """Returns the token that follows the one in `row` of the last batch.

        Raises:
            RagdollError: Its sampler raised it.
        """
        due = self.thoughts.next_due() if self.thoughts is not None else None
        return due if due is not None else self._chooser().sample(context, row)

    def _chooser(self) -> RowSampler:
        if self.make_thinker is not None and self.is_thinking:
            if self._thinker is None:
                self._thinker = self.make_thinker()
            return self._thinker
        if self._sampler is None:
            if self.make_sampler is None:
                raise ValueError("a sequence without a sampler is not sampled")
            self._sampler = self.make_sampler()
        return self._sampler

    def renew(self) -> None:
        """Renews its samplers, because the model was reloaded."""
        for sampler in (self._sampler, self._thinker):
            if sampler is not None:
                sampler.renew()

    @property
    def can_guess(self) -> bool:
        """Whether it has a drafter, or may have one."""
        return self.make_drafter is not None or self._drafter is not None

    def guess(self, max_tokens: int) -> Guess:
        """Returns at most `max_tokens` tokens that are likely to come next."""
        drafter = self._made_drafter()
        return drafter.draft(self.tokens, max_tokens) if drafter is not None else Guess()

    def close(self) -> None:
        self.make_sampler = self.make_thinker = None
        for sampler in (self._sampler, self._thinker):
            if sampler is not None:
                sampler.close()
        self._sampler = self._thinker = None

    def _made_drafter(self) -> Drafter | None:
        if self.make_drafter is not None:
            self._drafter, self.make_drafter = self.make_drafter(), None
        return self._drafter
