"""Requests that wait for cells: whose turn it is, as scheduler.py decides, and what is kept of their prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from engine.core import Priority
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Found, Keeper
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.scheduler import Candidate, next_admission, passed_over, rank

# How many may overtake the next request because more of their prompt is kept, and how often.
LOOKAHEAD = 4
# A disk is waited for at least this long, and as long as reading the text again would take.
DISK_PATIENCE_SECONDS = 2.0


# Whether a waiting group would begin now, with this many tokens of it kept.
Begins = Callable[[SequenceGroup, int], bool]


def has_precedence(group: SequenceGroup) -> bool:
    """Whether a person waits for it, or it has begun before."""
    return group.is_watched or group.status is SequenceStatus.PREEMPTED


class Queueing:
    """Looks through the waiting groups, and pins what is kept of those that may be next; part of the step loop.

    `awaits_disk`: at the last look, a group was passed over because what is kept of it was still being read.
    """

    def __init__(
        self, groups: Groups, keeper: Keeper, keeps: bool, clock: Callable[[], float], profile: PrefillProfile
    ) -> None:
        """Prepares; where nothing `keeps` KV nothing is looked for. `profile`: how long reading a prompt takes."""
        self._groups, self._keeper, self._keeps, self._clock = groups, keeper, keeps, clock
        self._profile = profile
        self._served_at: dict[Priority, float] = {}
        self.awaits_disk = False

    def rank(self, group: SequenceGroup) -> int:
        """How urgent a group is by now; 0 is the most urgent."""
        waited = group.waited_seconds
        if group.status is not SequenceStatus.RUNNING:
            waited += self.starved_seconds(group)
        return rank(group.request.priority, waited)

    def starved_seconds(self, group: SequenceGroup) -> float:
        """How long a waiting group has waited behind requests of other kinds.

        Of a script's hundred questions nearly all wait for long, and none of them for a person's question.
        """
        served_at = self._served_at.get(group.request.priority, group.waiting_since)
        return self._clock() - max(group.waiting_since, served_at)

    def note_served(self, priorities: Iterable[Priority]) -> None:
        """Notes that something was computed for requests of these priorities."""
        self._served_at |= dict.fromkeys(priorities, self._clock())

    def next(self, begins: Begins = lambda group, cached_tokens: True) -> SequenceGroup | None:
        """Whose turn it is, among groups whose kept KV has been read from disk.

        `begins` says whether a group would begin now, with that much of it kept, or should wait for what others read. A
        group that waits is overtaken by those that begin; when that has happened often enough, only by users'
        questions and by groups that have begun before.
        """
        groups = {group.request_id: group for group in self._near()}
        candidates = [self._candidate(group, asks_keeper=True) for group in groups.values()]
        self.awaits_disk = False
        while (chosen := next_admission(candidates, LOOKAHEAD)) is not None:
            group = groups[chosen.request_id]
            if not begins(group, chosen.cached_tokens):
                candidates.remove(chosen)
                if chosen.times_passed >= LOOKAHEAD:
                    candidates = [one for one in candidates if has_precedence(groups[one.request_id])]
            elif self.find(group):
                return group
            else:
                self.awaits_disk = True
                candidates.remove(chosen)
        return None

    @property
    def next_up(self) -> list[SequenceGroup]:
        """Groups that may be next and have not begun."""
        return [group for group in self._near() if group.status is SequenceStatus.WAITING]

    def note_passed(self, chosen: SequenceGroup) -> None:
        """Remembers which groups were overtaken."""
        earlier = [group for group in self._groups.waiting if group.arrival < chosen.arrival]
        candidates = [self._candidate(group, asks_keeper=False) for group in earlier]
        passed = passed_over(candidates, self._candidate(chosen, asks_keeper=False))
        for group in earlier:
            group.times_passed += group.request_id in passed

    def find(self, group: SequenceGroup) -> bool:
        """Looks for what is kept of a group, and pins it; returns whether all of that can be given to it now."""
        if not self._keeps:
            return True
        segments = group.request.segments
        # More is kept than was found, or some of that was removed.
        if group.found is not None and self._keeper.peek(segments) != group.found.num_tokens:
            self._unpin(group)
        if group.found is None:
            group.found = self._keeper.find(segments)
        if self._keeper.is_ready(group.found):
            group.awaits_disk_since = None
            return True
        if self._waits_on(group, group.found):
            return False
        # A disk that hangs may do so for minutes. What has come by now is of use.
        group.found = self._keeper.read_by_now(group.found)
        return True

    def _waits_on(self, group: SequenceGroup, found: Found) -> bool:
        """Whether a group has waited less than computing all that was found would take."""
        now = self._clock()
        if group.awaits_disk_since is None:
            group.awaits_disk_since = now
        # What was saved of an answer continues what was found of its prompt, and is lost with that.
        lost_tokens = group.num_tokens if group.is_swapped else found.num_tokens
        patience_s = max(DISK_PATIENCE_SECONDS, self._profile.seconds(0, lost_tokens))
        return now - group.awaits_disk_since < patience_s

    def is_ready(self, group: SequenceGroup) -> bool:
        """Whether nothing that was found of a group is still being read."""
        return group.found is None or self._keeper.is_ready(group.found)

    def let_go(self, group: SequenceGroup) -> bool:
        """Ends the pins on what is kept of a group, and its wait for that; False where there were none."""
        group.awaits_disk_since = None
        return self._unpin(group)

    def _unpin(self, group: SequenceGroup) -> bool:
        if group.found is None:
            return False
        self._keeper.let_go(group.found)
        group.found = None
        return True

    def let_go_of_all(self, but: SequenceGroup | None = None) -> bool:
        """Ends the pins of all waiting groups; False where there were none."""
        pinned = [group for group in self._groups.waiting if group is not but]
        return sum(self.let_go(group) for group in pinned) > 0

    def _near(self) -> list[SequenceGroup]:
        """The first groups of each priority, and all preempted ones: no other can be next."""
        near, counts = list[SequenceGroup](), dict.fromkeys(get_args(Priority), 0)
        for group in self._groups.waiting:
            has_begun = group.status is SequenceStatus.PREEMPTED
            counts[group.request.priority] += 1
            if counts[group.request.priority] <= LOOKAHEAD + 1 or has_begun:
                near.append(group)
        return near

    def _candidate(self, group: SequenceGroup, asks_keeper: bool) -> Candidate:
        cached = group.found.num_tokens if group.found else 0
        if asks_keeper and group.found is None:
            cached = self._keeper.peek(group.request.segments)
        is_preempted = group.status is SequenceStatus.PREEMPTED
        compute = group.num_tokens - cached
        rank_now = self.rank(group)
        return Candidate(group.request_id, group.arrival, rank_now, is_preempted, cached, compute, group.times_passed)
