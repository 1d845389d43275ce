"""From computed rows to text: samples, verifies drafts, ends answers and tells what may be shown.

A draft is verified in the pass that computes it: for each row a token is sampled, and as long as it is the drafted
one, the next row is right as well. So a draft changes no greedy text and, sampled, no distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core import FinishReason
from engine.generation.context import Context
from engine.generation.counters import Tally
from engine.generation.model import Model
from engine.generation.request import StepEvent, TextWritten
from engine.generation.residence import Residence
from engine.generation.sequence import SequenceGroup, TokenSequence


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes of one sequence: so many tokens from where it stands, and after them its draft.

    `wants_token`: it is all that was missing, so that the next token follows from it.
    """

    group: SequenceGroup
    sequence: TokenSequence
    num_tokens: int
    num_drafted: int = 0
    wants_token: bool = False


class Vocabulary:
    """The bytes of tokens, asked for once each; None where the model says with it that it is done."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pieces: dict[int, bytes | None] = {}

    def piece(self, token: int) -> bytes | None:
        if token not in self._pieces:
            self._pieces[token] = None if self._model.ends(token) else self._model.piece(token)
        return self._pieces[token]


class Postprocess:
    """Turns rows of the last batch into tokens of sequences; part of the step loop."""

    def __init__(self, context: Context, residence: Residence, tally: Tally) -> None:
        self._context, self._residence, self._tally = context, residence, tally
        self._vocabulary = Vocabulary(context.model)

    def write(self, work: Work, row: int, events: list[StepEvent]) -> None:
        """Samples what follows the work's last token, with the draft behind it."""
        sequence = work.sequence
        base = sequence.num_computed - work.num_drafted
        row += work.num_tokens - 1
        accepted = self._verify(work, row)
        if work.num_drafted:
            self._residence.trim(sequence, base + accepted)
            self._note_draft(work, accepted)
        self.tell(work.group, sequence, events)

    def begin(self, group: SequenceGroup, sequence: TokenSequence, row: int, events: list[StepEvent]) -> None:
        """The first token of one of several answers, from the row that all of them share."""
        self._sample(sequence, row)
        self.tell(group, sequence, events)

    def tell(self, group: SequenceGroup, sequence: TokenSequence, events: list[StepEvent]) -> None:
        """Says what can be shown since the last time; everything, once the answer has ended."""
        if sequence.finish_reason is not None and (rest := sequence.stream.finish()):
            sequence.unsaid.append(rest)
        text = "".join(sequence.unsaid)
        if text:
            sequence.unsaid.clear()
            sequence.texts.append(text)
            events.append(TextWritten(group.request_id, text, sequence.num_untold, sequence.number))
            sequence.num_untold = 0

    def _verify(self, work: Work, row: int) -> int:
        """Samples until a token is not the drafted one; returns how many were."""
        sequence = work.sequence
        for at, drafted in enumerate(sequence.draft[: work.num_drafted]):
            if self._sample(sequence, row + at) != drafted:
                return at
            if not sequence.is_live:
                return at + 1
        self._sample(sequence, row + work.num_drafted)
        return work.num_drafted

    def _sample(self, sequence: TokenSequence, row: int) -> int | None:
        """The token that was written; None where the answer ended without one."""
        token = sequence.sampler.sample(self._context, row)
        return token if self._take(sequence, token) else None

    def _take(self, sequence: TokenSequence, token: int) -> bool:
        """Appends a sampled token, unless it says that the answer is done."""
        piece = self._vocabulary.piece(token)
        if piece is None:
            sequence.finish_reason = "stop"
            return False
        sequence.tokens.append(token)
        sequence.num_untold += 1
        self._tally.generated_tokens += 1
        if text := sequence.stream.feed(piece):
            sequence.unsaid.append(text)
        sequence.finish_reason = _end_of(sequence)
        sequence.ended_by_token = sequence.stream.is_stopped
        return True

    def _note_draft(self, work: Work, accepted: int) -> None:
        self._tally.drafted_tokens += work.num_drafted
        self._tally.accepted_tokens += accepted
        if work.sequence.drafter is not None:
            work.sequence.drafter.learn(work.num_drafted, accepted)


def _end_of(sequence: TokenSequence) -> FinishReason | None:
    if sequence.stream.is_stopped:
        return "stop"
    return "length" if sequence.num_generated >= sequence.max_tokens else None
