"""Tests for engine.generation.batching: which tokens of which requests the next batch computes."""

from __future__ import annotations

from typing import Any

import pytest

from engine.generation.batching import Batching, Work
from engine.generation.groups import SequenceGroup
from engine.generation.pass_times import PassTimes
from engine.generation.rows import Filling
from engine.generation.scheduler import (
    ANSWERS_SHARE,
    ANSWERS_SHARE_BEFORE_SCRIPTS,
    SCRIPT_STALL_SECONDS,
    STALL_SECONDS,
    STOP_SECONDS,
)
from engine.generation.sequence import Guess
from tests.helpers.loop_parts import Parts, prompt


class Guesses:
    """Drafts the same tokens each time, as many as are wanted."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = list(tokens)
        self.asked: list[int] = []

    def draft(self, tokens: list[int], max_tokens: int) -> Guess:
        self.asked.append(max_tokens)
        return Guess(self._tokens[:max_tokens])

    def read(self, tokens: list[int], num_read: int) -> None:
        return


def batching(parts: Parts, room: int = 32, costs_a_pass: bool = False, filling: Filling | None = None) -> Batching:
    takes_turns = None if filling is None else lambda: filling
    return Batching(parts.groups, parts.cells, parts.profile, parts.admission, room, costs_a_pass, takes_turns)


def streamed(parts: Parts, room: int) -> Batching:
    times = PassTimes()
    times.begin(0.01, 0.0, 0.0)
    return Batching(parts.groups, parts.cells, parts.profile, parts.admission, room, True, None, times)


def drafting(group: SequenceGroup, *tokens: int) -> Guesses:
    guesses = Guesses(*tokens)
    for sequence in group.sequences:
        sequence.make_drafter = lambda: guesses
    return guesses


def told(works: list[Work]) -> list[tuple[str, int, int, bool]]:
    return [(work.group.request_id, work.num_tokens, work.num_drafted, work.wants_token) for work in works]


def test_with_nobody_there_is_nothing_to_compute() -> None:
    assert batching(Parts()).next() == []


def test_who_writes_gets_a_token_and_a_prompt_what_is_left() -> None:
    parts = Parts()
    reading, writing = parts.running(prompt(1, 40), lacks=40), parts.running(prompt(100, 5), ((7,),))
    works = batching(parts).next()
    assert told(works) == [(reading.request_id, 31, 0, False), (writing.request_id, 1, 0, True)]
    stretches = [work.stretch() for work in works]
    assert [(each.position, list(each.tokens), each.num_logits) for each in stretches] == [
        (0, list(range(1, 32)), 0),
        (5, [7], 1),
    ]
    assert [each.slot for each in stretches] == [reading.lead.held.slot, writing.lead.held.slot]


def test_the_last_chunk_of_a_prompt_wants_a_token() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 40), lacks=8)
    assert told(batching(parts).next()) == [(group.request_id, 8, 0, True)]


def test_a_prompt_of_several_answers_is_read_once() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 10), ((), ()), 9)
    assert told(batching(parts).next()) == [(group.request_id, 1, 0, True)]


def test_a_prompt_is_read_in_pieces_that_somebody_who_cancels_waits_for() -> None:
    parts = Parts(num_cells=2048)
    group = parts.running(prompt(1, 1000), lacks=1000)
    assert told(batching(parts, 512).next()) == [(group.request_id, 512, 0, False)]
    parts.profile.note(0, 512, 512 * STOP_SECONDS / 200)
    assert told(batching(parts, 512).next()) == [(group.request_id, 192, 0, False)]


def test_while_layers_are_read_from_the_disk_a_pass_is_filled() -> None:
    parts = Parts(num_cells=2048)
    group = parts.running(prompt(1, 1000), lacks=1000)
    parts.profile.note(0, 512, 512 * STOP_SECONDS / 200)
    assert told(batching(parts, 512, costs_a_pass=True).next()) == [(group.request_id, 512, 0, False)]
    writing = parts.running(prompt(100, 5), ((7,),))
    works = batching(parts, 512, costs_a_pass=True).next()
    assert told(works) == [(group.request_id, 128, 0, False), (writing.request_id, 1, 0, True)]


def test_while_somebody_writes_a_chunk_is_no_longer_than_a_reader_would_wait() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 256, 256 * STALL_SECONDS / 48.5)
    parts.running(prompt(1, 200), lacks=200)
    assert [work.num_tokens for work in batching(parts, 128).next()] == [128]
    parts.running(prompt(300, 5), ((7,),))
    assert [work.num_tokens for work in batching(parts, 128).next()] == [64, 1]


def test_prompts_and_answers_take_turns_and_answers_have_a_share_of_the_time() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 256, 256 * STALL_SECONDS / 48.5)
    reading, writing = parts.running(prompt(1, 300), lacks=300), parts.running(prompt(300, 5), ((7,),))
    turns = batching(parts, 64, filling=Filling())
    read, wrote = [(reading.request_id, 64, 0, False)], [(writing.request_id, 1, 0, True)]

    def took(seconds: float) -> list[tuple[str, int, int, bool]]:
        batch = told(turns.next())
        turns.note(seconds)
        return batch

    owed = ANSWERS_SHARE * 0.6
    assert [took(0.6), took(owed / 2), took(owed), took(0.6)] == [read, wrote, wrote, read]
    # However little time it took, each answer goes on by a token.
    assert [took(owed), took(0.0), took(0.0)] == [wrote, read, wrote]


def test_a_script_reads_for_a_fifth_of_the_time_beside_an_answer_that_somebody_watches() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 256, 256 * STALL_SECONDS / 48.5)
    parts.running(prompt(1, 500), lacks=500, priority="batch")
    parts.running(prompt(900, 5), ((7,),))
    turns, seconds = batching(parts, 64, filling=Filling()), {64: 0.0, 1: 0.0}
    for _ in range(100):
        (work,) = turns.next()
        # Nothing is computed here: the same prompt is there to be read all the time.
        turns.note(0.5 if work.num_tokens > 1 else 0.02)
        seconds[work.num_tokens] += 0.5 if work.num_tokens > 1 else 0.02
    assert seconds[1] >= 0.9 * ANSWERS_SHARE_BEFORE_SCRIPTS * seconds[64] > 0


def test_a_script_reads_less_at_once_beside_an_answer_that_somebody_watches() -> None:
    parts = Parts(num_cells=4096)
    # As a graphics card reads: both fit into one batch.
    parts.profile.note(0, 1024, 1024 * SCRIPT_STALL_SECONDS / 150)
    script = parts.running(prompt(1, 2000), lacks=2000, priority="batch")
    parts.running(prompt(9_000, 5), ((7,),))
    assert [work.num_tokens for work in batching(parts, 1024).next()] == [128, 1]
    person = parts.running(prompt(20_000, 1500), lacks=1500)
    chunk = {work.group.request_id: work.num_tokens for work in batching(parts, 2048).next()}
    assert chunk[person.request_id] > 128
    assert script.request_id not in chunk


# A token of .6 B parameters with heads of 64: measured where 58 of a prompt and three answers took 1.57 s together.
MEASURED = Filling(cell_cost=0.0014, row_cost=0.0052, pass_cost=8.0)


def test_the_end_of_a_prompt_is_read_apart_from_answers_where_that_is_faster() -> None:
    def batch_of(filling: Filling) -> list[str]:
        parts = Parts(num_cells=4096)
        reading = parts.running(prompt(1, 780), lacks=58, priority="batch")
        writing = [parts.running(prompt(1000 * number, 700), ((7,),), priority="batch") for number in range(1, 4)]
        turns = batching(parts, 128, filling=filling)
        names = {reading.request_id: "read", **{each.request_id: "wrote" for each in writing}}
        batch = turns.next()
        turns.note(0.4)
        return [names[work.group.request_id] for work in batch]

    assert batch_of(MEASURED) == ["read"]
    # Where attention takes little there is nothing to gain.
    assert batch_of(Filling(cell_cost=0.0001)) == ["read", "wrote", "wrote", "wrote"]


def test_of_a_prompt_no_less_than_a_tile_is_left_where_it_is_read_in_tiles() -> None:
    def chunks(*lacking: int, filling: Filling) -> list[int]:
        parts = Parts(num_cells=4096)
        for number, lacks in enumerate(lacking):
            parts.running(prompt(1000 * number, 600), lacks=lacks)
        return [work.num_tokens for work in batching(parts, 128, filling=filling).next()]

    assert chunks(154, filling=MEASURED) == [90]
    assert chunks(154, filling=Filling()) == [128]
    assert chunks(192, filling=MEASURED) == [128]
    assert chunks(128, filling=MEASURED) == [128]
    # Another prompt goes on in the next batch, and shares its tiles.
    assert chunks(154, 400, filling=MEASURED) == [128]
    assert chunks(26, 130, filling=MEASURED) == [26, 66]


def test_where_layers_are_streamed_prompts_and_answers_take_turns_while_that_is_faster() -> None:
    parts = Parts(num_cells=2048)
    reading = parts.running(prompt(1, 600), lacks=600, priority="batch")
    turns = streamed(parts, 64)
    for number in range(1, 6):
        parts.running(prompt(1000 * number, 100), ((7,),), priority="batch")
    apart = [(reading.request_id, 64, 0, False)]
    assert told(turns.next()) == apart
    # Reading takes .03 s of a pass, computing .4 s: with the answers it would be twice as much.
    turns.note(0.4, 0.0, 0.03)
    assert told(turns.next()) == apart


def test_where_layers_are_read_for_long_a_prompt_is_read_in_pieces_beside_answers() -> None:
    parts = Parts(num_cells=2048)
    reading = parts.running(prompt(1, 600), lacks=600, priority="batch")
    turns = streamed(parts, 64)
    writing = [parts.running(prompt(1000 * number, 100), ((7,),), priority="batch") for number in range(1, 6)]
    assert told(turns.next()) == [(reading.request_id, 64, 0, False)]
    # 6 ms a token; layers are read for .2 s of a pass.
    turns.note(0.4, 0.0, 0.2)
    works = told(turns.next())
    assert works[1:] == [(each.request_id, 1, 0, True) for each in writing]
    assert works[0][:1] == (reading.request_id,)
    assert 4 <= works[0][1] < 59
    assert turns.has_piece
    assert (works[0][1] + 5) % 4 == 0
    # Now they are read for longer than all of it is computed.
    for number in range(30):
        turns.note(3.4, 3.2 * (number + 1), 0.2 + 3.4 * (number + 1))
        turns.next()
    assert told(turns.next())[0] == (reading.request_id, 59, 0, False)


def test_beside_an_answer_that_somebody_watches_pieces_are_as_long_as_what_hides() -> None:
    parts = Parts(num_cells=4096)
    reading = parts.running(prompt(1, 1000), lacks=1000)
    parts.profile.note(0, 512, 512 * STALL_SECONDS / 40)
    turns = streamed(parts, 512)
    assert told(turns.next()) == [(reading.request_id, 512, 0, False)]
    writing = parts.running(prompt(2000, 100), ((7,),))
    # 6 ms a token; layers are read for 3.4 s of a pass, in which more are computed than a reader would wait for.
    for number in range(30):
        turns.note(3.4, 3.2 * (number + 1), 3.4 * (number + 1))
        turns.next()
    [(_, num_read, _, _), (other, *_)] = told(turns.next())
    assert other == writing.request_id
    assert num_read > 128


def test_on_a_card_a_chunk_beside_a_reader_makes_a_pass_that_reads_layers_hardly_longer() -> None:
    parts = Parts(num_cells=4096)
    reading = parts.running(prompt(1, 1000), lacks=1000)
    writing = parts.running(prompt(2000, 100), ((7,),))
    turns = batching(parts, 512, costs_a_pass=True)
    # What reading layers takes is spread over as many tokens as there are.
    parts.profile.note(0, 64, 1.5)
    parts.profile.note(0, 512, 1.5 + STALL_SECONDS / 2)
    assert told(turns.next()) == [(reading.request_id, 511, 0, False), (writing.request_id, 1, 0, True)]


def test_whoever_drafts_so_much_that_nothing_hides_drafts_nothing_while_a_prompt_is_read() -> None:
    parts = Parts(num_cells=2048)
    reading = parts.running(prompt(1, 600), lacks=600, priority="batch")
    turns = streamed(parts, 64)
    writing = [parts.running(prompt(1000 * number, 100), ((7,),), priority="batch") for number in range(1, 6)]
    turns.next()
    turns.note(0.4, 0.0, 0.12)
    plain = told(turns.next())
    assert turns.has_piece
    for group in writing:
        drafting(group, 8, 9, 10, 11, 12)
    assert told(turns.next()) == plain
    # With no prompt to read, they do.
    parts.groups.running.remove(reading)
    assert sum(work.num_drafted for work in turns.next()) > 0
    assert not turns.has_piece


def test_a_prompt_that_is_more_urgent_than_all_answers_is_not_read_in_pieces() -> None:
    parts = Parts(num_cells=2048)
    reading = parts.running(prompt(1, 600), lacks=600)
    turns = streamed(parts, 64)
    for number in range(1, 6):
        parts.running(prompt(1000 * number, 100), ((7,),), priority="batch")
    assert told(turns.next()) == [(reading.request_id, 64, 0, False)]
    turns.note(0.4, 0.0, 0.2)
    assert told(turns.next()) == [(reading.request_id, 64, 0, False)]


def test_answers_that_nobody_watches_wait_for_all_prompts_and_are_written_together() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 256, 256 * STALL_SECONDS / 48.5)
    writing = parts.running(prompt(300, 5), ((7,),), priority="batch")
    ended = parts.running(prompt(500, 5), ((7,),))
    parts.groups.running.remove(ended)
    parts.groups.closing.append(ended)
    ended.lead.finish_reason = "length"
    reading = parts.running(prompt(1, 100), lacks=100, priority="batch")
    turns = batching(parts, 64, filling=Filling())

    def took(seconds: float) -> list[str]:
        batch = turns.next()
        for work in batch:
            parts.compute(work.sequence.held, work.stretch().tokens)
        turns.note(seconds)
        return [work.group.request_id for work in batch]

    # What has ended and is only kept delays no request either; the rest of a prompt shares a tile with them.
    assert took(60.0) == [reading.request_id]
    assert set(took(60.0)) == {writing.request_id, reading.request_id, ended.request_id}


def test_beside_an_unwatched_answer_a_chunk_is_as_long_as_nobody_notices() -> None:
    parts = Parts(num_cells=2048)
    parts.profile.note(0, 512, 512 * STOP_SECONDS / 200)
    parts.running(prompt(300, 5), ((7,),), priority="batch")
    parts.running(prompt(1, 1000), lacks=1000, priority="batch")
    assert [work.num_tokens for work in batching(parts, 512).next()] == [1, 192]


def test_what_is_read_ahead_waits_for_who_writes_and_takes_no_turns() -> None:
    parts = Parts(num_cells=2048)
    writing = parts.running(prompt(300, 5), ((7,),))
    idle = parts.running(prompt(400, 90), lacks=90, priority="idle")
    turns = batching(parts, 64, filling=Filling())
    for _ in range(2):
        assert told(turns.next()) == [(writing.request_id, 1, 0, True)]
        turns.note(0.1)
    parts.groups.running.remove(writing)
    assert told(turns.next()) == [(idle.request_id, 64, 0, False)]


def test_a_suspect_is_computed_alone() -> None:
    parts = Parts()
    first, second = parts.running(prompt(1, 5), ((7,),)), parts.running(prompt(100, 5), ((8,),))
    parts.groups.suspects[:] = [second, first]
    assert told(batching(parts).next()) == [(second.request_id, 1, 0, True)]


def test_the_last_token_of_an_answer_that_has_ended_is_computed_and_no_other_wanted() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 5), ((7,),))
    parts.groups.running.remove(group)
    parts.groups.closing.append(group)
    group.lead.finish_reason = "length"
    assert told(batching(parts).next()) == [(group.request_id, 1, 0, False)]


def test_a_draft_is_computed_behind_the_token_before_it() -> None:
    parts = Parts()
    group = parts.running(prompt(1, 5), ((7,),))
    guesses = drafting(group, 8, 9, 10)
    (work,) = batching(parts).next()
    assert (work.num_tokens, work.num_drafted) == (1, 3)
    assert list(work.stretch().tokens) == [7, 8, 9, 10]
    assert work.stretch().num_logits == 4
    # Of eight tokens one is written, and the last needs no draft.
    assert guesses.asked == [6]


def test_no_more_is_drafted_than_may_still_be_written() -> None:
    parts = Parts()
    almost, last = parts.running(prompt(1, 5), ((7,) * 6,)), parts.running(prompt(100, 5), ((7,) * 7,))
    guesses = [drafting(group, 8, 9, 10) for group in (almost, last)]
    assert told(batching(parts).next()) == [(almost.request_id, 1, 1, True), (last.request_id, 1, 0, True)]
    assert [each.asked for each in guesses] == [[1], []]


def test_many_share_the_room_for_drafts() -> None:
    parts = Parts()
    groups = [parts.running(prompt(20 * number + 1, 5), ((7,),)) for number in range(8)]
    guesses = [drafting(group, 8, 9, 10, 11, 12) for group in groups]
    works = batching(parts, 32).next()
    assert all(each.asked == [4] for each in guesses)
    assert sum(work.num_tokens + work.num_drafted for work in works) == 32


@pytest.mark.parametrize(("written", "lacks"), [((), 1), ((7, 8), 2)])
def test_who_reads_drafts_nothing(written: tuple[int, ...], lacks: int) -> None:
    parts = Parts()
    group = parts.running(prompt(1, 5), (written,), lacks=lacks)
    guesses = drafting(group, 9)
    assert [work.num_drafted for work in batching(parts).next()] == [0]
    assert guesses.asked == []


def test_no_more_is_computed_than_cells_are_free() -> None:
    parts = Parts(num_cells=16)
    parts.running(prompt(1, 20), lacks=10)
    parts.running(prompt(100, 5), ((7,),))
    assert [work.num_tokens for work in batching(parts).next()] == [1]


def test_a_sequence_without_cells_cannot_be_computed() -> None:
    parts = Parts()
    group: Any = parts.waiting(prompt(1, 5))
    with pytest.raises(ValueError, match="without cells"):
        Work(group, group.lead, 5).stretch()
