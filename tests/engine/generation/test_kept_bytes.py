"""Tests for engine.generation.kept_bytes: what a slow disk delays, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.generation import cache_io
from engine.generation.moves import MAX_WRITING, Moves
from tests.helpers.kept import Room, passage, turn
from tests.helpers.slow_disk import SlowDisk

PAGE = 4096
# Two nodes of 32 tokens are in a page, and the memory of most tests has room for sixteen.
MEMORY = 8 * PAGE
PLENTY = 2**20


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path / "kept")
    room.set_budgets(0, MEMORY, PLENTY)
    yield room
    room.close()
    assert room.ledger.spans() == ()
    assert room.cells.num_free == room.cells.num_cells


@pytest.fixture
def disk(room, monkeypatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(cache_io, "write_file", disk.write_file)
    yield disk
    disk.may_go_on.set()


@pytest.fixture
def no_waiting(monkeypatch) -> list[float | None]:
    """Every time that the generation thread waited for the disk."""
    waits: list[float | None] = []
    wait = Moves.wait
    monkeypatch.setattr(Moves, "wait", lambda self, seconds: (waits.append(seconds), wait(self, seconds)))
    return waits


def in_memory(room: Room) -> int:
    return room.keeper.figures().ram.num_nodes


def test_keeping_waits_for_no_disk_however_full_memory_is(room, disk, no_waiting):
    for document in range(1, 80):
        room.ask([passage(document)], seconds=document)
        assert room.ledger.held_bytes("ram", "kv") <= MEMORY
    assert no_waiting == []
    # Its thread may have had no time yet to begin.
    assert disk.has_begun.wait(10)
    assert len(disk.begun) == 1
    disk.may_go_on.set()
    room.settle()
    room.check()


def test_cells_are_given_back_though_the_disk_is_slow(room, disk, no_waiting):
    room.set_budgets(64, PAGE * 2, PLENTY)
    for document in range(1, 20):
        room.ask([passage(document)], seconds=document)
        assert room.keeper.free_cells(64) <= 64
    assert room.cells.num_used == 0
    assert no_waiting == []


def test_a_node_that_is_being_written_may_leave_its_cells(room, disk):
    room.set_budgets(PLENTY, MEMORY, PLENTY)
    room.ask([passage(1)])
    assert room.keeper.flush() == 1
    assert room.keeper.free_cells(32) == 32
    disk.may_go_on.set()
    room.settle()
    room.check()


def test_only_so_much_is_on_its_way_at_a_time(room, disk):
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    for document in range(1, 40):
        room.ask([passage(document)])
    assert room.keeper.flush() == MAX_WRITING
    assert room.keeper.flush() == 0
    assert room.keeper.is_behind
    disk.may_go_on.set()
    while room.keeper.is_behind:
        room.settle()
        room.keeper.flush()
    assert room.keeper.figures().disk.num_nodes == 39


def test_where_the_disk_is_behind_what_is_worth_less_is_not_kept(room, disk):
    for document in (*range(1, 16), *range(1, 16)):
        room.ask([passage(document)])
    full = in_memory(room)
    room.ask([passage(50)])
    assert room.keeper.peek([passage(50)]) == 0
    assert in_memory(room) == full
    for _ in range(2):
        room.ask([passage(50)])
    assert room.keeper.peek([passage(50)]) == 32
    assert in_memory(room) == full


def test_what_was_dear_once_makes_way_in_the_end_though_nothing_can_be_written(room):
    room.set_budgets(0, MEMORY, 0)
    for document in [*range(1, 16)] * 5:
        room.ask([passage(document)])
    num_tries = 0
    while not room.keeper.peek([passage(50 + num_tries)]) and num_tries < 20:
        num_tries += 1
        room.ask([passage(50 + num_tries)])
    assert 1 < num_tries < 20


def test_what_is_written_leaves_before_anything_is_lost(room, disk):
    disk.may_go_on.set()
    for document in range(1, 15):
        room.ask([passage(document)])
        room.settle()
        room.keeper.flush()
        room.settle()
    for document in range(20, 26):
        room.ask([passage(document)], seconds=1e-6)
    assert all(room.keeper.peek([passage(document)]) for document in (*range(1, 15), *range(20, 26)))
    room.check()


def test_memory_that_is_taken_away_is_given_back_as_it_is_written(room, disk, no_waiting):
    for document in range(1, 13):
        room.ask([passage(document)])
    room.set_budgets(0, PAGE, PLENTY)
    assert no_waiting == []
    assert room.keeper.is_behind
    disk.may_go_on.set()
    room.shrink()
    assert all(room.keeper.peek([passage(document)]) == 32 for document in range(1, 13))
    assert room.ledger.held_bytes("ram", "kv") <= PAGE
    room.check()


def test_memory_that_is_taken_away_is_given_back_at_once_where_there_is_no_disk(room):
    room.set_budgets(0, MEMORY, 0)
    for document in range(1, 13):
        room.ask([passage(document)])
    room.set_budgets(0, PAGE, 0)
    assert room.ledger.held_bytes("ram", "kv") <= PAGE


def test_tokens_are_kept_only_of_what_has_no_file(room, disk):
    disk.may_go_on.set()
    room.ask([passage(1), passage(2)])
    assert all(node.piece.has_tokens for node in room.keeper.tree)
    room.keeper.flush()
    room.settle()
    assert not any(node.piece.has_tokens for node in room.keeper.tree)
    assert room.ask([passage(1), passage(2), turn(1)]) == 64


def test_what_lost_its_file_is_written_again_once_a_prompt_tells_its_tokens(room, disk):
    disk.may_go_on.set()
    room.ask([passage(1)])
    room.keeper.flush()
    room.settle()
    room.set_budgets(0, MEMORY, 0)
    room.set_budgets(0, MEMORY, PLENTY)
    room.keeper.flush()
    room.settle()
    assert room.keeper.figures().disk.num_nodes == 0
    assert room.ask([passage(1)]) == 32
    room.keeper.flush()
    room.settle()
    assert room.keeper.figures().disk.num_nodes == 1
    room.check()
