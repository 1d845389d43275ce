"""Tests for engine.generation.ending: each request ends once, gives back what it held, and what was read is kept."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import DecodeFailed, NoCells
from engine.generation.branching import Branching
from engine.generation.ending import Ending
from engine.generation.groups import SequenceGroup, SequenceStatus
from engine.generation.keeping import KeepsNothing
from engine.generation.postprocess import Postprocess
from engine.generation.request import RequestCancelled, RequestFailed, RequestFinished, TextWritten, Written
from engine.generation.segment import Segment
from engine.generation.sequence import Hypothesis
from engine.generation.streaming import TextStream
from engine.generation.vocabulary import Vocabulary
from tests.helpers.loop_parts import Parts, Script, ScriptedBeams, prompt


def ending(parts: Parts) -> Ending:
    vocabulary: Any = Vocabulary(parts.model)  # type: ignore[arg-type]
    return Ending(
        parts.groups,
        parts.residence,
        parts.admission,
        Postprocess(parts.context, parts.residence, vocabulary, parts.tally, parts.events),
        Branching(parts.context, parts.residence, vocabulary),
        parts.keeper,
        parts.events,
    )


def kept(parts: Parts) -> list[int]:
    """The tokens of every prompt that was given to the keeper."""
    return [num_tokens for num_tokens, _, _ in parts.keeper.kept]


def is_gone(parts: Parts, group: SequenceGroup) -> bool:
    parts.check()
    held = [sequence for sequence in group.sequences if sequence.held is not None]
    return not held and group not in (*parts.groups.running, *parts.groups.waiting, *parts.groups.suspects)


def test_a_cancelled_prompt_leaves_the_whole_segments_that_were_read() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10, 10, 10), ((),), 25)
    group.computed_tokens, group.prefill_seconds = 25, 5.0
    ending(parts).cancel(group)
    assert parts.keeper.kept == [(20, 4.0, 20)]
    assert parts.events == [RequestCancelled(group.request_id, (Written("", (), "stop"),))]
    assert group.status is SequenceStatus.FINISHED
    assert is_gone(parts, group)


@pytest.mark.parametrize("num_computed", [0, 5])
def test_of_a_prompt_that_was_hardly_begun_nothing_is_kept(num_computed: int) -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10, 10), ((),), num_computed)
    ending(parts).cancel(group)
    assert parts.keeper.kept == []
    assert is_gone(parts, group)


def test_what_was_kept_before_is_not_kept_again() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10, 10), ((),), 15)
    group.cached_tokens = 10
    ending(parts).cancel(group)
    assert parts.keeper.kept == []


def test_one_that_waits_is_cancelled_with_its_pins() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 10))
    group.found = parts.keeper.find(group.request.segments)
    ending(parts).cancel(group)
    assert parts.keeper.pins == []
    assert is_gone(parts, group)


def test_a_cancelled_answer_is_told_and_stays_until_its_last_token_is_computed() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8, 9),))
    group.lead.texts.append("7 8 9 ")
    (script,) = [Script([])]
    group.lead.make_sampler = lambda: script
    group.lead.choose(parts.context, 0)
    ends = ending(parts)

    ends.cancel(group)
    assert parts.events == [RequestCancelled(group.request_id, (Written("7 8 9 ", (7, 8, 9), "stop"),))]
    assert script.is_closed
    (closing,) = parts.groups.closing
    assert closing.request_id == group.request_id
    assert closing.lead.num_computed == 12
    assert is_gone(parts, group)

    parts.compute(closing.lead.held, closing.lead.tokens)
    ends.close_answer(closing)
    assert kept(parts) == [13]
    assert parts.groups.closing == []
    parts.check()


def test_an_answer_that_nobody_waits_for_is_kept_without_its_last_token() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8, 9),))
    ends = ending(parts)
    ends.cancel(group)
    ends.close_answer(parts.groups.closing[0])
    assert kept(parts) == [12]
    assert parts.groups.closing == []
    parts.check()


def test_an_answer_that_went_on_is_kept_as_one() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10, 3), ((7, 8, 9),), goes_on=True)
    group.lead.finish_reason, group.lead.num_of_stop = "stop", 1
    ending(parts).finish_if_done(group)
    assert kept(parts) == [15]
    assert (*prompt(1, 10), Segment((11, 12, 13, 7, 8))) in parts.keeper.nodes
    assert is_gone(parts, group)


def test_a_last_token_that_completed_a_stop_string_is_not_waited_for() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8, 9),))
    group.lead.finish_reason, group.lead.num_of_stop = "stop", 1
    ending(parts).finish_if_done(group)
    assert parts.groups.closing == []
    assert kept(parts) == [12]
    assert parts.events == [RequestFinished(group.request_id, (Written("", (7, 8), "stop"),))]
    assert is_gone(parts, group)


def test_a_drafted_token_that_completed_a_stop_string_is_not_kept_with_the_answer() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8, 9),))
    parts.compute(group.lead.held, group.lead.tokens)
    group.lead.finish_reason, group.lead.num_of_stop = "stop", 1
    ending(parts).finish_if_done(group)
    assert kept(parts) == [12]
    assert is_gone(parts, group)


def test_without_anything_that_keeps_an_answer_leaves_at_once() -> None:
    parts = Parts(keeper=lambda context, cells: Nothing())
    group = parts.running(prompt(1, 10), ((7, 8, 9),))
    group.lead.finish_reason = "length"
    ending(parts).finish_if_done(group)
    assert parts.groups.closing == []
    assert parts.cells.num_used == 0


class Nothing(KeepsNothing):
    """Asserts that it holds nothing, and reports so."""

    def held(self) -> list[Any]:
        return []


def test_an_answer_of_several_gives_its_cells_back_while_others_go_on() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8), (5, 6)))
    group.sequences[0].finish_reason, group.sequences[0].num_of_stop = "stop", 1
    ends = ending(parts)
    ends.finish_if_done(group)
    assert parts.events == []
    assert group.sequences[0].held is None
    assert parts.groups.running == [group]
    group.sequences[1].finish_reason, group.sequences[1].num_of_stop = "stop", 1
    ends.finish_if_done(group)
    assert len(parts.events) == 1
    assert is_gone(parts, group)


def test_who_has_written_nothing_and_finds_no_cells_fails_in_a_sentence() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((),), 5)
    ending(parts).cut(group)
    (failed,) = parts.events
    assert isinstance(failed, RequestFailed)
    assert isinstance(failed.error, NoCells)
    assert is_gone(parts, group)


def test_who_has_written_something_is_cut_by_its_length_and_all_of_it_told() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8),))
    group.lead.stream = TextStream(("8 9",))
    group.lead.stream.feed(b"8 ")
    group.lead.num_untold = 1
    ending(parts).cut(group)
    assert parts.events == [
        TextWritten(group.request_id, "8 ", 1, 0),
        RequestFinished(group.request_id, (Written("8 ", (7, 8), "length"),)),
    ]
    assert len(parts.groups.closing) == 1
    assert is_gone(parts, group)


def test_beams_that_are_cut_tell_what_the_search_has_found() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7,), (8,)))
    group.beams = ScriptedBeams(found=[Hypothesis((7, 5), "length")])
    ending(parts).cut(group)
    assert parts.events == [RequestFinished(group.request_id, (Written("7 5 ", (7, 5), "length"),))]
    assert parts.keeper.kept == []
    assert parts.groups.closing == []
    assert is_gone(parts, group)


def test_a_failure_keeps_nothing_of_the_answer() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8),))
    parts.groups.suspects.append(group)
    error = DecodeFailed("The model stopped computing.", "Ask again.")
    ending(parts).fail(group, error)
    assert parts.events == [RequestFailed(group.request_id, error)]
    assert parts.keeper.kept == []
    assert is_gone(parts, group)


def test_what_was_saved_of_a_preempted_answer_goes_with_it() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8),))
    group.has_read_prompt = True
    parts.admission.preempt(group)
    assert parts.residence.saved_bytes > 0
    ending(parts).cancel(group)
    assert parts.residence.saved_bytes == 0
    assert kept(parts) == []
    assert is_gone(parts, group)


def test_of_an_answer_that_was_preempted_while_it_was_read_only_what_is_there_is_kept() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), ((7, 8, 9),), lacks=2)
    group.lead.finish_reason, group.lead.num_of_stop = "stop", 1
    ending(parts).finish_if_done(group)
    assert kept(parts) == [11]


def test_whose_prompt_is_not_in_cells_again_leaves_nothing() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((7, 8, 9),), 6)
    group.has_read_prompt = True
    ending(parts).cancel(group)
    assert kept(parts) == []
    assert parts.groups.closing == []
    assert is_gone(parts, group)


def test_an_end_lets_those_who_wait_try_again() -> None:
    parts = Parts(max_running=1)
    group, waiting = parts.running(prompt(1, 10), ((7,),)), parts.waiting(prompt(30, 10))
    parts.admission.admit()
    parts.admission.hold_back()
    ending(parts).fail(group, DecodeFailed("The model stopped computing.", "Ask again."))
    parts.admission.admit()
    assert parts.groups.running == [waiting]


def test_segments_of_an_answer_are_kept_behind_those_of_its_prompt() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10, 10), ((7, 8, 9),))
    group.lead.finish_reason, group.lead.num_of_stop = "stop", 1
    ending(parts).finish_if_done(group)
    assert (*prompt(1, 10, 10), Segment((7, 8))) in parts.keeper.nodes
