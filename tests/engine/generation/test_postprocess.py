"""Tests for engine.generation.postprocess: rows become tokens, tokens text, and drafts are verified on the way."""

from __future__ import annotations

from typing import Any

import pytest

from engine.generation.batching import Work
from engine.generation.groups import SequenceGroup
from engine.generation.postprocess import Postprocess
from engine.generation.request import TextWritten
from engine.generation.segment import Segment
from engine.generation.streaming import TextStream
from engine.generation.vocabulary import Vocabulary
from tests.helpers.loop_parts import END, Parts, Script, ScriptedBeams, prompt


def postprocess(parts: Parts) -> Postprocess:
    vocabulary: Any = Vocabulary(parts.model)  # type: ignore[arg-type]
    return Postprocess(parts.context, parts.residence, vocabulary, parts.tally, parts.events)


def scripted(parts: Parts, group: SequenceGroup, *tokens: int) -> list[Script]:
    """Makes each answer of a group say these tokens; everything of it is computed."""
    scripts = [Script(tokens) for _ in group.sequences]
    for sequence, script in zip(group.sequences, scripts, strict=True):
        sequence.make_sampler = lambda script=script: script
        if sequence.held is not None:
            parts.compute(sequence.held, sequence.tokens)
    return scripts


def drafted(parts: Parts, group: SequenceGroup, *draft: int) -> Work:
    """The work of a batch that has computed a draft behind everything of a group's only answer."""
    sequence = group.lead
    sequence.draft = list(draft)
    parts.compute(sequence.held, [*sequence.tokens, *draft])
    return Work(group, sequence, 1, len(draft), wants_token=True)


def test_a_token_follows_from_the_last_row_of_a_chunk_and_is_told() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), lacks=4)
    (script,) = scripted(parts, group, 7)
    postprocess(parts).write([Work(group, group.lead, 4, wants_token=True)], [20])
    assert script.rows == [23]
    assert group.lead.tokens[10:] == [7]
    assert parts.events == [TextWritten(group.request_id, "7 ", 1, 0)]
    assert parts.tally.generated_tokens == 1
    assert group.lead.is_live


def test_a_chunk_of_a_prompt_that_goes_on_writes_nothing() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), lacks=4)
    ended = parts.running(prompt(30, 10))
    ended.lead.finish_reason = "length"
    works = [Work(group, group.lead, 2), Work(ended, ended.lead, 1, wants_token=True)]
    postprocess(parts).write(works, [0, 2])
    assert parts.events == []
    assert len(group.lead.tokens) == len(ended.lead.tokens) == 10


def test_a_token_that_ends_the_answer_is_none_of_it() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    scripted(parts, group, END)
    postprocess(parts).write([Work(group, group.lead, 1, wants_token=True)], [0])
    assert group.lead.finish_reason == "stop"
    assert group.lead.tokens[10:] == [7]
    assert parts.events == []


def test_the_last_token_that_is_allowed_ends_the_answer_by_its_length() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,) * 7,))
    scripted(parts, group, 5)
    postprocess(parts).write([Work(group, group.lead, 1, wants_token=True)], [0])
    assert group.lead.finish_reason == "length"
    assert parts.events == [TextWritten(group.request_id, "5 ", 1, 0)]


def test_a_stop_string_ends_the_answer_and_what_was_held_back_for_it_is_never_told() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    group.lead.stream = TextStream(("8 9",))
    scripted(parts, group, 8, 9)
    writing = postprocess(parts)
    for _ in range(2):
        writing.write([Work(group, group.lead, 1, wants_token=True)], [0])
    assert group.lead.finish_reason == "stop"
    assert group.lead.num_of_stop == 2
    assert parts.events == []
    assert group.lead.written.tokens == (7,)


def test_a_stop_string_that_begins_within_a_token_takes_it_from_the_answers_tokens_and_not_from_its_text() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    group.lead.stream = TextStream(("8 1",))
    scripted(parts, group, 18, 19)
    writing = postprocess(parts)
    for _ in range(2):
        writing.write([Work(group, group.lead, 1, wants_token=True)], [0])
    written = group.lead.written
    assert (written.text, written.tokens, written.is_cut_within) == ("1", (7,), True)


