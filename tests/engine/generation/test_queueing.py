"""Tests for engine.generation.queueing."""

from __future__ import annotations

import pytest

from engine.generation.groups import SequenceGroup, SequenceStatus
from engine.generation.queueing import DISK_PATIENCE_SECONDS, LOOKAHEAD, Queueing
from engine.generation.scheduler import AGEING_SECONDS
from tests.helpers.loop_parts import Parts, prompt


def queue_of(parts: Parts, can_share: bool = True) -> Queueing:
    return Queueing(parts.groups, parts.keeper, can_share, parts.time, parts.profile)


def test_nobody_is_next_where_nobody_waits() -> None:
    assert queue_of(Parts()).next() is None


def test_the_first_is_next_and_what_is_kept_of_it_pinned() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    first = parts.waiting(prompt(1, 20, 10))
    parts.waiting(prompt(500, 10))
    assert queue_of(parts).next() is first
    assert first.found is not None
    assert first.found.num_tokens == 20
    assert parts.keeper.pins == [first.found]


def test_who_is_still_being_read_from_disk_is_passed_over_until_it_is_there() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    parts.keeper.free_cells(20)
    first, second = parts.waiting(prompt(1, 20, 10)), parts.waiting(prompt(500, 10))
    queue = queue_of(parts)
    assert queue.next() is second
    assert queue.awaits_disk
    parts.keeper.arrives()
    assert queue.next() is first
    assert not queue.awaits_disk


def test_where_all_are_being_read_nobody_is_next() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    parts.keeper.free_cells(20)
    parts.waiting(prompt(1, 20, 10))
    queue = queue_of(parts)
    assert queue.next() is None
    assert queue.awaits_disk


def half_on_disk() -> Parts:
    """Of a prompt of 40 tokens that are kept, the second half is on disk."""
    parts = Parts()
    parts.keep(*prompt(1, 20, 20))
    parts.keeper.free_cells(20)
    return parts


def test_a_disk_that_hangs_is_waited_for_for_a_while_and_what_came_before_is_used() -> None:
    parts = half_on_disk()
    group, queue = parts.waiting(prompt(1, 20, 20, 10)), queue_of(parts)
    assert queue.next() is None
    parts.time.now += DISK_PATIENCE_SECONDS - 0.5
    assert queue.next() is None
    parts.time.now += 1.0
    # However often it is looked at meanwhile.
    for _ in range(3):
        assert queue.next() is group
        assert group.found is not None
        assert group.found.num_tokens == 20
        assert parts.keeper.pins == [group.found]
    assert not queue.awaits_disk
    parts.keeper.arrives()
    assert queue.next() is group
    assert group.found.num_tokens == 40


# What was saved of an answer goes on behind what was kept of its prompt.
@pytest.mark.parametrize(("is_swapped", "lost_tokens"), [(False, 40), (True, 50)])
def test_a_disk_is_waited_for_as_long_as_reading_again_what_is_lost_would_take(
    is_swapped: bool, lost_tokens: int
) -> None:
    parts = half_on_disk()
    parts.profile.note(0, 50, 500.0)
    group, queue = parts.waiting(prompt(1, 20, 20, 10)), queue_of(parts)
    group.is_swapped = is_swapped
    assert queue.next() is None
    parts.time.now += 10.0 * lost_tokens - 5.0
    assert queue.next() is None
    parts.time.now += 10.0
    assert queue.next() is group


def test_whoever_let_go_of_what_was_found_waits_for_the_disk_anew() -> None:
    parts = half_on_disk()
    group, queue = parts.waiting(prompt(1, 20, 20, 10)), queue_of(parts)
    assert queue.next() is None
    queue.let_go_of_all()
    parts.time.now += DISK_PATIENCE_SECONDS
    assert queue.next() is None
    parts.time.now += DISK_PATIENCE_SECONDS
    assert queue.next() is group


def test_who_has_begun_without_the_disk_waits_for_it_another_time() -> None:
    parts = half_on_disk()
    group = parts.waiting(prompt(1, 20, 20, 10))
    parts.admission.admit()
    parts.time.now += DISK_PATIENCE_SECONDS
    parts.admission.admit()
    assert parts.groups.running == [group]
    assert (group.cached_tokens, group.awaits_disk_since) == (20, None)
    parts.check()


def test_what_was_kept_since_the_last_look_is_found_and_what_was_removed_is_not() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 20, 20, 5))
    queue = queue_of(parts)
    found = []
    for change in (lambda: None, lambda: parts.keep(*prompt(1, 20, 20)), lambda: parts.keeper.forget_all()):
        change()
        queue.find(group)
        assert group.found is not None
        found.append(group.found.num_tokens)
        assert parts.keeper.pins == [group.found]
    assert found == [0, 40, 0]


