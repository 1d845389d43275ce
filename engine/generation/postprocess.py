"""From computed rows to text: samples, verifies drafts, ends answers and reports what may be shown.

A draft is verified in the pass that computes it: a token is sampled for each row, and as long as it equals the drafted
one, the next row is valid too. So drafts change neither greedy text nor the distribution of sampled text.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core import FinishReason
from engine.generation.batching import Work
from engine.generation.context import Context
from engine.generation.counters import Tally
from engine.generation.groups import SequenceGroup
from engine.generation.request import StepEvent, TextWritten
from engine.generation.residence import Residence
from engine.generation.sequence import TokenSequence
from engine.generation.vocabulary import Vocabulary


class Postprocess:
    """Turns rows of the last batch into tokens of sequences; part of the step loop."""

    def __init__(
        self, context: Context, residence: Residence, vocabulary: Vocabulary, tally: Tally, events: list[StepEvent]
    ) -> None:
        self._context, self._residence, self._vocabulary = context, residence, vocabulary
        self._tally, self._events = tally, events

    def write(self, works: Sequence[Work], rows: Sequence[int]) -> None:
        """Continues every answer whose last token was computed."""
        for work, row in zip(works, rows, strict=True):
            if work.wants_token and work.sequence.is_live:
                self._write(work, row + work.num_tokens - 1)

    def fork(self, work: Work, row: int) -> None:
        """Once the shared prompt is read, gives every answer its own cells, and samples from the same row."""
        group, lead, shared = work.group, work.sequence, work.group.shared_length
        if lead.num_computed < shared:
            return
        for sequence in group.live:
            if sequence is not lead:
                self._residence.fork(lead, sequence, shared)
        group.has_forked = True
        if work.wants_token:
            for sequence in group.live:
                self._sample(sequence, row + work.num_tokens - 1)
                self.tell(group, sequence)

    def tell(self, group: SequenceGroup, sequence: TokenSequence) -> None:
        """Reports new text that can be shown; all of it, once the answer has ended."""
        if sequence.finish_reason is not None:
            _finish(sequence)
        text = "".join(sequence.unsaid)
        thoughts = sequence.thoughts.take() if sequence.thoughts is not None else ""
        if text or thoughts:
            sequence.unsaid.clear()
            sequence.texts.append(text)
            event = TextWritten(group.request_id, text, sequence.num_untold, sequence.number, thoughts)
            self._events.append(event)
            sequence.num_untold = 0

    def _write(self, work: Work, row: int) -> None:
        """Samples the token after `row`, and verifies the draft in the rows after it."""
        sequence = work.sequence
        accepted = self._verify(work, row)
        if work.num_drafted:
            self._residence.trim(sequence, sequence.num_computed - work.num_drafted + accepted)
            self._note_draft(work, accepted)
        self.tell(work.group, sequence)

    def _verify(self, work: Work, row: int) -> int:
        """Samples until a token differs from the drafted one; returns how many were accepted."""
        sequence = work.sequence
        for at, drafted in enumerate(sequence.draft[: work.num_drafted]):
            if self._sample(sequence, row + at) != drafted:
                return at
            if not sequence.is_live:
                return at + 1
        self._sample(sequence, row + work.num_drafted)
        return work.num_drafted

    def _sample(self, sequence: TokenSequence, row: int) -> int | None:
        """Samples and takes the next token; returns None if the answer ended without one."""
        token = sequence.choose(self._context, row)
        thoughts = sequence.thoughts
        if thoughts is not None and thoughts.is_thinking and self._vocabulary.piece(token) is None:
            token = thoughts.end()
        return token if self._take(sequence, token) else None

    def _take(self, sequence: TokenSequence, token: int) -> bool:
        """Appends a sampled token, unless it ends the answer."""
        piece = self._vocabulary.piece(token)
        if piece is None:
            sequence.finish_reason = "stop"
            return False
        sequence.tokens.append(token)
        sequence.num_untold += 1
        self._tally.generated_tokens += 1
        thoughts = sequence.thoughts
        if thoughts is not None and not thoughts.has_begun_answer:
            piece = thoughts.feed(self._vocabulary.marked(token), piece)
            sequence.max_tokens = thoughts.most_tokens
            sequence.stream.stop_at(thoughts.answer_end)
        if text := sequence.stream.feed(piece):
            sequence.unsaid.append(text)
        sequence.finish_reason = _end_of(sequence)
        if num_bytes := sequence.stream.num_bytes_of_stop:
            sequence.num_of_stop, sequence.is_cut_within = self._vocabulary.holding(num_bytes, sequence.going_on)
        return True

    def _note_draft(self, work: Work, accepted: int) -> None:
        self._tally.drafted_tokens += work.num_drafted
        self._tally.accepted_tokens += accepted


def _finish(sequence: TokenSequence) -> None:
    """Releases text that was held back, since no more tokens follow."""
    rest = ""
    if sequence.thoughts is not None:
        rest = sequence.stream.feed(sequence.thoughts.finish())
    if rest := rest + sequence.stream.finish():
        sequence.unsaid.append(rest)


def _end_of(sequence: TokenSequence) -> FinishReason | None:
    if sequence.stream.is_stopped:
        return "stop"
    return "length" if sequence.num_generated >= sequence.max_tokens else None
