"""Ends requests: exactly once, releasing everything they hold, and keeping their KV.

An answer's last token is sampled but not computed. So that the next turn of a conversation finds the whole answer, an
answer that was cut off by its length, or cancelled, stays in cells until that token was computed as well. A turn that
comes earlier shares these cells.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import NoCells, RagdollError
from engine.generation.admission import Admission
from engine.generation.answers_kept import keep_written
from engine.generation.branching import Branching
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Keeper
from engine.generation.postprocess import Postprocess
from engine.generation.request import (
    RequestCancelled,
    RequestEnded,
    RequestFailed,
    RequestFinished,
    StepEvent,
    Written,
)
from engine.generation.residence import Residence
from engine.generation.sequence import TokenSequence


class Ending:
    """Ends answers and requests; part of the step loop."""

    def __init__(
        self,
        groups: Groups,
        residence: Residence,
        admission: Admission,
        postprocess: Postprocess,
        branching: Branching,
        keeper: Keeper,
        events: list[StepEvent],
    ) -> None:
        self._groups, self._residence, self._admission = groups, residence, admission
        self._postprocess, self._branching, self._keeper, self._events = postprocess, branching, keeper, events

    def cancel(self, group: SequenceGroup) -> None:
        if group.has_read_prompt:
            for sequence in group.live:
                self._keep_answer(group, sequence)
        else:
            self._keep_beginning(group)
        self._end(group, RequestCancelled(group.request_id, self.written(group)))

    def fail(self, group: SequenceGroup, error: RagdollError) -> None:
        self._end(group, RequestFailed(group.request_id, error))

    def cut(self, group: SequenceGroup) -> None:
        """Ends a group that has run out of cells which no other can give up: its answers end by their length."""
        if not any(sequence.num_generated for sequence in group.sequences):
            way_out = "Ask again in a while, or raise the context length in the settings."
            self.fail(group, NoCells("There is no room for this question in the context.", way_out))
            return
        for sequence in group.live:
            sequence.finish_reason = "length"
            if group.beams is None:
                self._postprocess.tell(group, sequence)
        self.finish_if_done(group)

    def finish_if_done(self, group: SequenceGroup) -> None:
        """Releases what ended answers hold; after the last one the request is finished."""
        for sequence in group.sequences:
            if not sequence.is_live and sequence.held is not None:
                self._keep_answer(group, sequence)
                self._residence.release(sequence)
                self._admission.look_again()
        if not group.live:
            self._end(group, RequestFinished(group.request_id, self.written(group)))

    def written(self, group: SequenceGroup) -> tuple[Written, ...]:
        """Returns what is written of its answers so far."""
        if group.beams is not None:
            return self._branching.written(group)
        return tuple(sequence.written for sequence in group.sequences)

    def close_answer(self, group: SequenceGroup) -> None:
        """Keeps all of an ended answer, since its last token was computed."""
        keep_written(self._keeper, group, group.lead)
        self._residence.forget(group)
        self._groups.closing.remove(group)
        self._admission.look_again()

    def _end(self, group: SequenceGroup, event: RequestEnded) -> None:
        group.status = SequenceStatus.FINISHED
        self._residence.forget(group)
        self._admission.let_go(group)
        for sequence in group.sequences:
            sequence.close()
        self._groups.end(group)
        self._admission.note_end()
        self._events.append(event)

    def _keep_beginning(self, group: SequenceGroup) -> None:
        """Keeps whole segments that were read before the request was cancelled: a better guess may begin with them."""
        segments, num_tokens = [], 0
        for segment in group.request.segments:
            num_tokens += len(segment.tokens)
            if num_tokens > group.lead.num_computed:
                break
            segments.append(segment)
        computed = sum(len(segment.tokens) for segment in segments) - group.cached_tokens
        held = group.lead.held
        if held is not None and computed > 0:
            seconds = group.prefill_seconds * computed / max(1, group.computed_tokens)
            self._keeper.keep(segments, held, seconds, computed)

    def _keep_answer(self, group: SequenceGroup, sequence: TokenSequence) -> None:
        if group.beams is not None or not sequence.num_generated or sequence.held is None:
            return
        if sequence.thoughts is not None and sequence.thoughts.leave_no_trace:
            # No later prompt begins like this.
            return
        if self._residence.keeps and sequence.lacks_only_last:
            rest = replace(sequence, finish_reason="length", make_sampler=None, make_drafter=None)
            sequence.held = None
            self._groups.closing.append(replace(group, sequences=[rest], found=None, status=SequenceStatus.FINISHED))
        else:
            keep_written(self._keeper, group, sequence)