def test_however_many_wait_only_those_who_can_be_next_are_looked_for() -> None:
    parts = Parts()
    for number in range(300):
        parts.waiting(prompt(10 * number + 1, 10), priority=("interactive", "batch", "idle")[number % 3])
    queue_of(parts).next()
    # One more for the one that was chosen.
    assert parts.keeper.num_peeks <= 3 * (LOOKAHEAD + 1) + 1
    assert len(parts.keeper.pins) == 1


def test_a_preempted_one_is_next_wherever_it_stands() -> None:
    parts = Parts()
    groups = [parts.waiting(prompt(10 * number + 1, 10)) for number in range(20)]
    groups[15].status = SequenceStatus.PREEMPTED
    assert queue_of(parts).next() is groups[15]


def test_only_equals_that_came_before_are_passed_over() -> None:
    parts = Parts()
    first, script = parts.waiting(prompt(1, 10)), parts.waiting(prompt(20, 10), priority="batch")
    chosen, later = parts.waiting(prompt(40, 10)), parts.waiting(prompt(60, 10))
    queue_of(parts).note_passed(chosen)
    assert [group.times_passed for group in (first, script, chosen, later)] == [1, 0, 0, 0]


def test_waiting_counts_for_those_who_wait_and_having_waited_for_those_who_run() -> None:
    parts = Parts()
    queue, script, running = (
        queue_of(parts),
        parts.waiting(prompt(1, 10), priority="batch"),
        parts.running(prompt(1, 10)),
    )
    running.request = parts.waiting(prompt(1, 10), priority="idle").request
    assert (queue.rank(script), queue.rank(running)) == (1, 2)
    parts.time.now += AGEING_SECONDS
    assert (queue.rank(script), queue.rank(running)) == (0, 2)
    running.waited_seconds = AGEING_SECONDS
    assert queue.rank(running) == 1


def test_behind_its_own_kind_nobody_becomes_urgent() -> None:
    parts = Parts()
    queue, script = queue_of(parts), parts.waiting(prompt(1, 10), priority="batch")
    for _ in range(5):
        parts.time.now += AGEING_SECONDS - 1
        assert queue.rank(script) == 1
        queue.note_served({"batch"})
    queue.note_served({"interactive"})
    parts.time.now += AGEING_SECONDS
    assert queue.rank(script) == 0
    # One that is being served makes the others wait for it again.
    queue.note_served({"batch"})
    assert queue.rank(script) == 1


def test_letting_go_twice_is_harmless_and_says_so() -> None:
    parts = Parts()
    first, second = parts.waiting(prompt(1, 10)), parts.waiting(prompt(20, 10))
    queue = queue_of(parts)
    queue.find(first)
    queue.find(second)
    assert queue.let_go_of_all(but=first)
    assert parts.keeper.pins == [first.found]
    assert queue.let_go(first)
    assert not queue.let_go(first)
    assert not queue.let_go_of_all()
    assert parts.keeper.pins == []


def test_nothing_is_looked_for_where_prefixes_cannot_be_shared() -> None:
    parts = Parts(can_share_prefixes=False)
    group = parts.waiting(prompt(1, 10))
    queue = queue_of(parts, can_share=False)
    assert queue.next() is group
    assert group.found is None
    assert queue.is_ready(group)


def test_who_does_not_begin_is_overtaken_until_that_was_often_enough() -> None:
    parts = Parts()
    long = parts.waiting(prompt(1, 90), priority="batch")
    short = parts.waiting(prompt(500, 10), priority="batch")
    queue = queue_of(parts)

    def begins(group: SequenceGroup, cached_tokens: int) -> bool:
        return group is not long

    for _ in range(LOOKAHEAD):
        assert queue.next(begins) is short
        queue.note_passed(short)
    assert long.times_passed == LOOKAHEAD
    assert queue.next(begins) is None
    person = parts.waiting(prompt(900, 10))
    assert queue.next(begins) is person
    assert queue.next() is person


def test_how_much_is_kept_is_known_before_it_is_pinned() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    first = parts.waiting(prompt(1, 20, 10))
    asked: list[int] = []

    def begins(group: SequenceGroup, cached_tokens: int) -> bool:
        asked.append(cached_tokens)
        return False

    assert queue_of(parts).next(begins) is None
    assert asked == [20]
    assert first.found is None
    assert parts.keeper.pins == []
