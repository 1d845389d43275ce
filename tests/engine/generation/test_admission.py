"""Tests for engine.generation.admission: which requests get cells, which leave for others, and what happens to pins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import NoCells
from engine.generation.groups import SequenceGroup, SequenceStatus
from engine.generation.queueing import LOOKAHEAD
from engine.generation.scheduler import AGEING_SECONDS
from engine.generation.segment import Segment
from engine.memory.gangs import QueueSharing
from tests.helpers.loop_parts import Parts, prompt


def close_later(parts: Parts, num_tokens: int) -> SequenceGroup:
    """An answer that has ended, and lies in cells until its last token is computed."""
    group = parts.running(prompt(9_000, num_tokens), ((1, 2),))
    parts.groups.running.remove(group)
    parts.groups.closing.append(group)
    return group


def test_those_who_wait_get_cells_in_order_of_arrival() -> None:
    parts = Parts()
    groups = [parts.waiting(prompt(10 * number + 1, 10)) for number in range(3)]
    assert parts.admission.admit() is None
    assert parts.groups.running == groups
    assert parts.groups.waiting == []
    assert all(group.status is SequenceStatus.RUNNING for group in groups)
    parts.check()


def test_what_was_kept_is_in_the_cells_and_pinned_no_longer() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    group = parts.waiting(prompt(1, 20, 10))
    parts.admission.admit()
    assert group.lead.num_computed == group.cached_tokens == 20
    assert group.found is None
    assert parts.keeper.pins == []
    parts.check()


def test_a_turn_shares_the_cells_of_the_answer_before_it_and_takes_none_for_it() -> None:
    parts = Parts(num_cells=128)
    ended = close_later(parts, 100)
    turn = parts.waiting((*ended.request.segments, Segment((1, 2)), *prompt(400, 10)))
    parts.admission.admit()
    assert turn.status is SequenceStatus.RUNNING
    assert turn.lead.num_computed == turn.cached_tokens == 101
    assert parts.cells.num_used == 101
    assert parts.groups.closing == [ended]
    parts.check()
    # What it shares counts as its own: others may need the room.
    assert parts.admission.drop_closing()
    assert turn.lead.num_computed == 101
    parts.check()


@pytest.mark.parametrize("would_take_long", [None, "was passed", "reads"])
def test_where_sequences_are_kept_whole_a_turn_waits_until_the_answer_before_it_is(would_take_long: str | None) -> None:
    parts = Parts()
    parts.keeper.keeps_whole = True
    ended = close_later(parts, 40)
    turn = parts.waiting((*ended.request.segments, Segment((1, 2)), *prompt(300, 10)))
    if would_take_long == "was passed":
        turn.times_passed = LOOKAHEAD
    elif would_take_long == "reads":
        parts.reading(prompt(700, 100), ((),), 50)
    parts.admission.admit()
    # No request waits for ever.
    assert (turn.status is SequenceStatus.RUNNING) is (would_take_long is not None)
    parts.groups.closing.remove(ended)
    parts.admission.look_again()
    parts.admission.admit()
    assert turn.status is SequenceStatus.RUNNING


def test_of_an_answer_before_it_a_turn_shares_what_is_not_kept() -> None:
    parts = Parts()
    parts.keep(*prompt(9_000, 20))
    ended = close_later(parts, 20)
    turn = parts.waiting((*ended.request.segments, Segment((1, 2)), *prompt(400, 10)))
    parts.admission.admit()
    assert turn.lead.num_computed == turn.cached_tokens == 21
    assert parts.keeper.pins == []
    parts.check()


def test_who_lost_what_was_found_while_room_was_made_waits_until_it_is_read_again() -> None:
    parts = Parts(num_cells=128)
    parts.keep(*prompt(1, 60))
    parts.keep(*prompt(300, 30))
    group = parts.waiting(prompt(1, 60, 30))
    parts.running(prompt(500, 20))

    # As when the keeper's budgets are exhausted, and all that is not pinned leaves.
    free_cells = parts.keeper.free_cells

    def take_all(num_cells: int) -> int:
        parts.keeper.pins.clear()
        return free_cells(parts.cells.num_cells)

    parts.keeper.free_cells = take_all
    parts.admission.admit()
    assert group.status is SequenceStatus.WAITING
    assert group.lead.held is None
    assert not parts.admission.lacks_cells

    parts.keeper.arrives()
    parts.admission.admit()
    assert group.status is SequenceStatus.RUNNING
    assert group.cached_tokens == 60
    parts.check()


def test_what_is_kept_gives_up_sequence_numbers_that_answers_are_about_to_need() -> None:
    parts = Parts(num_sequences=8)
    group = parts.waiting(prompt(1, 20), ((), (), ()))
    parts.admission.admit()
    for number in range(1, 7):
        parts.keep(*prompt(50 * number, 2))
    assert parts.cells.num_free_slots == 1

    parts.admission.make_room(32)
    assert group.num_slots_due == 2
    assert parts.cells.num_free_slots >= 3
    parts.check()


def test_nobody_leaves_for_a_sequence_number_that_is_kept_for_what_shares_all_its_cells() -> None:
    parts = Parts(num_sequences=8)
    answers = [parts.running(prompt(100 * number, 20), ((7,),)) for number in range(1, 4)]
    for group in answers:
        parts.keeper.hold(group.request.segments, group.lead.held)
    twins = parts.waiting(prompt(900, 20), ((), ()))
    assert parts.cells.num_free_slots == 2
    parts.admission.admit()
    assert parts.groups.running == [*answers, twins]
    parts.check()


def test_nobody_is_admitted_on_sequence_numbers_that_others_are_about_to_need() -> None:
    parts = Parts(num_sequences=8)
    first = parts.waiting(prompt(1, 20), ((), (), (), ()))
    second = parts.waiting(prompt(100, 20), ((), (), (), ()))
    parts.admission.admit()
    assert first.status is SequenceStatus.RUNNING
    assert second.status is SequenceStatus.WAITING
    parts.check()


def test_who_has_been_read_from_disk_does_not_wait_for_steps_that_another_skips() -> None:
    parts = Parts(num_cells=128)
    parts.keep(*prompt(1, 20))
    parts.keeper.free_cells(20)
    parts.running(prompt(500, 40))
    first, large = parts.waiting(prompt(1, 20, 10)), parts.waiting(prompt(700, 100))
    parts.admission.admit()
    assert parts.admission.lacks_cells
    assert first.lead.held is None

    parts.keeper.arrives()
    parts.admission.admit()
    assert parts.groups.running[-1] is first
    assert large.lead.held is None


def test_who_does_not_fit_is_looked_at_again_when_somebody_has_ended() -> None:
    parts = Parts(num_cells=128)
    running, large = parts.running(prompt(500, 40)), parts.waiting(prompt(700, 100))
    parts.admission.admit()
    parts.residence.leave(running)
    parts.groups.running.remove(running)
    other = parts.running(prompt(300, 5))
    parts.admission.admit()
    assert parts.groups.running == [other]
    parts.admission.note_end()
    parts.admission.admit()
    assert parts.groups.running == [large, other]


def test_while_all_places_are_taken_the_keeper_is_hardly_asked() -> None:
    parts = Parts(max_running=2)
    for number in range(2):
        parts.running(prompt(100 * number + 1, 10))
    for number in range(50):
        parts.waiting(prompt(10 * number + 1000, 10))
    for _ in range(160):
        parts.admission.admit()
    assert parts.keeper.num_peeks < 160
    assert len(parts.groups.running) == 2


def test_a_place_that_an_answer_of_several_leaves_is_taken_when_it_is_told() -> None:
    parts = Parts(max_running=2)
    several, waiting = parts.running(prompt(1, 10), ((7,), (8,))), parts.waiting(prompt(100, 10))
    parts.admission.admit()
    several.sequences[1].finish_reason = "stop"
    parts.residence.release(several.sequences[1])
    parts.admission.admit()
    assert waiting.lead.held is None
    parts.admission.look_again()
    parts.admission.admit()
    assert waiting.status is SequenceStatus.RUNNING


def test_where_too_many_less_urgent_ones_run_the_latest_makes_place() -> None:
    parts = Parts(max_running=3)
    parts.keep(*prompt(700, 10))
    scripts = [parts.running(prompt(100 * number + 1, 10), ((7,),), priority="batch") for number in range(3)]
    window, other = parts.waiting(prompt(500, 10)), parts.waiting(prompt(600, 10), priority="batch")
    parts.admission.admit()
    assert parts.groups.running == [*scripts[:2], window]
    assert parts.groups.waiting == [scripts[2], other]
    assert len(parts.keeper.nodes) == 1
    parts.check()


def ended(parts: Parts, *groups: SequenceGroup) -> None:
    for group in groups:
        parts.residence.leave(group)
        parts.groups.take(group)
    parts.admission.note_end()


# Shared steps save more than reading any prompt of these tests takes, for each number that is listed.
ALONE, BY_FOURS = QueueSharing(100, 1000.0, (1.0,)), QueueSharing(100, 1000.0, (1.0,) * 4)


def scripts_sharing(parts: Parts, sharing: QueueSharing, count: int) -> list[SequenceGroup]:
    """Scripted questions, of which those that begin at once have been admitted."""
    parts.admission.share_steps(sharing)
    scripts = [parts.waiting(prompt(100 * number + 1, 10), priority="batch") for number in range(count)]
    parts.admission.admit()
    return scripts


def test_scripts_begin_until_as_many_as_are_best_run_and_one_for_each_that_ends() -> None:
    parts = Parts()
    scripts = scripts_sharing(parts, BY_FOURS, 9)
    assert parts.groups.running == scripts[:4]
    ended(parts, scripts[0])
    parts.admission.admit()
    assert parts.groups.running == scripts[1:5]
    parts.admission.share_steps(None)
    parts.admission.admit()
    assert parts.groups.running == scripts[1:]


def test_a_script_waits_for_the_one_before_where_nothing_is_gained_by_sharing() -> None:
    parts = Parts()
    scripts = scripts_sharing(parts, ALONE, 2)
    assert parts.groups.running == scripts[:1]
    ended(parts, scripts[0])
    parts.admission.admit()
    assert parts.groups.running == scripts[1:]


def test_a_short_prompt_is_read_beside_others_and_a_long_one_waits() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 10, 0.1)
    parts.profile.note(0, 1000, 20.0)
    parts.admission.share_steps(QueueSharing(4, 20.0, (0.1,) * 4))
    running = parts.running(prompt(1, 10), ((7,),), priority="batch")
    long = parts.waiting(prompt(2000, 1000), priority="batch")
    parts.admission.admit()
    assert parts.groups.running == [running]
    short = parts.waiting(prompt(4000, 10), priority="batch")
    parts.admission.look_again()
    parts.admission.admit()
    assert parts.groups.running == [running, short]
    assert parts.groups.waiting == [long]


def test_a_script_does_not_wait_for_people_who_ask_again_and_again() -> None:
    parts = Parts(num_cells=2048)
    parts.admission.share_steps(ALONE)
    person = parts.running(prompt(1, 10), ((7,),))
    script = parts.waiting(prompt(500, 100), priority="batch")
    parts.admission.admit()
    assert parts.groups.running == [person, script]


def test_people_begin_at_once_however_many_scripts_run() -> None:
    parts = Parts()
    scripts = scripts_sharing(parts, ALONE, 3)
    people = [parts.waiting(prompt(100 * number + 500, 10)) for number in range(4)]
    parts.admission.look_again()
    parts.admission.admit()
    assert parts.groups.running == [scripts[0], *people]


def test_people_do_not_wait_behind_scripts_that_have_waited_long() -> None:
    parts = Parts()
    scripts = scripts_sharing(parts, ALONE, 3)
    assert parts.groups.running == scripts[:1]
    parts.time.now += 10 * AGEING_SECONDS
    person = parts.waiting(prompt(900, 10))
    parts.admission.look_again()
    parts.admission.admit()
    assert parts.groups.running == [scripts[0], person]


def test_people_take_the_place_of_scripts_that_have_waited_long_for_other_scripts() -> None:
    parts = Parts(num_cells=256, max_running=2)
    scripts = [parts.waiting(prompt(100 * number + 1, 10), priority="batch") for number in range(4)]
    for first in scripts[:2]:
        parts.time.now += 2 * AGEING_SECONDS
        parts.admission.note_served(parts.groups.running or [first])
        parts.admission.admit()
    assert parts.groups.running == scripts[:2]
    parts.time.now += 2 * AGEING_SECONDS
    parts.admission.note_served(scripts[:1])
    person = parts.waiting(prompt(900, 10))
    parts.admission.look_again()
    parts.admission.admit()
    assert person in parts.groups.running
    assert min(parts.groups.running, key=parts.admission.rank) is person


def test_scripts_that_nothing_was_computed_for_are_served_beside_people_in_the_end() -> None:
    parts = Parts(num_cells=256, max_running=1)
    script = parts.waiting(prompt(1, 10), priority="batch")
    parts.admission.note_served([script])
    parts.time.now += AGEING_SECONDS
    parts.waiting(prompt(500, 10))
    parts.admission.admit()
    assert parts.groups.running == [script]
    # And is not preempted again by the next one that comes.
    parts.admission.note_served([script])
    parts.admission.look_again()
    parts.admission.admit()
    assert parts.groups.running == [script]


def test_a_script_of_several_answers_begins_where_fewer_share_steps() -> None:
    parts = Parts()
    parts.admission.share_steps(ALONE)
    group = parts.waiting(prompt(1, 10), ((), (), ()), priority="batch")
    parts.admission.admit()
    assert parts.groups.running == [group]


def test_nobody_makes_place_for_who_is_no_more_urgent() -> None:
    parts = Parts(max_running=2)
    groups = [parts.running(prompt(100 * number + 1, 10), ((7,),)) for number in range(2)]
    parts.waiting(prompt(500, 10))
    parts.admission.admit()
    assert parts.groups.running == groups


def test_who_would_not_be_read_soon_waits_without_cells() -> None:
    parts = Parts(num_cells=512, n_ubatch=32)
    reading, waiting = parts.waiting(prompt(1, 100)), parts.waiting(prompt(200, 100))
    parts.admission.admit()
    assert parts.groups.running == [reading]
    parts.compute(reading.lead.held, reading.lead.tokens[:60])
    parts.admission.admit()
    assert parts.groups.running == [reading, waiting]


@pytest.mark.parametrize("swap_budget_bytes", [0, 1 << 20])
def test_the_less_urgent_leaves_for_the_more_urgent_and_comes_back_before_anybody_new(swap_budget_bytes: int) -> None:
    parts = Parts(num_cells=128, swap_budget_bytes=swap_budget_bytes)
    script = parts.running(prompt(1, 80), ((7, 8),), priority="batch")
    window = parts.waiting(prompt(200, 90))
    parts.admission.admit()
    assert parts.groups.running == [window]
    assert script.status is SequenceStatus.PREEMPTED
    assert script.is_swapped == (swap_budget_bytes > 0)
    assert (parts.tally.preempted_by_swap, parts.tally.preempted_by_recompute) == (
        (1, 0) if swap_budget_bytes else (0, 1)
    )
    parts.check()

    newer = parts.waiting(prompt(400, 90), priority="batch")
    parts.residence.leave(window)
    parts.groups.running.clear()
    parts.admission.note_end()
    parts.admission.admit()
    assert parts.groups.running == [script]
    assert newer.status is SequenceStatus.WAITING
    assert script.lead.num_computed == (81 if swap_budget_bytes else 0)
    parts.check()


def test_nobody_leaves_in_vain() -> None:
    parts = Parts(num_cells=128)
    parts.keep(*prompt(600, 10))
    parts.running(prompt(1, 60))
    script = parts.running(prompt(200, 20), priority="batch")
    window = parts.waiting(prompt(400, 90))
    parts.admission.admit()
    assert script.status is SequenceStatus.RUNNING
    assert window.status is SequenceStatus.WAITING
    assert len(parts.keeper.nodes) == 1
    assert parts.admission.lacks_cells


def test_answers_that_only_wait_to_be_kept_leave_before_anybody_who_writes() -> None:
    parts = Parts(num_cells=128)
    close_later(parts, 60)
    script, window = parts.running(prompt(1, 20), priority="batch"), parts.waiting(prompt(400, 80))
    parts.admission.admit()
    assert parts.groups.running == [script, window]
    assert parts.groups.closing == []
    parts.check()


def test_pins_of_others_who_wait_go_before_anybody_who_writes() -> None:
    parts = Parts(num_cells=128)
    parts.keep(*prompt(1, 60))
    other = parts.waiting(prompt(1, 60, 10), priority="batch")
    assert parts.admission._queue.find(other)
    script, window = parts.running(prompt(300, 20), priority="batch"), parts.waiting(prompt(400, 80))
    parts.admission.admit()
    assert parts.groups.running == [script, window]
    assert other.found is not None
    assert other.found.num_cells == 60


def test_who_fits_nowhere_even_alone_is_handed_back() -> None:
    parts = Parts(num_cells=64)
    group = parts.waiting(prompt(1, 40), ((*range(2, 30),),))
    held = parts.cells.open()
    parts.cells.grow(held, 1)
    assert parts.admission.admit() is group
    parts.residence.close(held)
    assert parts.admission.admit() is None
    assert parts.groups.running == [group]


def test_who_would_fit_into_more_cells_than_there_are_but_may_be_is_handed_back_at_once() -> None:
    parts = Parts(num_cells=128)
    parts.admission.most_cells = 256
    writing, long = parts.running(prompt(1, 20), ((1,),)), parts.waiting(prompt(500, 200))
    assert parts.admission.admit() is long
    # Where there is no room for them, it waits until it has all that there is.
    long.makes_do = True
    assert parts.admission.admit() is None
    parts.groups.running.remove(writing)
    parts.residence.forget(writing)
    parts.admission.look_again()
    assert parts.admission.admit() is None
    assert parts.groups.running == [long]


def test_whoever_runs_keeps_the_last_sequence_number_for_what_is_loaded_by_itself() -> None:
    parts = Parts(num_sequences=4)
    groups = [parts.waiting(prompt(10 * number + 1, 10)) for number in range(4)]
    parts.admission.admit()
    assert parts.groups.running == groups[:3]
    assert parts.admission.lacks_cells


def test_once_llama_cpp_had_fewer_cells_than_counted_nobody_comes_before_somebody_has_ended() -> None:
    parts = Parts()
    parts.running(prompt(1, 10))
    parts.waiting(prompt(100, 10))
    parts.admission.hold_back()
    parts.admission.admit()
    assert len(parts.groups.running) == 1
    parts.admission.note_end()
    parts.admission.admit()
    assert len(parts.groups.running) == 2


def test_room_for_a_batch_comes_from_what_is_kept_first() -> None:
    parts = Parts(num_cells=64)
    parts.keep(*prompt(1, 40))
    running = parts.running(prompt(100, 20), ((7,),))
    parts.compute(running.lead.held, running.lead.tokens)
    running.lead.tokens += [8, 9, 10, 11]
    assert parts.admission.make_room(32) is None
    assert parts.cells.num_free >= 4
    assert parts.keeper.nodes == {}
    assert parts.groups.running == [running]


def test_nothing_is_freed_while_there_is_room() -> None:
    parts = Parts(num_cells=64)
    parts.keep(*prompt(1, 20))
    parts.running(prompt(100, 12), ((7,),))
    assert parts.admission.make_room(32) is None
    assert len(parts.keeper.nodes) == 1


def test_room_for_those_who_write_comes_from_pins_then_from_the_latest_and_the_last_is_handed_back() -> None:
    parts = Parts(num_cells=64)
    parts.keep(*prompt(1, 20))
    waiting = parts.waiting(prompt(1, 20, 10))
    parts.admission._queue.find(waiting)
    first, second = parts.running(prompt(100, 22), ((7,),)), parts.running(prompt(200, 22), ((8,),))
    assert parts.cells.num_free == 0

    assert parts.admission.make_room(32) is None
    assert waiting.found is None
    assert parts.groups.running == [first, second]

    room = parts.cells.num_free // 2
    for group in (first, second):
        group.lead.tokens += range(300, 300 + room - 1)
        parts.compute(group.lead.held, group.lead.tokens)
        group.lead.tokens.append(9)
    assert parts.cells.num_free == 0
    assert parts.admission.make_room(32) is None
    assert parts.groups.running == [first]
    assert parts.groups.waiting[0] is second

    first.lead.tokens += range(400, 400 + parts.cells.num_free - 1)
    parts.compute(first.lead.held, first.lead.tokens)
    first.lead.tokens.append(10)
    assert parts.cells.num_free == 0
    assert parts.admission.make_room(32) is first


def test_answers_that_only_wait_to_be_kept_give_their_cells_to_those_who_write() -> None:
    parts = Parts(num_cells=64)
    close_later(parts, 40)
    running = parts.running(prompt(100, 23), ((7,),))
    assert parts.cells.num_free == 0
    assert parts.admission.make_room(32) is None
    assert parts.groups.closing == []
    assert parts.groups.running == [running]
    assert not parts.admission.drop_closing()


def test_of_an_answer_that_makes_way_all_that_was_computed_is_kept() -> None:
    parts = Parts(num_cells=64)
    close_later(parts, 40)
    parts.running(prompt(100, 23), ((7,),))
    parts.admission.make_room(32)
    assert parts.keeper.kept == [(41, 0.0, 0)]
    assert parts.cells.num_free > 0
    parts.check()


def test_with_nobody_to_preempt_the_sentence_says_that_the_context_is_full() -> None:
    with pytest.raises(NoCells, match="full"):
        Parts().admission._preempt_one([])


def test_who_begins_as_a_prompt_that_is_being_read_waits_for_its_end_and_lets_others_by() -> None:
    parts = Parts()
    reading = parts.reading(prompt(1, 40, 30), ((),), 35)
    follower, other = parts.waiting((*prompt(1, 40), *prompt(300, 10))), parts.waiting(prompt(500, 10))
    parts.admission.admit()
    assert [follower.status, other.status] == [SequenceStatus.WAITING, SequenceStatus.RUNNING]
    parts.compute(reading.lead.held, reading.lead.tokens)
    reading.has_read_prompt = True
    parts.keeper.keep(reading.request.segments, reading.lead.held, 1.0, 70)
    parts.admission.look_again()
    parts.admission.admit()
    assert follower.status is SequenceStatus.RUNNING
    assert follower.cached_tokens == 40
    parts.check()


@pytest.mark.parametrize(
    "changed",
    [
        "is less urgent",
        "shares little",
        "was overtaken",
        "is kept already",
        "has begun",
        "is kept whole",
        "finds no room",
    ],
)
def test_nobody_waits_for_a_prompt_that_saves_nothing(changed: str) -> None:
    parts = Parts()
    num_shared = 20 if changed == "shares little" else 40
    if changed == "is kept already":
        parts.keep(*prompt(1, 40))
    reading = parts.reading(prompt(1, num_shared, 10), ((),), 5)
    follower = parts.waiting((*prompt(1, num_shared), *prompt(300, 10)))
    if changed == "is less urgent":
        reading.request = replace(reading.request, priority="batch")
    elif changed == "was overtaken":
        follower.times_passed = LOOKAHEAD
    elif changed == "has begun":
        follower.status = SequenceStatus.PREEMPTED
    elif changed == "is kept whole":
        parts.keeper.keeps_whole = True
    elif changed == "finds no room":
        parts.keeper.has_room = False
    parts.admission.admit()
    assert follower.status is SequenceStatus.RUNNING
    parts.check()


@pytest.mark.parametrize(("num_left", "waits"), [(60, True), (99, True), (100, False)])
def test_a_prompt_that_came_later_is_waited_for_where_its_own_part_is_less_than_that_saves(
    num_left: int, waits: bool
) -> None:
    parts = Parts(n_ubatch=64)
    follower = parts.waiting((*prompt(1, 50), *prompt(300, 10)))
    parts.reading(prompt(1, 50, 60), ((),), 110 - num_left)
    parts.admission.admit()
    assert (follower.status is SequenceStatus.WAITING) is waits


@pytest.mark.parametrize(("num_left", "waits"), [(60, True), (30, True), (20, False), (10, False)])
def test_where_a_pass_takes_long_in_any_case_nobody_waits_who_would_fill_more_of_it_than_that_saves(
    num_left: int, waits: bool
) -> None:
    # A pass computes 64 tokens, and 40 are shared.
    parts = Parts(n_ubatch=64, pays_by_pass=True)
    parts.reading(prompt(1, 40, 40), ((),), 80 - num_left)
    follower = parts.waiting((*prompt(1, 40), *prompt(300, 30)))
    parts.admission.admit()
    assert (follower.status is SequenceStatus.WAITING) is waits


def test_nobody_passes_one_that_waits_for_a_prompt_and_takes_the_cells_that_it_needs() -> None:
    parts = Parts(num_cells=256)
    parts.reading(prompt(1, 60, 10), ((),), 20)
    follower, large, small = (parts.waiting(prompt(*one)) for one in ((1, 60, 60), (500, 100), (700, 10)))
    parts.admission.admit()
    assert [group.status is SequenceStatus.RUNNING for group in (follower, large, small)] == [False, False, False]
    parts.groups.waiting.remove(large)
    parts.admission.look_again()
    parts.admission.admit()
    assert [group.status is SequenceStatus.RUNNING for group in (follower, small)] == [False, True]
    parts.check()


def test_what_is_kept_by_now_is_not_waited_for_although_less_was_found() -> None:
    parts = Parts()
    follower = parts.waiting((*prompt(1, 40, 20), *prompt(300, 10)))
    follower.found = parts.keeper.find(follower.request.segments)
    parts.keep(*prompt(1, 40, 20))
    parts.reading(prompt(1, 40, 20), ((),), 5)
    parts.admission.admit()
    assert follower.status is SequenceStatus.RUNNING
    assert follower.cached_tokens == 60
    parts.check()


def test_those_who_are_next_are_told_in_their_order_with_what_is_read_before_them() -> None:
    parts = Parts()
    script = parts.waiting(prompt(100, 10), priority="batch")
    reading, other = parts.reading(prompt(1, 40), ((),), 5), parts.reading(prompt(50, 40), ((),), 5)
    other.request = replace(other.request, priority="batch")
    first, second = parts.waiting(prompt(200, 10)), parts.waiting(prompt(300, 10))
    parts.running(prompt(400, 10), ((7,),))
    assert parts.admission.next_up == [first, second, script]
    assert parts.admission.being_read(second) == [reading]
    assert parts.admission.being_read(script) == [reading, other]
