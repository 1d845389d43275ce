"""Measures batches: each prompt's share of the time, the cost of reading a prompt, and how fast answers are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.generation.batching import Work
from engine.generation.counters import Tally
from engine.generation.groups import Groups
from engine.generation.prefill_profile import PrefillProfile

# A pass with fewer tokens says little about how fast prompts are read.
_TELLING_TOKENS = 32
# Tokens of a batch, sequences that go on writing after it, and seconds.
NotePass = Callable[[int, int, float], None]


class Metering:
    """Records every computed batch; part of the step loop."""

    def __init__(self, groups: Groups, profile: PrefillProfile, tally: Tally, note_pass: NotePass | None) -> None:
        self._groups, self._profile, self._tally, self._note_pass = groups, profile, tally, note_pass

    def note(self, batch: Sequence[Work], seconds: float, *, has_piece: bool = False) -> None:
        """Gives each prompt its share of the step's time; a batch of mostly one prompt shows the cost of reading.

        Not if it `has_piece`: a piece of a prompt that was computed while layers were read takes as long as the layers.
        """
        total = sum(work.num_tokens + work.num_drafted for work in batch)
        for work in batch:
            if not work.group.has_read_prompt:
                _note_reading(work, seconds * work.num_tokens / total)
        self._note_idle(batch, seconds)
        largest = max(batch, key=lambda work: work.num_tokens)
        if largest.num_tokens > total // 2 and largest.num_tokens > 1 and not has_piece:
            cached_tokens = largest.sequence.num_computed - largest.num_tokens
            self._profile.note(cached_tokens, total, seconds)
            if total >= _TELLING_TOKENS:
                self._tally.prompt_passes = self._tally.prompt_passes.with_pass(cached_tokens, total, seconds)
        if self._note_pass is not None:
            self._note_pass(total, sum(work.wants_token for work in batch), seconds)
        self._tally.note_step(seconds)

    def _note_idle(self, batch: Sequence[Work], seconds: float) -> None:
        """Counts the step as waiting time of groups with cells whose priority was not served, raising their urgency.

        A group keeps its waiting time while it reads a prompt, or recomputes after a preemption. An answer that
        advances by a token is not starving: if the time of all other passes added up, a script's long answer would
        eventually be as urgent as a person's, and could no longer be overtaken.
        """
        served = {work.group.request.priority for work in batch}
        advanced = {id(work.group) for work in batch if work.wants_token}
        for group in self._groups.running:
            if group.request.priority not in served:
                group.waited_seconds += seconds
            elif id(group) in advanced:
                group.waited_seconds = 0.0


def _note_reading(work: Work, seconds: float) -> None:
    """Counts each token of a prompt once: of tokens that a preemption discarded, only the later computation counts."""
    group, end = work.group, work.sequence.num_computed
    before = max(0, end - work.num_tokens - group.cached_tokens)
    after = max(0, end - group.cached_tokens)
    if before < group.computed_tokens:
        group.prefill_seconds *= before / group.computed_tokens
    group.prefill_seconds += seconds * (after - before) / work.num_tokens
    group.computed_tokens = after
