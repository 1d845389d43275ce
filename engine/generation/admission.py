"""Admission: gives requests KV cells and preempts them, as scheduler.py decides.

When cells run out, kept KV is evicted first, then the latest arrival among the least urgent requests is preempted: it
leaves all its cells at once, swapped out or to be recomputed, whichever costs less. It resumes before any new request
that is not more urgent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.config import MIB
from engine.errors import NoCells
from engine.generation.answers_kept import keep_written
from engine.generation.cells import Cells
from engine.generation.counters import Tally
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Found, Keeper
from engine.generation.needs import cells_now
from engine.generation.preemption import DISK_RATES, Part, choose
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.queueing import LOOKAHEAD, Queueing, has_precedence
from engine.generation.residence import OverDisk, Residence
from engine.generation.scheduler import Resident, is_read_soon, victim, watermark
from engine.generation.shared_prefill import shared_segments_tokens
from engine.generation.swap_room import ROOMY, SwapRoom
from engine.memory.gangs import QueueSharing

# A request waits for another prompt to be read only if that saves at least this many tokens.
MIN_SAVED_TOKENS = 32
# KV that is saved to disk in pieces passes through at least this much memory at a time.
LEAST_PIECE_BYTES = 16 * MIB
# While no request comes or goes, room appears only when kept KV is unpinned or waiting has raised an urgency.
_STEPS_BETWEEN_TRIES = 16


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Bounds on sequences, on the tokens of a step, and on the memory for swapped KV.

    At most `max_running` sequences are written side by side, and a step computes at most `step_tokens` tokens. Swapped
    KV takes no more memory than `swap_budget_bytes` in all, nor than `swap_room` has at that time. `pays_by_pass`: a
    pass takes long however few tokens it computes, for instance because layers are streamed.
    """

    max_running: int
    step_tokens: int
    swap_budget_bytes: int
    swap_room: Callable[[], SwapRoom] = lambda: ROOMY
    pays_by_pass: bool = False


