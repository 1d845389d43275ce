"""Tests for engine.generation.groups."""

from __future__ import annotations

from engine.generation.groups import Groups
from engine.generation.segment import Segment
from tests.helpers.loop_parts import Parts, ScriptedBeams, prompt


def test_the_lead_is_the_first_that_is_still_written() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,), (8,)))
    group.sequences[0].finish_reason = "stop"
    assert group.lead is group.sequences[1]
    group.sequences[1].finish_reason = "stop"
    assert group.lead is group.sequences[0]
    assert group.live == []


def test_a_prompt_counts_once_and_answers_that_have_ended_do_not() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8), (5,), (6,)))
    assert (group.num_tokens, group.num_sequences) == (14, 3)
    group.sequences[0].finish_reason = "stop"
    assert (group.num_tokens, group.num_sequences) == (12, 2)


def test_a_search_takes_as_many_sequence_numbers_as_it_may_have_beams() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 10))
    group.beams = ScriptedBeams()
    group.request = parts.waiting(prompt(1, 10), sampling=group.request.sampling.__class__(beam_width=5)).request
    assert group.num_sequences == 5


def test_an_answer_that_has_ended_comes_before_those_alone_that_go_on_behind_all_of_it() -> None:
    parts = Parts()
    ended = parts.running(prompt(1, 10), ((7, 8),))
    parts.groups.running.remove(ended)
    parts.groups.closing.append(ended)
    turn = (*prompt(1, 10), Segment((7, 8)), Segment((9,)))
    next_turn, other = parts.waiting(turn), parts.waiting((*prompt(1, 10), Segment((7, 9, 9))))
    assert parts.groups.before(next_turn) is ended.lead
    assert parts.groups.before(other) is None
    parts.residence.release(ended.lead)
    assert parts.groups.before(next_turn) is None


def test_until_it_forks_the_lead_reads_for_all() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((), ()), 4)
    assert list(group.due()) == [(group.lead, 6)]
    assert group.num_unread == 6
    group.has_forked = True
    parts.compute(group.lead.held, group.lead.tokens)
    assert [count for _, count in group.due()] == [0, 10]
    assert group.num_unread == 10


def test_the_one_token_that_everybody_lacks_is_not_unread() -> None:
    parts = Parts()
    writing, behind = parts.running(prompt(1, 10), ((7,),)), parts.running(prompt(30, 10), ((7, 8, 9),), lacks=3)
    assert (writing.num_unread, behind.num_unread) == (0, 3)


def test_beams_begin_with_what_all_of_them_have_in_common() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 10), ((7, 8, 9, 1), (7, 8, 5, 1), (7, 8, 9, 2)))
    assert group.shared_length == 10
    group.beams = ScriptedBeams()
    assert group.shared_length == 12
    group.sequences[1].finish_reason = "stop"
    assert group.shared_length == 13
    for sequence in group.sequences:
        sequence.finish_reason = "stop"
    assert group.shared_length == 12


def test_a_request_is_found_wherever_it_stands_until_it_has_ended() -> None:
    parts = Parts()
    waiting, running = parts.waiting(prompt(1, 10)), parts.running(prompt(30, 10))
    groups = parts.groups
    groups.suspects.append(running)
    assert groups.find(waiting.request_id) is waiting
    assert groups.find(running.request_id) is running
    groups.take(running)
    groups.running.append(running)
    assert groups.find(running.request_id) is running
    groups.suspects.append(running)
    groups.end(running)
    groups.end(waiting)
    assert groups == Groups()
    assert groups.find(running.request_id) is None
