"""Meters batches: each prompt's share of the time, what reading a prompt costs, and how fast answers are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.generation.batching import Work
from engine.generation.counters import Tally
from engine.generation.groups import Groups
from engine.generation.prefill_profile import PrefillProfile

# A pass of fewer tokens says little of how fast prompts are read.
_TELLING_TOKENS = 32
# Tokens of a batch, sequences that go on writing after it, and seconds.
NotePass = Callable[[int, int, float], None]


class Metering:
    """Takes in every computed batch; part of the step loop."""

    def __init__(self, groups: Groups, profile: PrefillProfile, tally: Tally, note_pass: NotePass | None) -> None:
        self._groups, self._profile, self._tally, self._note_pass = groups, profile, tally, note_pass

    def note(self, batch: Sequence[Work], seconds: float, *, has_piece: bool = False) -> None:
        """Gives each prompt its share of the step's time; a batch of mostly one prompt shows what reading costs.

        Not if it `has_piece`, which is read while layers are: that took as long as the layers did.
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
        """Counts the step as waiting for groups with cells whose kind got nothing computed, which raises their urgency.

        A group keeps that while it reads, a prompt or what a preemption threw away. An answer that advances by a token
        does not starve: with all passes for others added up, a script's long answer would in the end be as urgent as a
        person's, and could not be overtaken any more.
        """
        served = {work.group.request.priority for work in batch}
        advanced = {id(work.group) for work in batch if work.wants_token}
        for group in self._groups.running:
            if group.request.priority not in served:
                group.waited_seconds += seconds
            elif id(group) in advanced:
                group.waited_seconds = 0.0


def _note_reading(work: Work, seconds: float) -> None:
    """Counts each token of a prompt once: what a preemption threw away is computed again, and only that is counted."""
    group, end = work.group, work.sequence.num_computed
    before = max(0, end - work.num_tokens - group.cached_tokens)
    after = max(0, end - group.cached_tokens)
    if before < group.computed_tokens:
        group.prefill_seconds *= before / group.computed_tokens
    group.prefill_seconds += seconds * (after - before) / work.num_tokens
    group.computed_tokens = after
