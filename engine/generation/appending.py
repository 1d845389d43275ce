"""Lets an answer read more text while it is being written, as if that text had stood in its prompt."""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.groups import Groups
from engine.generation.request import Written
from engine.generation.segment import Segment
from engine.generation.sequence import TokenSequence


class Appending:
    """Gives more text to answers that can go on after it; part of the step loop."""

    def __init__(self, groups: Groups, num_cells: int, can_share: bool) -> None:
        """Takes the loop's groups; without `can_share`, of prefixes by the model, nothing is appended."""
        self._groups, self._num_cells, self._can_share = groups, num_cells, can_share

    def written(self, request_id: str) -> Written | None:
        """See `StepLoop.written`."""
        sequence = self._open_answer(request_id)
        return None if sequence is None else sequence.written

    def append(self, request_id: str, segments: Sequence[Segment], max_tokens: int) -> bool:
        """See `StepLoop.append`."""
        sequence = self._open_answer(request_id)
        num_tokens = sum(len(segment.tokens) for segment in segments)
        if sequence is None or not num_tokens or sequence.num_generated >= max_tokens:
            return False
        if len(sequence.tokens) + num_tokens >= self._num_cells:
            return False
        sequence.max_tokens = min(sequence.max_tokens, max_tokens)
        sequence.read(segments)
        return True

    def _open_answer(self, request_id: str) -> TokenSequence | None:
        """Returns the sequence of a request if text may be appended to it, else None."""
        group = self._groups.find(request_id)
        if group is None or not self._can_share or not group.has_read_prompt:
            return None
        sequence, sampling = group.lead, group.request.sampling
        is_single = len(group.sequences) == 1 and group.beams is None and not (sampling.grammar or sampling.json_schema)
        has_written = sequence.num_generated > 0 and all(one.end < len(sequence.tokens) for one in sequence.insertions)
        is_told = not sequence.unsaid and not sequence.stream.holds_back
        # Text that is read in between would end the thoughts, or be part of an answer whose thoughts no later prompt
        # holds. Some models that may think answer at once.
        thoughts = sequence.thoughts
        thinks = thoughts is not None and not (thoughts.has_begun_answer and not thoughts.num_tokens)
        return sequence if is_single and sequence.is_live and has_written and is_told and not thinks else None