class Admission:
    """Moves groups between waiting and running; part of the step loop.

    `lacks_cells`: a request waits for nothing but cells. `most_cells` is the number of cells of a larger context that
    may replace this one.
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
        limits: AdmissionLimits,
    ) -> None:
        """Starts with nothing held back; `residence` moves KV out of the cells and back."""
        self._groups, self._cells, self._keeper, self._residence = groups, cells, keeper, residence
        self._profile, self._tally, self._clock = profile, tally, clock
        self._limits, self.most_cells = limits, cells.num_cells
        self._queue = Queueing(groups, keeper, residence.keeps, clock, profile)
        self._held: list[SequenceGroup] = []
        self.lacks_cells = self._is_held_back = False
        self._sharing: QueueSharing | None = None
        self._num_steps_to_skip = 0

    def make_room(self, max_tokens: int) -> SequenceGroup | None:
        """Frees cells for the next batch of at most `max_tokens`, and the sequence numbers that will be needed.

        Kept KV is evicted for all of these tokens; a running group is preempted only for the next tokens of answers
        that are being written, or for the first token of a prompt if none is.

        Returns:
            The only remaining group, if not even that can get what it needs.
        """
        self._free_slots()
        if self._cells.num_free >= max_tokens:
            return None
        wanted = min(max_tokens, sum(self._due()) + len(self._groups.closing))
        self._free_kept(wanted)
        if not self._cells.num_free and self.drop_closing():
            self._free_kept(wanted)
        while self._cells.num_free < (needed := self._num_needed()):
            if self.drop_closing() or self._queue.let_go_of_all():
                self._free_kept(needed)
            elif len(self._groups.running) > 1:
                self._preempt_one(self._groups.running)
                self._free_kept(self._num_needed())
            else:
                return self._groups.running[0]
        return None

    def admit(self) -> SequenceGroup | None:
        """Gives cells to waiting groups, as long as there are enough.

        Returns:
            A group that does not fit although no other runs, or that needs more cells than this context has.
        """
        if self._num_steps_to_skip and self._groups.running:
            self._num_steps_to_skip -= 1
            return None
        while self._groups.waiting and not (self._is_held_back and self._groups.running):
            self._held.clear()
            chosen = self._queue.next(self._begins)
            if chosen is None:
                self._pause()
                break
            if self._cells.num_cells < min(cells_now(chosen), self.most_cells) and not chosen.makes_do:
                return chosen
            if self._groups.running and not self._is_time_for(chosen):
                break
            if not self._leaves_room(chosen):
                self._pause()
                break
            if not self._has_room_for(chosen):
                self.lacks_cells = True
                self._pause()
                return None if self._groups.running else chosen
            if self._queue.is_ready(chosen):
                self._queue.note_passed(chosen)
                self._settle(chosen)
        self.lacks_cells = False
        return None

    def share_steps(self, sharing: QueueSharing | None) -> None:
        """Lets scripts' requests begin when that minimises the mean wait of all; None: as soon as they have cells.

        An answer that is nearly done should not wait for the long prompt of another, unless so many requests wait that
        sharing steps saves them more.
        """
        if sharing != self._sharing:
            self._sharing = sharing
            self.look_again()

    def look_again(self) -> None:
        """Ends a pause in admission, because a request came or went and groups may find room now."""
        self._num_steps_to_skip = 0

    def _pause(self) -> None:
        """Pauses admission for some steps, unless KV is being read from disk, after which a group may be admitted."""
        self._num_steps_to_skip = 0 if self._queue.awaits_disk else _STEPS_BETWEEN_TRIES

    def hold_back(self) -> None:
        """Admits no group until another has ended, because cells ran out although enough were counted."""
        self._is_held_back = True

    def note_end(self) -> None:
        """Allows admission again, because a group has ended."""
        self._is_held_back = False
        self.look_again()

    def rank(self, group: SequenceGroup) -> int:
        """Returns how urgent a group is now; 0 is the most urgent."""
        return self._queue.rank(group)

    @property
    def next_up(self) -> list[SequenceGroup]:
        """Groups that have not begun and may be next, by urgency and arrival, however much of them is kept."""
        return sorted(self._queue.next_up, key=lambda group: (self.rank(group), group.arrival))

    def being_read(self, group: SequenceGroup) -> list[SequenceGroup]:
        """Returns the groups whose prompts are being read and that are at least as urgent as a waiting one."""
        most = self.rank(group)
        return [other for other in self._groups.being_read if self.rank(other) <= most]

    def note_served(self, groups: Iterable[SequenceGroup]) -> None:
        """Notes that something was computed for these groups."""
        self._queue.note_served({group.request.priority for group in groups})

    def preempt(self, group: SequenceGroup) -> None:
        """Takes all cells from a running group, which waits to resume where it was."""
        self._leave(group, self._is_saved(group))

    def _is_saved(self, group: SequenceGroup) -> bool:
        """Saves the KV that only this group holds if that pays and there is room; returns whether it did."""
        residence, room = self._residence, self._limits.swap_room()
        parts, left_bytes = residence.parts(group), self._limits.swap_budget_bytes - residence.saved_bytes
        if choose(parts, min(left_bytes, room.ram_bytes), residence.rates, self._profile) == "swap":
            return residence.save(group)
        return self._is_saved_on_disk(group, None, room.passing_bytes, room.disk_folder)

    def _is_saved_on_disk(
        self, group: SequenceGroup, kept: int | None, passing_bytes: int, folder: Path | None
    ) -> bool:
        """Does the same in files; KV that exceeds `passing_bytes` of memory passes through it in pieces."""
        parts = self._residence.parts(group, kept)
        num_bytes = sum(part.num_bytes for part in parts)
        if folder is None or self._least_bytes_at_once(num_bytes) > passing_bytes:
            return False
        if not self._is_worth_writing(parts):
            return False
        # Each piece is a file that stays open.
        return self._residence.save(group, kept, OverDisk(folder, min(num_bytes, passing_bytes)))

    def _is_worth_writing(self, parts: Sequence[Part]) -> bool:
        """Returns whether files take less time than recomputing, however much memory the bytes pass through."""
        return choose(parts, sum(part.num_bytes for part in parts), DISK_RATES, self._profile) == "swap"

    def _least_bytes_at_once(self, num_bytes: int) -> int:
        return min(num_bytes, LEAST_PIECE_BYTES) if self._residence.can_cut else num_bytes

    def take_back(self, group: SequenceGroup) -> None:
        """Takes all cells from a group whose KV in them was lost; it is recomputed."""
        self._leave(group, is_saved=False)

    def set_aside(self, room_bytes: int, disk_folder: Path | None = None) -> None:
        """Takes all cells from all groups before the context is closed; they resume in another one where they were.

        Kept KV has left the cells already and is found again. KV that does not fit into `room_bytes` of memory next to
        what was saved earlier moves that to disk; KV that does not fit into this memory at all is saved to disk in
        pieces. If neither is possible, it is recomputed.
        """
        # Kept KV has left the cells, and anything restored into them now would be lost with the context.
        self._forget_closing()
        self._queue.let_go_of_all()
        for group in reversed(list(self._groups.running)):
            self._queue.find(group)
            kept = group.found.num_tokens if group.found is not None else 0
            is_saved = self._is_set_aside(group, kept, room_bytes, disk_folder)
            self._leave(group, is_saved, keeps_found=True)
            # The wait for its kept KV begins only in the next context.
            group.awaits_disk_since = None

    def _is_set_aside(self, group: SequenceGroup, kept: int, room_bytes: int, disk_folder: Path | None) -> bool:
        """Saves a group like `_is_saved`, but when no group may stay in the cells; returns whether it did."""
        parts = self._residence.parts(group, kept)
        needed_bytes = sum(part.num_bytes for part in parts)
        bytes_at_once = needed_bytes if needed_bytes <= room_bytes else self._least_bytes_at_once(needed_bytes)
        if disk_folder is not None and bytes_at_once <= room_bytes and self._is_worth_writing(parts):
            self._make_way(room_bytes - bytes_at_once, disk_folder)
        if self._residence.saved_bytes + needed_bytes <= room_bytes:
            return self._residence.save(group, kept)
        return self._is_saved_on_disk(group, kept, room_bytes - self._residence.saved_bytes, disk_folder)

    def _make_way(self, most_bytes: int, disk_folder: Path) -> None:
        """Moves saved KV of waiting groups to disk until it takes at most this much memory."""
        for group in self._groups.waiting:
            if self._residence.saved_bytes <= most_bytes:
                return
            self._residence.spill(group, disk_folder)

    def _leave(self, group: SequenceGroup, is_saved: bool, keeps_found: bool = False) -> None:
        self._tally.preempted_by_swap += is_saved
        self._tally.preempted_by_recompute += not is_saved
        self._residence.leave(group)
        if not keeps_found:
            self.let_go(group)
        self._groups.take(group)
        self._groups.waiting.insert(0, group)
        self.look_again()
        group.status, group.waiting_since = SequenceStatus.PREEMPTED, self._clock()

    def let_go(self, group: SequenceGroup) -> bool:
        """Unpins the kept KV of a request; returns False if none was pinned."""
        return self._queue.let_go(group)

    def drop_closing(self) -> bool:
        """Frees the cells of ended answers without waiting for their last tokens; all before those is kept.

        Returns False if there were none.
        """
        for group in self._groups.closing:
            # A request waits for these cells. A copy that stays in cells is evicted when they are needed.
            keep_written(self._keeper, group, group.lead, can_wait=False)
        return self._forget_closing()

    def _forget_closing(self) -> bool:
        closing = self._groups.closing[:]
        self._groups.closing.clear()
        for group in closing:
            self._residence.forget(group)
        return bool(closing)

    def _due(self) -> list[int]:
        return [num_tokens for group in self._groups.running for _, num_tokens in group.due()]

    def _num_needed(self) -> int:
        due = self._due()
        return max(due.count(1), 1) if due else 0

    def _is_time_for(self, group: SequenceGroup) -> bool:
        """Returns whether a group would be read soon and not too many equally urgent groups are running."""
        rank_of_group = self.rank(group)
        before = [other for other in self._groups.running if self.rank(other) <= rank_of_group]
        if _num_sequences(before) + group.num_sequences > self._limits.max_running:
            # Only the end of a group changes that.
            self._pause()
            return False
        num_unread = sum(other.num_unread for other in before)
        num_to_read = 0 if group.is_swapped else group.num_tokens - self._num_there(group)
        return is_read_soon(num_to_read, num_unread, self._limits.step_tokens)

    def _begins(self, group: SequenceGroup, cached_tokens: int) -> bool:
        """Returns whether a group begins although others run, as users' requests and preempted groups do at once.

        A request of a script waits for other scripts only, since users might keep it waiting forever. A group that has
        not begun waits for prompts that are being read anyway and share its beginning.
        """
        is_new = group.status is SequenceStatus.WAITING
        if is_new and (self._is_being_kept(group) or self._is_being_read(group, cached_tokens)):
            self._held.append(group)
            return False
        scripts = [other for other in self._groups.running if not other.is_watched]
        if self._sharing is None or not scripts or has_precedence(group):
            return True
        there = max(cached_tokens, self._num_there(group))
        read_seconds = self._profile.seconds(there, group.num_tokens - there)
        num_known = len(self._groups.running) + len(self._groups.waiting)
        return len(scripts) < self._sharing.best(read_seconds, num_known)

    def _is_being_kept(self, group: SequenceGroup) -> bool:
        """Returns whether the answer that it continues needs one more pass before it is kept and can be continued.

        While prompts are being read, that pass might be many passes away.
        """
        is_soon = not self._groups.being_read and group.times_passed < LOOKAHEAD
        return is_soon and self._keeper.keeps_whole and self._groups.before(group) is not None

    def _is_being_read(self, group: SequenceGroup, cached_tokens: int) -> bool:
        """Returns whether more of its prompt will be kept once another, which is first or nearly done, was read."""
        keeper = self._keeper
        if not keeper.has_room or keeper.keeps_whole or group.times_passed >= LOOKAHEAD:
            return False
        there, least = max(cached_tokens, self._num_there(group)), MIN_SAVED_TOKENS
        if self._limits.pays_by_pass:
            # The passes that finish the prompts being read have this much room left.
            least = max(least, -sum(other.num_unread for other in self._groups.running) % self._limits.step_tokens)
        segments = group.request.segments
        for other in self.being_read(group):
            saved = shared_segments_tokens(segments, other.request.segments) - there
            comes_first = (self.rank(other), other.arrival) < (self.rank(group), group.arrival)
            # Both together are done earlier if waiting costs this one less than it saves.
            is_nearly_there = other.num_unread - saved < saved
            # More may be kept by now than was found.
            if saved >= least and (comes_first or is_nearly_there) and keeper.peek(segments) <= there + saved - least:
                return True
        return False

    def _leaves_room(self, group: SequenceGroup) -> bool:
        """Returns whether the groups it overtakes, which wait for a prompt being read, could begin alongside it."""
        held = [other for other in self._held if self.rank(other) <= self.rank(group)]
        if not held:
            return True
        num_sequences = _num_sequences([*self._groups.running, *held, group])
        num_cells = sum(map(self._cells_for, [*held, group]))
        return num_sequences <= self._limits.max_running and num_cells <= self._num_reachable([])

    def _has_room_for(self, group: SequenceGroup) -> bool:
        """Returns whether a group fits, after evicting and preempting what may leave for it, if that is enough."""
        while (lack := self._cells_for(group) - self._num_available()) > 0 or self._lacks_place(group):
            less_urgent = [other for other in self._groups.running if self.rank(other) > self.rank(group)]
            if self._cells_for(group) > self._num_reachable(less_urgent):
                return False
            if self._lacks_turn(group) and less_urgent:
                self._preempt_one(less_urgent)
            elif self._keeper.free_cells(lack) if lack > 0 else self._keeper.free_slots(1):
                # The evicted KV may have been what was found for this group, and may be on disk now.
                self.let_go(group)
                self._queue.find(group)
            elif not (self.drop_closing() or self._queue.let_go_of_all(but=group)):
                if not less_urgent:
                    return False
                self._preempt_one(less_urgent)
        return True

    def _num_reachable(self, less_urgent: list[SequenceGroup]) -> int:
        """Returns the most cells that are available once these groups and all kept KV have left."""
        staying = [group for group in self._groups.running if group not in less_urgent]
        held = [sequence.held for group in staying for sequence in group.sequences if sequence.held is not None]
        return self._cells.num_cells - self._cells.num_distinct(held) - sum(group.num_unread for group in staying)

    def _lacks_place(self, group: SequenceGroup) -> bool:
        """Returns whether turns or sequence numbers are short; besides its own, it needs one to load KV with."""
        return self._cells.num_free_slots - self._num_slots_due() < group.num_sequences + 1 or self._lacks_turn(group)

    def _num_slots_due(self) -> int:
        return sum(group.num_slots_due for group in self._groups.running)

    def _lacks_turn(self, group: SequenceGroup) -> bool:
        """Returns whether too many sequences would run with it, unless less urgent groups leave."""
        return _num_sequences(self._groups.running) + group.num_sequences > self._limits.max_running

    def _cells_for(self, group: SequenceGroup) -> int:
        found = group.found or Found()
        needed = group.num_tokens - self._num_there(group) + found.num_cells + group.num_sequences
        # Saved KV is loaded whole, even if its beginning was found; it shares those cells only afterwards.
        needed += sum(
            found.num_tokens - part.start for part in group.lead.saved if part.start < found.num_tokens < part.end
        )
        if not self._groups.running:
            return min(needed, self._cells.num_cells)
        return needed + watermark(self._cells.num_cells, _num_sequences(self._groups.running))

    def _num_there(self, group: SequenceGroup) -> int:
        """Returns how many tokens need no computing, because they are kept or in cells of the previous answer."""
        before = self._groups.before(group)
        return max(group.found.num_tokens if group.found else 0, before.num_computed if before else 0)

    def _num_available(self) -> int:
        """Returns how many free cells are not promised to groups that are still reading."""
        return self._cells.num_free - sum(group.num_unread for group in self._groups.running)

    def _settle(self, group: SequenceGroup) -> None:
        # Its kept KV may take another sequence number while it is loaded.
        self._cells.num_promised_slots = self._num_slots_due() + group.num_sequences + 1
        group.cached_tokens = max(group.cached_tokens, self._residence.settle(group, self._groups.before(group)))
        self._hold_again(group)
        self.let_go(group)
        self._groups.waiting.remove(group)
        self._groups.running.append(group)
        self._groups.running.sort(key=lambda each: each.arrival)
        now = self._clock()
        group.awaits_disk_since = None
        group.waited_seconds += self._queue.starved_seconds(group)
        group.status = SequenceStatus.RUNNING
        if not group.has_read_prompt:
            # The time it read before a preemption counts; the wait since then does not.
            group.read_since = now - group.prefill_seconds

    def _hold_again(self, group: SequenceGroup) -> None:
        """Keeps the prompt in cells again: it may have left them when its answer was preempted."""
        segments = group.request.segments
        is_there = group.has_read_prompt and sum(len(segment.tokens) for segment in segments) <= group.lead.num_computed
        if is_there and group.lead.held is not None:
            self._keeper.hold(segments, group.lead.held)

    def _free_slots(self) -> None:
        """Frees sequence numbers that kept KV may have taken and that an admitted group is about to need."""
        while self._cells.num_free_slots < self._num_slots_due() + 1:
            if self._keeper.free_slots(1) or self.drop_closing() or self._queue.let_go_of_all():
                continue
            if len(self._groups.running) <= 1:
                break
            self._preempt_one(self._groups.running)
        self._cells.num_promised_slots = self._num_slots_due() + 1

    def _free_kept(self, num_cells: int) -> None:
        while self._cells.num_free < num_cells:
            if not self._keeper.free_cells(num_cells - self._cells.num_free):
                return

    def _preempt_one(self, groups: list[SequenceGroup]) -> None:
        chosen = victim([Resident(group.request_id, group.arrival, self.rank(group)) for group in groups])
        if chosen is None:
            raise NoCells("The context is full.", "Start a new chat or raise the context length in the settings.")
        self.preempt(next(group for group in groups if group.request_id == chosen.request_id))


def _num_sequences(groups: Sequence[SequenceGroup]) -> int:
    return sum(group.num_sequences for group in groups)
