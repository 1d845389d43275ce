"""Tests for engine.generation.branching: beams that go on share the cells of those they follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.generation.batching import Work
from engine.generation.branching import Branching
from engine.generation.groups import SequenceGroup
from engine.generation.request import Written
from engine.generation.sequence import Branch, Hypothesis
from engine.generation.vocabulary import Vocabulary
from tests.helpers.loop_parts import PLAIN, Parts, ScriptedBeams, prompt


def branching(parts: Parts) -> Branching:
    vocabulary: Any = Vocabulary(parts.model)  # type: ignore[arg-type]
    return Branching(parts.context, parts.residence, vocabulary)


def computed(parts: Parts, group: SequenceGroup) -> tuple[list[Work], list[int]]:
    """A batch that has computed everything of a group, and the first rows of its works."""
    works, rows, row = [], [], 0
    for sequence in group.live:
        assert sequence.held is not None
        num_tokens = len(sequence.tokens) - sequence.held.end
        parts.compute(sequence.held, sequence.tokens)
        works.append(Work(group, sequence, num_tokens, wants_token=True))
        rows.append(row)
        row += num_tokens
    return works, rows


def search(parts: Parts, written: Sequence[Sequence[int]], *steps: Sequence[Branch]) -> SequenceGroup:
    group = parts.running(prompt(1, 10), written)
    group.beams = ScriptedBeams(steps)
    return group


def test_the_first_beams_all_follow_the_prompt_and_share_it() -> None:
    parts = Parts()
    group = search(parts, ((),), [Branch(0, 7), Branch(0, 8), Branch(0, 9)])
    branching(parts).advance(group, *computed(parts, group))
    assert [sequence.tokens[10:] for sequence in group.sequences] == [[7], [8], [9]]
    assert [sequence.number for sequence in group.sequences] == [0, 1, 2]
    assert parts.cells.num_used == 10
    assert group.has_forked
    parts.check()


def test_a_beam_that_nobody_follows_gives_its_sequence_number_to_the_child_of_another() -> None:
    parts = Parts(num_sequences=2)
    group = search(parts, ((7,), (8,)), [Branch(1, 5), Branch(1, 6)])
    slots = {sequence.held.slot for sequence in group.sequences if sequence.held}
    branching(parts).advance(group, *computed(parts, group))
    assert [sequence.tokens[10:] for sequence in group.sequences] == [[8, 5], [8, 6]]
    assert {sequence.held.slot for sequence in group.sequences if sequence.held} == slots
    assert parts.cells.num_used == 11
    parts.check()


def test_rows_are_those_of_each_beams_last_token() -> None:
    parts = Parts()
    group = search(parts, ((7, 8), (5,)), [Branch(0, 1), Branch(1, 2)])
    works, rows = computed(parts, group)
    branching(parts).advance(group, works, rows)
    assert isinstance(group.beams, ScriptedBeams)
    assert group.beams.rows == [[work.num_tokens - 1 + row for work, row in zip(works, rows, strict=True)]]


def test_no_two_beams_share_a_list_that_one_of_them_changes() -> None:
    parts = Parts()
    group = search(parts, ((),), [Branch(0, 7), Branch(0, 8)])
    branching(parts).advance(group, *computed(parts, group))
    first, second = group.sequences
    for name in ("tokens", "saved", "texts", "unsaid", "draft"):
        assert getattr(first, name) is not getattr(second, name)


def test_those_that_are_ahead_wait_for_the_others_and_compute_their_last_token_again() -> None:
    parts = Parts()
    group = search(parts, ((7, 8), (5, 6)), [Branch(0, 1), Branch(1, 2)])
    works, rows = computed(parts, group)
    behind = group.sequences[1]
    parts.residence.trim(behind, 10)
    branching(parts).advance(group, works, rows)
    assert isinstance(group.beams, ScriptedBeams)
    assert group.beams.rows == []
    assert [count for _, count in group.due()] == [1, 2]
    branching(parts).advance(group, *computed(parts, group))
    assert len(group.beams.rows) == 1
    parts.check()


def test_when_the_search_is_over_every_beam_has_ended() -> None:
    parts = Parts()
    group = search(parts, ((7,), (8,)))
    branching(parts).advance(group, *computed(parts, group))
    assert [sequence.finish_reason for sequence in group.sequences] == ["stop", "stop"]


def test_a_group_that_may_write_nothing_does_not_search() -> None:
    parts = Parts()
    group = search(parts, ((),), [Branch(0, 7)])
    group.lead.max_tokens = 0
    branching(parts).advance(group, *computed(parts, group))
    assert group.lead.tokens[10:] == []


def test_what_was_found_is_told_up_to_its_stop_string() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), sampling=PLAIN.__class__(stop=("8 9",)))
    group.beams = ScriptedBeams(found=[Hypothesis((7, 8), "stop", 9), Hypothesis((7, 5), "length")])
    assert branching(parts).written(group) == (Written("7 ", (7,), "stop"), Written("7 5 ", (7, 5), "length"))
    group.beams = None
    assert branching(parts).written(group) == ()


def test_of_a_token_that_a_stop_string_begins_in_the_text_has_a_part() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 10), sampling=PLAIN.__class__(stop=(" 19 ",)))
    group.beams = ScriptedBeams(found=[Hypothesis((7, 18), "stop", 19)])
    assert branching(parts).written(group) == (Written("7 18", (7,), "stop", is_cut_within=True),)
