"""Tests for engine.generation.residence, on a context whose keys and values can be checked."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.errors import NoCells
from engine.generation.groups import SequenceGroup
from tests.helpers.loop_parts import TOKEN_BYTES, Parts, ScriptedBeams, prompt


def leave(parts: Parts, group: SequenceGroup) -> bool:
    """As when a request is preempted: whether it was saved."""
    is_saved = parts.residence.save(group)
    parts.residence.leave(group)
    parts.groups.running.remove(group)
    parts.groups.waiting.append(group)
    assert all(sequence.held is None for sequence in group.sequences)
    return is_saved


def computed(parts: Parts, group: SequenceGroup, num_tokens: int) -> SequenceGroup:
    """The group with what is kept of it in cells, and its tokens computed up to this number."""
    group.found = parts.keeper.find(group.request.segments)
    parts.residence.settle(group)
    parts.compute(group.lead.held, group.lead.tokens[:num_tokens])
    parts.groups.waiting.remove(group)
    parts.groups.running.append(group)
    return group


def num_computed(group: SequenceGroup) -> list[int]:
    return [sequence.num_computed for sequence in group.sequences]


def test_a_new_request_gets_what_is_kept_but_always_computes_its_last_token() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20, 10))
    whole, longer = parts.waiting(prompt(1, 20, 10)), parts.waiting(prompt(1, 20, 10, 5))
    for group in (whole, longer):
        group.found = parts.keeper.find(group.request.segments)
    assert [parts.residence.settle(group) for group in (whole, longer)] == [29, 30]
    assert (num_computed(whole), num_computed(longer)) == ([29], [30])
    parts.check()


def test_where_no_sequence_number_is_left_nothing_changes() -> None:
    parts = Parts(num_sequences=1)
    parts.running(prompt(1, 10))
    group = parts.waiting(prompt(20, 10))
    with pytest.raises(NoCells):
        parts.residence.settle(group)
    assert group.lead.held is None
    parts.check()


def test_a_saved_answer_is_loaded_as_it_was() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    assert leave(parts, group)
    assert parts.cells.num_used == 0
    assert parts.residence.saved_bytes == group.lead.saved[0].num_bytes > 32 * TOKEN_BYTES
    parts.residence.settle(group)
    assert num_computed(group) == [32]
    assert parts.residence.saved_bytes == 0
    assert not group.is_swapped
    parts.check()


def test_what_was_saved_can_be_moved_to_the_disk_and_is_loaded_from_there(tmp_path: Path) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    assert leave(parts, group)
    saved, state = parts.residence.saved_bytes, group.lead.saved[0].state.copy()
    assert parts.residence.spill(group, tmp_path)
    assert parts.residence.spill(group, tmp_path)
    assert (parts.residence.saved_bytes, parts.residence.spilled_bytes) == (0, saved)
    np.testing.assert_array_equal(group.lead.saved[0].state, state)
    # Nothing of it survives a process.
    assert list(tmp_path.iterdir()) == []
    parts.residence.settle(group)
    assert num_computed(group) == [32]
    assert (parts.residence.saved_bytes, parts.residence.spilled_bytes) == (0, 0)
    parts.check()


def test_whoever_leaves_while_memory_is_short_is_saved_on_the_disk(tmp_path: Path) -> None:
    parts = Parts()
    parts.residence.disk_folder = tmp_path / "not yet there"
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    assert leave(parts, group)
    assert parts.residence.saved_bytes == 0
    assert parts.residence.spilled_bytes == group.lead.saved[0].num_bytes > 0
    parts.residence.forget(group)
    assert parts.residence.spilled_bytes == 0


@pytest.mark.expects_warnings
def test_where_the_disk_has_no_room_an_answer_is_read_again(tmp_path: Path) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    assert leave(parts, group)
    (tmp_path / "file").touch()
    assert not parts.residence.spill(group, tmp_path / "file")
    assert (parts.residence.saved_bytes, parts.residence.spilled_bytes) == (0, 0)
    parts.residence.settle(group)
    assert num_computed(group) == [0]
    parts.check()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("lack", [0, 1])
def test_an_answer_that_waits_leaves_the_disk_what_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: int
) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    assert leave(parts, group)
    reserve, free = 1000, 1000 + parts.residence.saved_bytes - lack
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=10 * reserve, free=free))
    assert parts.residence.spill(group, tmp_path) == group.is_swapped == (not lack)
    parts.residence.forget(group)
    parts.check()


def test_what_is_kept_is_not_saved_and_found_again() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 30))
    group = computed(parts, parts.waiting(prompt(1, 30, 10)), 40)

    assert [part.start for part in parts.residence.parts(group)] == [30]
    assert leave(parts, group)
    assert [(part.start, part.end) for part in group.lead.saved] == [(30, 40)]
    group.found = parts.keeper.find(group.request.segments)
    assert parts.residence.settle(group) == 30
    assert num_computed(group) == [39]
    parts.check()


def test_more_that_was_kept_meanwhile_is_taken_instead_of_what_was_saved() -> None:
    parts = Parts()
    segments = prompt(1, 30, 10)
    parts.keep(segments[0])
    group = computed(parts, parts.waiting(segments, ((7, 8),)), 41)
    assert leave(parts, group)

    parts.keep(*segments)
    group.found = parts.keeper.find(segments)
    assert parts.residence.settle(group) == 40
    assert num_computed(group) == [41]
    parts.check()


def test_without_what_was_kept_the_rest_that_was_saved_is_of_no_use() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 30))
    group = computed(parts, parts.waiting(prompt(1, 30, 10)), 40)
    assert leave(parts, group)

    parts.keeper.forget_all()
    group.found = None
    assert parts.residence.settle(group) == 0
    assert num_computed(group) == [0]
    assert parts.residence.saved_bytes == 0
    parts.check()


@pytest.mark.parametrize("is_swapped", [True, False])
def test_several_answers_save_and_share_their_prompt_once(is_swapped: bool) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9), (4, 5)))
    assert parts.cells.num_used == 30 + 2 + 1
    if is_swapped:
        assert leave(parts, group)
        assert [(part.start, part.end) for each in group.sequences for part in each.saved] == [(0, 32), (30, 31)]
    else:
        parts.residence.leave(group)
    parts.residence.settle(group)
    assert num_computed(group) == ([32, 31] if is_swapped else [0, 0])
    assert parts.cells.num_used == (33 if is_swapped else 0)
    assert group.has_forked == is_swapped
    assert [count for _, count in group.due()] == ([1, 1] if is_swapped else [30])


@pytest.mark.parametrize("is_swapped", [True, False])
def test_beams_share_all_that_they_begin_with_again(is_swapped: bool) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9, 2, 3), (7, 8, 9, 4, 5)))
    group.beams = ScriptedBeams()
    assert group.shared_length == 33
    if is_swapped:
        assert leave(parts, group)
        assert [(part.start, part.end) for each in group.sequences for part in each.saved] == [(0, 34), (33, 34)]
    else:
        parts.residence.leave(group)
    parts.residence.settle(group)
    assert parts.cells.num_used == (33 + 1 + 1 if is_swapped else 0)
    assert [count for _, count in group.due()] == ([1, 1] if is_swapped else [33])
    assert group.num_tokens == 33 + 2 + 2


def test_beams_that_differ_in_their_last_token_only_compute_it_each() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 30), ((7, 8), (7, 9), (7, 10)))
    group.beams = ScriptedBeams()
    assert group.shared_length == 31
    group.sequences[2].finish_reason = "stop"
    group.sequences[1].tokens[-1] = 8
    assert group.shared_length == 31


@pytest.mark.parametrize("what", ["saves", "loads"])
def test_what_cannot_be_saved_or_loaded_is_read_again(what: str) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8, 9),))
    setattr(parts.context, what, False)
    assert leave(parts, group) == (what == "loads")
    parts.residence.settle(group)
    assert num_computed(group) == [0]
    assert parts.residence.saved_bytes == 0
    parts.check()


def test_a_part_that_needs_a_sequence_number_is_not_saved_where_none_is_left() -> None:
    parts = Parts(num_sequences=2)
    group = parts.running(prompt(1, 30), ((7, 8), (9, 10)))
    assert not parts.residence.save(group)
    assert not group.is_swapped
    assert all(sequence.saved == [] for sequence in group.sequences)
    assert parts.residence.saved_bytes == 0
    parts.check()


def test_answers_that_find_no_sequence_number_to_come_back_to_are_read_again() -> None:
    parts = Parts(num_sequences=4)
    group = parts.running(prompt(1, 30), ((7, 8), (9, 10)))
    assert leave(parts, group)
    others = [parts.cells.open() for _ in range(2)]
    parts.residence.settle(group)
    assert num_computed(group) == [0, 0]
    assert not group.has_forked
    assert group.sequences[1].held is None
    for held in others:
        parts.residence.close(held)
    parts.check()


def test_answers_that_find_too_few_cells_are_read_again() -> None:
    parts = Parts(num_cells=64)
    group = parts.running(prompt(1, 30), ((7, 8, 9), (4, 5, 6)))
    assert leave(parts, group)
    other = parts.running(prompt(200, 31), lacks=0)
    parts.residence.settle(group)
    assert num_computed(group) == [0, 0]
    parts.check()
    assert other.lead.num_computed == 31


def test_with_what_was_only_the_leads_the_others_are_not_loaded() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8), (9, 10)))
    assert leave(parts, group)
    # As when it had left before its prompt was read to the end.
    group.sequences[0].saved.clear()
    parts.residence.settle(group)
    assert num_computed(group) == [0, 0]
    assert not group.has_forked


def test_a_model_that_cannot_share_is_moved_whole() -> None:
    parts = Parts(can_share_prefixes=False)
    group = parts.running(prompt(1, 30), ((7, 8), (9, 10)))
    assert [(part.start, part.num_tokens) for part in parts.residence.parts(group)] == [(0, 31), (0, 31)]
    assert leave(parts, group)
    parts.residence.settle(group)
    assert num_computed(group) == [31, 31]
    parts.check()


def test_a_model_that_cannot_rewind_forgets_everything_instead() -> None:
    parts = Parts(can_share_prefixes=False)
    group = parts.running(prompt(1, 30), ((7, 8),))
    parts.residence.trim(group.lead, 40)
    assert num_computed(group) == [31]
    parts.residence.trim(group.lead, 20)
    assert num_computed(group) == [0]
    parts.check()


def test_what_a_failed_batch_left_behind_the_last_position_is_forgotten() -> None:
    parts = Parts()
    group, waiting = parts.running(prompt(1, 30), ((7, 8),)), parts.waiting(prompt(50, 10))
    parts.context.read(group.lead.held.slot, 31, [8, 9, 10])
    parts.residence.roll_back(group.lead)
    parts.residence.roll_back(waiting.lead)
    assert num_computed(group) == [31]
    parts.check()


def test_nobody_shares_with_a_sequence_that_has_no_cells() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 30), ((7,), (8,)))
    with pytest.raises(ValueError, match="has none"):
        parts.residence.fork(*group.sequences, 30)


def test_a_request_without_cells_has_nothing_that_could_be_saved() -> None:
    parts = Parts()
    group = parts.waiting(prompt(1, 30))
    assert parts.residence.parts(group) == []
    parts.residence.forget(group)
    assert parts.residence.saved_bytes == 0


def test_how_fast_it_goes_is_learned_from_what_was_moved() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 30), ((7, 8),))
    before = parts.residence.rates
    save, load = parts.context.save, parts.context.load

    def slowly(move):
        def moved(*arguments):
            parts.time.now += 0.01
            return move(*arguments)

        return moved

    parts.context.save, parts.context.load = slowly(save), slowly(load)
    assert leave(parts, group)
    parts.residence.settle(group)
    assert parts.residence.rates.save < before.save
    assert parts.residence.rates.load < before.load


def in_turn(parts: Parts, count: int, num_tokens: int = 20) -> list[SequenceGroup]:
    """Requests whose tokens were computed one after the other, so that their cells lie scattered."""
    groups = [parts.reading(prompt(30 * number, num_tokens), ((),), 0) for number in range(count)]
    for end in range(1, num_tokens):
        for group in groups:
            parts.compute(group.lead.held, group.lead.tokens[:end])
    return groups


def lie_together(group: SequenceGroup) -> bool:
    assert group.lead.held is not None
    cells = group.lead.held.cells
    return cells == list(range(cells[0], cells[0] + len(cells)))


def test_scattered_answers_are_put_side_by_side_as_they_were() -> None:
    parts = Parts(num_cells=80)
    groups = in_turn(parts, 4)
    assert not any(map(lie_together, groups))
    assert parts.residence.gather(groups) == []
    assert all(map(lie_together, groups))
    assert (parts.cells.num_used, parts.residence.saved_bytes) == (4 * 19, 0)
    parts.check()


def test_what_others_share_stays_where_it_is() -> None:
    parts = Parts()
    parts.keep(*prompt(1, 20))
    behind_kept = computed(parts, parts.waiting(prompt(1, 20, 10)), 25)
    forked = parts.running(prompt(60, 10), ((7, 8), (9, 10)))
    before = [sequence.held.cells.copy() for sequence in (behind_kept.lead, *forked.sequences)]
    (other,) = in_turn(parts, 1)
    assert parts.residence.own_bytes(forked) == 0
    used = parts.cells.num_used
    assert parts.residence.gather([behind_kept, forked, other]) == []
    assert [sequence.held.cells[:20] for sequence in (behind_kept.lead, *forked.sequences)] == [
        cells[:20] for cells in before
    ]
    assert parts.cells.num_used == used
    parts.check()


def test_who_shares_cells_behind_a_gap_is_not_moved() -> None:
    parts = Parts()
    (group,) = in_turn(parts, 1)
    other = parts.cells.open(10)
    parts.cells.share(group.lead.held, other, 10, 15)
    parts.context.copy(group.lead.held.slot, other.slot, 10, 15)
    cells = group.lead.held.cells.copy()
    assert parts.residence.gather([group]) == []
    assert group.lead.held.cells == cells
    parts.residence.close(other)
    parts.check()


def test_whose_cells_cannot_be_written_again_has_to_leave() -> None:
    parts = Parts()
    groups = in_turn(parts, 2)
    parts.context.loads = False
    assert parts.residence.gather(groups) == groups
    for group in groups:
        parts.admission.take_back(group)
    assert parts.cells.num_used == 0
    assert set(parts.groups.waiting) == set(groups)
    parts.check()
