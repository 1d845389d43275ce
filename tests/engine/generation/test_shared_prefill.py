"""Tests for engine.generation.shared_prefill."""

from __future__ import annotations

from pathlib import Path

from engine.generation.shared_prefill import ReadingTrail, ReadSoFar, shared_segments_tokens
from engine.generation.trail import after
from tests.helpers.kept import Room, passage, turn

OPENING = turn(0, 32)


def test_prompts_share_whole_segments_from_the_start():
    first, second, third = passage(1), passage(2), passage(3)
    shared = len(OPENING.tokens) + len(first.tokens)
    assert shared_segments_tokens([OPENING, first, second], [OPENING, first, third]) == shared
    assert shared_segments_tokens([OPENING, first], [OPENING, first, third]) == shared
    assert shared_segments_tokens([first, second], [second, first]) == 0


def test_what_was_read_so_far_is_of_use_to_prompts_that_begin_with_all_of_it(tmp_path: Path):
    first, second, third = passage(1), passage(2), passage(3)
    read = ReadSoFar((OPENING, first, second), len(OPENING.tokens) + 1)
    assert read.shared_tokens([OPENING, first, third]) == read.num_tokens
    assert read.is_of_use_to([OPENING, first, third])
    assert read.shared_tokens([OPENING, third]) == len(OPENING.tokens)
    assert not read.is_of_use_to([OPENING, third])
    assert ReadSoFar().is_of_use_to([third])
    room = Room(tmp_path)
    trail = room.keeper.trail()
    assert trail is not None
    # The passage that it is within counts, and what comes behind it does not.
    assert read.along(trail).being_read == ((OPENING, first),)
    room.close()


def test_a_beginning_is_followed_along_what_is_kept_and_along_what_is_being_read(tmp_path: Path):
    room = Room(tmp_path)
    room.set_budgets(4096, 0, 0)
    room.ask([OPENING, passage(1), passage(2)])
    trail = ReadingTrail(room.keeper.trail(), ((OPENING, passage(3), passage(1)), (OPENING, passage(4))))
    for known in ([1], [1, 2], [3], [3, 1], [4]):
        followed = after(trail, [OPENING, *map(passage, known)])
        assert followed is not None
        assert followed.is_whole
    for unknown in ([2], [3, 2], [4, 1], [1, 3], [3, 1, 1]):
        assert after(trail, [OPENING, *map(passage, unknown)]) is None
    room.close()


def test_what_is_too_short_to_be_kept_by_itself_is_whole_only_where_it_is_being_read(tmp_path: Path):
    room, short = Room(tmp_path), turn(5, 3)
    room.set_budgets(4096, 0, 0)
    room.ask([OPENING, passage(1), short, passage(2)])
    kept = after(ReadingTrail(room.keeper.trail(), ()), [OPENING, passage(1), short])
    assert kept is not None
    assert not kept.is_whole
    being_read = after(ReadingTrail(None, ((OPENING, short),)), [OPENING, short])
    assert being_read is not None
    assert being_read.is_whole
    room.close()
