"""Tests for engine.generation.scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.generation.rows import TILE_TOKENS
from engine.generation.scheduler import (
    AGEING_SECONDS,
    ANSWERS_SHARE,
    ANSWERS_SHARE_BEFORE_SCRIPTS,
    MIN_ALONE_TOKENS,
    MIN_CHUNK_TOKENS,
    STALL_SECONDS,
    STOP_SECONDS,
    Candidate,
    Demand,
    Resident,
    answers_share,
    chunk_tokens,
    is_read_soon,
    next_admission,
    pack,
    passed_over,
    rank,
    victim,
    watermark,
    whose_turn,
)

WRITING = Demand(1, 0, 1)
READING = Demand(100, 0, 2)


def test_everybody_who_writes_gets_a_token_before_anybody_reads() -> None:
    assert pack([READING, WRITING, replace(WRITING, arrival=3)], 64, 64, 1000) == [62, 1, 1]


def test_a_prompt_gets_no_more_than_the_chunk() -> None:
    assert pack([WRITING, READING], 64, 16, 1000) == [1, 16]


def test_prompts_are_read_in_order_of_urgency_and_arrival() -> None:
    late, urgent = replace(READING, arrival=3), replace(READING, arrival=9)
    script = replace(READING, rank=1, arrival=1)
    assert pack([script, urgent, late, READING], 250, 250, 1000) == [0, 50, 100, 100]


def test_drafts_come_after_all_tokens_and_before_prompts() -> None:
    assert pack([replace(WRITING, num_drafted=5), WRITING, READING], 10, 10, 1000) == [6, 1, 3]
    assert pack([replace(WRITING, num_drafted=5), WRITING], 4, 4, 1000) == [3, 1]


def test_drafts_take_no_more_rows_of_logits_than_there_are():
    drafting = [replace(WRITING, num_drafted=5), replace(WRITING, num_drafted=5), READING]
    assert pack(drafting, 64, 16, 1000, max_rows=10) == [6, 3, 16]
    assert pack(drafting, 64, 16, 1000, max_rows=3) == [1, 1, 16]
    assert pack(drafting, 64, 16, 1000, max_rows=2) == [1, 1, 16]


def test_no_more_is_computed_than_cells_are_free() -> None:
    assert pack([WRITING, WRITING, READING], 64, 64, 1) == [1, 0, 0]
    assert pack([WRITING, READING], 64, 64, 11) == [1, 10]
    assert pack([WRITING], 64, 64, 0) == [0]


def test_reading_ahead_waits_while_anybody_needs_an_answer() -> None:
    idle = replace(READING, rank=2)
    assert pack([idle], 64, 64, 1000) == [64]
    assert pack([idle, WRITING], 64, 64, 1000) == [0, 1]
    assert pack([idle, replace(READING, rank=1)], 64, 64, 1000) == [0, 64]


def test_a_chunk_is_no_larger_than_somebody_would_wait_for() -> None:
    assert chunk_tokens(512, 0, STOP_SECONDS / 10_000) == 512
    assert chunk_tokens(2048, 0, STOP_SECONDS / 300.5) == 256
    assert chunk_tokens(512, 0, STOP_SECONDS) == MIN_ALONE_TOKENS
    assert chunk_tokens(64, 0, STOP_SECONDS) == 64
    assert chunk_tokens(512, 3, STALL_SECONDS / 200.5) == 192
    assert chunk_tokens(512, 3, STALL_SECONDS / 10_000) == 512
    assert chunk_tokens(16, 3, STALL_SECONDS) == 16
    assert chunk_tokens(512, 3, 0.0) == 512


def test_a_chunk_is_a_tile_at_least_unless_that_takes_too_long_itself() -> None:
    assert chunk_tokens(512, 3, STALL_SECONDS / 48) == TILE_TOKENS
    assert chunk_tokens(512, 3, STOP_SECONDS / TILE_TOKENS) == TILE_TOKENS
    assert chunk_tokens(512, 3, STOP_SECONDS / (TILE_TOKENS - 1)) == MIN_CHUNK_TOKENS


def test_prompts_and_answers_take_turns_where_they_would_share_a_tile() -> None:
    demands = [WRITING, READING, WRITING]
    assert whose_turn(demands, [1, 62, 1], answers_first=False) == [False, True, False]
    assert whose_turn(demands, [1, 62, 1], answers_first=True) == [True, False, True]
    # What is less than a tile is computed token by token.
    assert whose_turn(demands, [1, 61, 1], answers_first=False) == [True, True, True]
    assert whose_turn(demands, [1, 61, 1], answers_first=False, is_faster_apart=True) == [False, True, False]
    # A request that was granted nothing is not in a batch, and one side alone never waits.
    assert whose_turn([*demands, READING], [1, 62, 1, 0], answers_first=False) == [False, True, False, False]
    assert whose_turn([READING, READING], [64, 64], answers_first=True) == [True, True]
    assert whose_turn([WRITING] * 70, [1] * 70, answers_first=False) == [True] * 70


def test_answers_go_on_beside_prompts_only_where_somebody_watches_one_of_them() -> None:
    unwatched = replace(WRITING, rank=1, is_watched=False)
    assert answers_share([WRITING, READING]) == ANSWERS_SHARE
    assert answers_share([WRITING, unwatched, READING]) == ANSWERS_SHARE
    assert answers_share([unwatched, READING]) == 0
    # Waiting long makes an answer more urgent, but no user watches it for that.
    assert answers_share([replace(unwatched, rank=0), READING]) == 0


def test_prompts_of_scripts_have_little_of_the_time_while_somebody_watches_an_answer() -> None:
    script = replace(READING, rank=1, is_watched=False)
    assert answers_share([WRITING, script]) == ANSWERS_SHARE_BEFORE_SCRIPTS
    assert answers_share([WRITING, script, READING]) == ANSWERS_SHARE
    # A request that has waited for long is as urgent as any other.
    assert answers_share([WRITING, replace(script, rank=0)]) == ANSWERS_SHARE
    assert answers_share([WRITING]) == ANSWERS_SHARE


def test_waiting_makes_everything_urgent_in_the_end() -> None:
    assert [rank(priority, 0) for priority in ("interactive", "batch", "idle")] == [0, 1, 2]
    assert rank("idle", AGEING_SECONDS) == 1
    assert rank("idle", 5 * AGEING_SECONDS) == 0


FIRST, SECOND, THIRD = (Candidate(name, arrival, 0) for arrival, name in enumerate(("first", "second", "third")))


def test_the_first_of_the_most_urgent_comes_next() -> None:
    assert next_admission([], 4) is None
    assert next_admission([THIRD, FIRST, SECOND], 4) == FIRST
    assert next_admission([replace(FIRST, rank=1), SECOND], 4) == SECOND


def test_a_preempted_request_comes_before_everybody_new_of_its_rank() -> None:
    preempted = replace(THIRD, is_preempted=True)
    kept = replace(FIRST, cached_tokens=100)
    assert next_admission([kept, SECOND, preempted], 4) == preempted
    assert next_admission([kept, replace(preempted, rank=1)], 4) == kept


def test_whose_prompt_is_kept_comes_first_in_relation_to_what_has_to_be_computed() -> None:
    half = replace(SECOND, cached_tokens=100, compute_tokens=100)
    most = replace(THIRD, cached_tokens=90, compute_tokens=10)
    assert next_admission([FIRST, half, most], 4) == most
    assert passed_over([FIRST, half, most, replace(FIRST, request_id="script", rank=1)], most) == ["first", "second"]


def test_only_a_window_of_requests_may_overtake() -> None:
    kept = replace(THIRD, cached_tokens=100)
    assert next_admission([FIRST, SECOND, kept], 1) == FIRST


def test_nobody_is_passed_over_more_than_the_window() -> None:
    waiting = [replace(FIRST, compute_tokens=100)]
    rounds = 0
    while True:
        newer = Candidate(f"newer {rounds}", 10 + rounds, 0, cached_tokens=100)
        chosen = next_admission([*waiting, newer], 4)
        if chosen == waiting[0]:
            break
        assert passed_over([*waiting, newer], newer) == ["first"]
        waiting = [replace(waiting[0], times_passed=waiting[0].times_passed + 1)]
        rounds += 1
    assert rounds == 4


def test_the_victim_is_the_latest_of_the_least_urgent() -> None:
    residents = [Resident("a", 1, 0), Resident("b", 2, 1), Resident("c", 3, 1), Resident("d", 4, 0)]
    assert victim(residents) == residents[2]
    assert victim([]) is None


def test_a_prompt_gets_cells_when_it_is_read_soon_or_hardly_needs_reading() -> None:
    assert is_read_soon(1000, 0, 512)
    assert is_read_soon(1000, 1023, 512)
    assert not is_read_soon(1000, 1024, 512)
    assert is_read_soon(TILE_TOKENS, 100_000, 512)
    assert not is_read_soon(TILE_TOKENS + 1, 100_000, 512)


def test_a_prompt_that_one_tile_ends_goes_before_a_long_one_that_came_first() -> None:
    long, short = Demand(572, 0, 1), Demand(39, 0, 2)
    assert pack([long, short], 128, 128, 1000) == [89, 39]
    # What is left of the long one goes first as well when it is no more than that.
    assert pack([replace(long, num_tokens=TILE_TOKENS), short], 64, 64, 1000) == [64, 0]
    # Of many that pass it, some wait: the long one is read on with each batch.
    assert pack([long, short, replace(short, arrival=3), replace(short, arrival=4)], 128, 128, 1000) == [64, 39, 25, 0]
    assert pack([replace(short, arrival=0), long, short], 80, 80, 1000) == [39, 2, 39]
    # One that is more urgent is not kept waiting by a short one.
    assert pack([long, replace(short, rank=1)], 128, 128, 1000) == [128, 0]
    assert pack([long, replace(short, num_tokens=TILE_TOKENS + 1)], 128, 128, 1000) == [128, 0]


@pytest.mark.parametrize(("num_cells", "num_writing", "cells"), [(10_000, 0, 100), (1_000, 20, 40), (256, 0, 2)])
def test_the_watermark_leaves_room_for_those_who_write(num_cells: int, num_writing: int, cells: int) -> None:
    assert watermark(num_cells, num_writing) == cells