def test_a_stop_string_takes_no_token_from_what_was_written_before_something_was_read() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    group.lead.stream = TextStream(("7 8",))
    group.lead.stream.feed(b"7 ")
    group.lead.read([Segment((1, 2))])
    scripted(parts, group, 8)
    postprocess(parts).write([Work(group, group.lead, 1, wants_token=True)], [0])
    written = group.lead.written
    assert (written.tokens, written.is_cut_within) == ((7,), True)


def test_text_that_was_held_back_is_told_when_the_answer_ends() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    group.lead.stream = TextStream(("8 9",))
    scripted(parts, group, 8, END)
    writing = postprocess(parts)
    for _ in range(2):
        writing.write([Work(group, group.lead, 1, wants_token=True)], [0])
    assert parts.events == [TextWritten(group.request_id, "8 ", 1, 0)]


def test_a_draft_that_comes_true_writes_one_token_more_than_it_has() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    (script,) = scripted(parts, group, 8, 9, 6)
    postprocess(parts).write([drafted(parts, group, 8, 9)], [3])
    assert script.rows == [3, 4, 5]
    assert group.lead.tokens[10:] == [7, 8, 9, 6]
    assert group.lead.num_computed == 13
    assert (parts.tally.drafted_tokens, parts.tally.accepted_tokens) == (2, 2)
    assert parts.events == [TextWritten(group.request_id, "8 9 6 ", 3, 0)]
    parts.check()


def test_from_the_first_token_on_that_was_guessed_wrong_a_draft_is_forgotten() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,),))
    (script,) = scripted(parts, group, 8, 5, 1)
    postprocess(parts).write([drafted(parts, group, 8, 9, 6)], [0])
    assert script.rows == [0, 1]
    assert group.lead.tokens[10:] == [7, 8, 5]
    assert group.lead.num_computed == 12
    assert (parts.tally.drafted_tokens, parts.tally.accepted_tokens) == (3, 1)
    parts.check()


@pytest.mark.parametrize(("ends_at", "num_written"), [(END, 0), (8, 1)])
def test_an_answer_that_ends_within_its_draft_computes_no_further(ends_at: int, num_written: int) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,) * (7 if ends_at else 1),))
    (script,) = scripted(parts, group, ends_at, 9, 6)
    postprocess(parts).write([drafted(parts, group, 8, 9)], [0])
    assert len(script.rows) == 1
    assert group.lead.finish_reason == ("length" if ends_at else "stop")
    assert group.lead.num_generated == (8 if ends_at else 1)
    assert parts.tally.accepted_tokens == num_written
    parts.check()


def test_answers_go_on_from_the_row_of_their_prompt_in_cells_of_their_own() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((), ()), 6)
    scripts = scripted(parts, group, 7)
    postprocess(parts).fork(Work(group, group.lead, 4, wants_token=True), 2)
    assert group.has_forked
    assert [script.rows for script in scripts] == [[5], [5]]
    assert parts.cells.num_used == 10
    assert {event.answer for event in parts.events if isinstance(event, TextWritten)} == {0, 1}
    parts.check()


def test_before_all_of_the_prompt_is_read_nobody_goes_on() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((), ()), 6)
    postprocess(parts).fork(Work(group, group.lead, 6), 0)
    assert not group.has_forked
    assert group.sequences[1].held is None


@pytest.mark.parametrize(("are_beams", "shared"), [(False, 10), (True, 12)])
def test_after_reading_again_each_goes_on_from_what_they_share(are_beams: bool, shared: int) -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((7, 8, 9), (7, 8, 5)), shared)
    group.beams = ScriptedBeams() if are_beams else None
    postprocess(parts).fork(Work(group, group.lead, shared), 0)
    assert [sequence.num_computed for sequence in group.sequences] == [shared, shared]
    assert parts.cells.num_used == shared
    assert parts.events == []
    parts.check()
