"""Requests that wait for cells: finds whose turn it is by scheduler.py, and pins the kept KV of their prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from engine.core import Priority
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Found, Keeper
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.scheduler import Candidate, next_admission, passed_over, rank

# How many requests may overtake the next one because more of their prompt is kept, and how often.
LOOKAHEAD = 4
# How long a request waits for a disk: at least this long, and as long as computing the text again would take.
DISK_PATIENCE_SECONDS = 2.0


# Whether a waiting group would begin now, if this many of its tokens are kept.
Begins = Callable[[SequenceGroup, int], bool]


def has_precedence(group: SequenceGroup) -> bool:
    """Returns whether a person waits for a group, or it was preempted."""
    return group.is_watched or group.status is SequenceStatus.PREEMPTED


class Queueing:
    """Looks through the waiting groups, and pins the kept KV of those that may be next; part of the step loop.

    `awaits_disk`: in the last `next`, a group was passed over because its kept KV was still being read.
    """

    def __init__(
        self, groups: Groups, keeper: Keeper, keeps: bool, clock: Callable[[], float], profile: PrefillProfile
    ) -> None:
        """Unless it `keeps` KV, none is looked for. `profile` tells how long reading a prompt takes."""
        self._groups, self._keeper, self._keeps, self._clock = groups, keeper, keeps, clock
        self._profile = profile
        self._served_at: dict[Priority, float] = {}
        self.awaits_disk = False

    def rank(self, group: SequenceGroup) -> int:
        """Returns the present rank of a group; 0 is the most urgent."""
        waited = group.waited_seconds
        if group.status is not SequenceStatus.RUNNING:
            waited += self.starved_seconds(group)
        return rank(group.request.priority, waited)

    def starved_seconds(self, group: SequenceGroup) -> float:
        """Returns how long a waiting group has waited behind requests of other priorities.

        Waiting behind its own kind does not count: most of a script's hundred questions wait long, but for each other.
        """
        served_at = self._served_at.get(group.request.priority, group.waiting_since)
        return self._clock() - max(group.waiting_since, served_at)

    def note_served(self, priorities: Iterable[Priority]) -> None:
        """Notes that something was computed for requests of these priorities."""
        self._served_at |= dict.fromkeys(priorities, self._clock())

    def next(self, begins: Begins = lambda group, cached_tokens: True) -> SequenceGroup | None:
        """Returns the group whose turn it is, among those whose kept KV has been read from disk.

        `begins` says whether a group would begin now, with that much of it kept, or should wait for what others read. A
        group that waits is overtaken by those that begin; after it was overtaken often enough, only by users' questions
        and preempted groups.
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
        """The groups that may be next and have not begun."""
        return [group for group in self._near() if group.status is SequenceStatus.WAITING]

    def note_passed(self, chosen: SequenceGroup) -> None:
        """Remembers which groups were overtaken."""
        earlier = [group for group in self._groups.waiting if group.arrival < chosen.arrival]
        candidates = [self._candidate(group, asks_keeper=False) for group in earlier]
        passed = passed_over(candidates, self._candidate(chosen, asks_keeper=False))
        for group in earlier:
            group.times_passed += group.request_id in passed

    def find(self, group: SequenceGroup) -> bool:
        """Finds and pins the kept KV of a group; returns whether all of it can be given to the group now."""
        if not self._keeps:
            return True
        segments = group.request.segments
        # More is kept now than was found, or some of it was removed.
        if group.found is not None and self._keeper.peek(segments) != group.found.num_tokens:
            self._unpin(group)
        if group.found is None:
            group.found = self._keeper.find(segments)
        if self._keeper.is_ready(group.found):
            group.awaits_disk_since = None
            return True
        if self._waits_on(group, group.found):
            return False
        # A disk may hang for minutes. What has been read by now is used.
        group.found = self._keeper.read_by_now(group.found)
        return True

    def _waits_on(self, group: SequenceGroup, found: Found) -> bool:
        """Returns whether a group has waited less than computing all of the found KV would take."""
        now = self._clock()
        if group.awaits_disk_since is None:
            group.awaits_disk_since = now
        # The saved KV of an answer continues the found KV of its prompt, and is useless without that.
        lost_tokens = group.num_tokens if group.is_swapped else found.num_tokens
        patience_s = max(DISK_PATIENCE_SECONDS, self._profile.seconds(0, lost_tokens))
        return now - group.awaits_disk_since < patience_s

    def is_ready(self, group: SequenceGroup) -> bool:
        """Returns whether nothing that was found for a group is still being read."""
        return group.found is None or self._keeper.is_ready(group.found)

    def let_go(self, group: SequenceGroup) -> bool:
        """Unpins the kept KV of a group, and ends its wait for that; returns whether there were pins."""
        group.awaits_disk_since = None
        return self._unpin(group)

    def _unpin(self, group: SequenceGroup) -> bool:
        if group.found is None:
            return False
        self._keeper.let_go(group.found)
        group.found = None
        return True

    def let_go_of_all(self, but: SequenceGroup | None = None) -> bool:
        """Unpins the kept KV of all waiting groups; returns whether there were pins."""
        pinned = [group for group in self._groups.waiting if group is not but]
        return sum(self.let_go(group) for group in pinned) > 0

    def _near(self) -> list[SequenceGroup]:
        """Returns the first groups of each priority, and all preempted ones: no other can be next."""
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
