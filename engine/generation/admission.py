"""Who gets cells and who gives them up: carries out what scheduler.py decides.

When cells run out, kept KV leaves first, then the latest arrival of the least urgent: all its cells at once, saved or
to be read again, whatever costs less. It comes back before anybody new who is not more urgent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from engine.core import Priority
from engine.errors import NoCells
from engine.generation.cells import Cells
from engine.generation.counters import Tally
from engine.generation.keeping import Found, Keeper
from engine.generation.preemption import choose
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.residence import Residence
from engine.generation.scheduler import (
    Candidate,
    Resident,
    is_read_soon,
    next_admission,
    passed_over,
    rank,
    victim,
    watermark,
)
from engine.generation.sequence import Groups, SequenceGroup, SequenceStatus

# While nobody comes or goes, there is room only where kept KV was unpinned, or where waiting made more urgent.
_STEPS_BETWEEN_TRIES = 16
# How many may overtake the one whose turn it is because more of their prompt is kept, and how often.
LOOKAHEAD = 4


class Admission:
    """Moves groups between waiting and running; part of the step loop.

    `lacks_cells`: somebody waits for nothing but cells.
    """

    def __init__(
        self,
        groups: Groups,
        cells: Cells,
        keeper: Keeper,
        residence: Residence,
        profile: PrefillProfile,
        tally: Tally,
        clock: Callable[[], float],
        max_running: int,
        step_tokens: int,
        swap_budget_bytes: int,
    ) -> None:
        self._groups, self._cells, self._keeper, self._residence = groups, cells, keeper, residence
        self._profile, self._tally, self._clock = profile, tally, clock
        self._max_running, self._swap_budget_bytes = max_running, swap_budget_bytes
        self._step_tokens = step_tokens
        self.lacks_cells = self._is_held_back = False
        self._num_steps_to_skip = 0

    def make_room(self, max_tokens: int) -> SequenceGroup | None:
        """Frees cells for the next batch of at most `max_tokens`.

        Kept KV leaves for all of it; somebody else only for the tokens of those who are writing, or for the first
        token of a prompt where nobody is.

        Returns:
            The only group that is left, where even that has not got what it needs.
        """
        if self._cells.num_free >= max_tokens:
            return None
        self._free_kept(min(max_tokens, sum(self._due()) + len(self._groups.closing)))
        if not self._cells.num_free:
            self.drop_closing()
        while self._cells.num_free < (needed := self._num_needed()):
            if self.drop_closing() or self._let_go_of_waiting():
                self._free_kept(needed)
            elif len(self._groups.running) > 1:
                self._preempt_one(self._groups.running)
                self._free_kept(self._num_needed())
            else:
                return self._groups.running[0]
        return None

    def admit(self) -> SequenceGroup | None:
        """Gives cells to those who wait, as long as there are enough.

        Returns:
            A group that will not fit even though nobody else runs.
        """
        if self._num_steps_to_skip and self._groups.running:
            self._num_steps_to_skip -= 1
            return None
        while self._groups.waiting and not (self._is_held_back and self._groups.running):
            chosen = self._next()
            if chosen is None or (self._groups.running and not self._is_time_for(chosen)):
                break
            if not self._has_room_for(chosen):
                self.lacks_cells = True
                self._num_steps_to_skip = _STEPS_BETWEEN_TRIES
                return None if self._groups.running else chosen
            self._note_passed(chosen)
            self._settle(chosen)
        self.lacks_cells = False
        return None

    def look_again(self) -> None:
        """Somebody came or went: whoever found no room may find some now."""
        self._num_steps_to_skip = 0

    def hold_back(self) -> None:
        """Cells ran out although we counted enough: nobody comes in before somebody has ended."""
        self._is_held_back = True

    def note_end(self) -> None:
        """Somebody has ended."""
        self._is_held_back = False
        self.look_again()

    def rank(self, group: SequenceGroup) -> int:
        waited = group.waited_seconds
        if group.status is not SequenceStatus.RUNNING:
            waited += self._clock() - group.waiting_since
        return rank(group.request.priority, waited)

    def preempt(self, group: SequenceGroup) -> None:
        """Takes all cells from a running group; it waits to go on where it was."""
        kind = choose(
            self._residence.parts(group),
            self._swap_budget_bytes - self._residence.saved_bytes,
            self._residence.rates,
            self._profile,
        )
        is_saved = kind == "swap" and self._residence.save(group)
        self._tally.preempted_by_swap += is_saved
        self._tally.preempted_by_recompute += not is_saved
        self._residence.leave(group)
        self.let_go(group)
        self._groups.remove(group)
        self._groups.waiting.insert(0, group)
        self.look_again()
        group.status, group.waiting_since = SequenceStatus.PREEMPTED, self._clock()

    def let_go(self, group: SequenceGroup) -> bool:
        """Ends the pins on what is kept of a request; False where there were none."""
        if group.found is None:
            return False
        self._keeper.let_go(group.found)
        group.found = None
        return True

    def drop_closing(self) -> bool:
        """Gives up keeping the last tokens of answers that have ended."""
        for group in self._groups.closing:
            self._residence.forget(group)
        dropped = len(self._groups.closing)
        self._groups.closing.clear()
        return dropped > 0

    def _due(self) -> list[int]:
        return [num_tokens for group in self._groups.running for _, num_tokens in group.due()]

    def _num_needed(self) -> int:
        due = self._due()
        return max(due.count(1), 1) if due else 0

    def _next(self) -> SequenceGroup | None:
        """Whose turn it is, of those whose kept KV has been read from disk."""
        groups = {group.request_id: group for group in self._groups.waiting}
        candidates = self._candidates()
        while (chosen := next_admission(candidates, LOOKAHEAD)) is not None:
            if self._is_ready(groups[chosen.request_id]):
                return groups[chosen.request_id]
            candidates.remove(chosen)
        return None

    def _candidates(self) -> list[Candidate]:
        """The first ones of each priority, and everybody preempted: nobody else can be next."""
        candidates, counts = [], dict.fromkeys(get_args(Priority), 0)
        asks_keeper = len(self._groups.waiting) > 1
        for group in self._groups.waiting:
            counts[group.request.priority] += 1
            if counts[group.request.priority] <= LOOKAHEAD + 1 or group.status is SequenceStatus.PREEMPTED:
                candidates.append(self._candidate(group, asks_keeper))
        return candidates

    def _candidate(self, group: SequenceGroup, asks_keeper: bool) -> Candidate:
        cached = group.found.num_tokens if group.found else 0
        if asks_keeper and group.found is None:
            cached = self._keeper.peek(group.request.segments)
        is_preempted = group.status is SequenceStatus.PREEMPTED
        compute = group.num_tokens - cached
        rank_now = self.rank(group)
        return Candidate(group.request_id, group.arrival, rank_now, is_preempted, cached, compute, group.times_passed)

    def _note_passed(self, chosen: SequenceGroup) -> None:
        candidates = [self._candidate(group, asks_keeper=False) for group in self._groups.waiting]
        passed = passed_over(candidates, next(c for c in candidates if c.request_id == chosen.request_id))
        for group in self._groups.waiting:
            group.times_passed += group.request_id in passed

    def _is_ready(self, group: SequenceGroup) -> bool:
        if not self._residence.can_share:
            return True
        segments = group.request.segments
        if group.found is not None and self._keeper.peek(segments) > group.found.num_tokens:
            self.let_go(group)
        if group.found is None:
            group.found = self._keeper.find(segments)
        return self._keeper.is_ready(group.found)

    def _is_time_for(self, group: SequenceGroup) -> bool:
        """Whether a group would be read soon, and there are not too many already."""
        if self._num_sequences() + group.num_sequences > self._max_running:
            return False
        rank_of_group = self.rank(group)
        num_unread = sum(other.num_unread for other in self._groups.running if self.rank(other) <= rank_of_group)
        num_to_read = 0 if group.is_swapped else group.num_tokens - (group.found.num_tokens if group.found else 0)
        return is_read_soon(num_to_read, num_unread, self._step_tokens)

    def _has_room_for(self, group: SequenceGroup) -> bool:
        """Whether a group fits now, after everything left that may leave for it: nothing does in vain."""
        while (lack := self._cells_for(group) - self._num_available()) > 0 or self._lacks_slots(group):
            less_urgent = [other for other in self._groups.running if self.rank(other) > self.rank(group)]
            if self._cells_for(group) > self._num_reachable(less_urgent):
                return False
            if self._keeper.free_cells(max(1, lack)):
                # What left the cells may have been what was found for this one.
                self.let_go(group)
                self._is_ready(group)
            elif not (self.drop_closing() or self._let_go_of_waiting(group)):
                if not less_urgent:
                    return False
                self._preempt_one(less_urgent)
        return True

    def _num_reachable(self, less_urgent: list[SequenceGroup]) -> int:
        """At most so many cells are available when these and all that is kept have left."""
        staying = [group for group in self._groups.running if group not in less_urgent]
        held = [sequence.held for group in staying for sequence in group.sequences if sequence.held is not None]
        return self._cells.num_cells - self._cells.num_distinct(held) - sum(group.num_unread for group in staying)

    def _lacks_slots(self, group: SequenceGroup) -> bool:
        """One more than its own is for what is loaded by itself."""
        return self._cells.num_free_slots < group.num_sequences + 1

    def _num_sequences(self) -> int:
        return sum(group.num_sequences for group in self._groups.running)

    def _cells_for(self, group: SequenceGroup) -> int:
        found = group.found or Found()
        needed = group.num_tokens - found.num_tokens + found.num_cells + group.num_sequences
        if not self._groups.running:
            return min(needed, self._cells.num_cells)
        return needed + watermark(self._cells.num_cells, self._num_sequences())

    def _num_available(self) -> int:
        """Free cells that are not promised to those who still read."""
        return self._cells.num_free - sum(group.num_unread for group in self._groups.running)

    def _settle(self, group: SequenceGroup) -> None:
        group.cached_tokens = max(group.cached_tokens, self._residence.settle(group))
        self._groups.waiting.remove(group)
        self._groups.running.append(group)
        self._groups.running.sort(key=lambda each: each.arrival)
        now = self._clock()
        group.waited_seconds += now - group.waiting_since
        group.status = SequenceStatus.RUNNING
        if not group.has_read_prompt:
            group.read_since = now

    def _free_kept(self, num_cells: int) -> None:
        while self._cells.num_free < num_cells:
            if not self._keeper.free_cells(num_cells - self._cells.num_free):
                return

    def _let_go_of_waiting(self, but: SequenceGroup | None = None) -> bool:
        pinned = [group for group in self._groups.waiting if group is not but and group.found is not None]
        return sum(self.let_go(group) for group in pinned) > 0

    def _preempt_one(self, groups: list[SequenceGroup]) -> None:
        chosen = victim([Resident(group.request_id, group.arrival, self.rank(group)) for group in groups])
        if chosen is None:
            raise NoCells("The context is full.", "Start a new chat or raise the context length in the settings.")
        self.preempt(next(group for group in groups if group.request_id == chosen.request_id))
