"""Tests for engine.generation.knowledge: what it takes to find, keep and let go does not grow with what is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engine import generation
from tests.helpers.kept import TOKEN_BYTES, Room, passage, turn

OURS = str(Path(generation.__file__).parent)
FEW, MANY = 50, 500
BLOB_BYTES = 32 * TOKEN_BYTES + 64
# What grows with the depth of a heap, and a heap that happens to be rebuilt.
MOST_GROWTH = 2.0


@pytest.fixture(scope="module", params=["disk", "no disk"])
def rooms(tmp_path_factory, request) -> Iterator[tuple[Room, Room]]:
    """Two keepers, one of which holds ten times as many nodes, all behind the same one; memory is full in both."""
    rooms = []
    for number in (FEW, MANY):
        room = Room(tmp_path_factory.mktemp(f"of-{number}"), num_cells=2**16, num_sequences=64)
        disk_bytes = 2**30 if request.param == "disk" else 0
        room.set_budgets(32 * 8, number * BLOB_BYTES * 5 // 4, disk_bytes)
        for document in range(1, number + 1):
            room.ask([turn(0, 32), passage(document)])
            if not document % 8:
                room.settle()
        for document in range(number, number + number // 2):
            room.ask([turn(0, 32), passage(document)])
            room.settle()
        rooms.append(room)
    yield rooms[0], rooms[1]
    for room in rooms:
        room.keeper.abandon()
        room.files.close()


def lines_of(work: Callable[[], object]) -> int:
    """How many of our own lines `work` runs: what a clock would show on a machine that does nothing else."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


WORK: dict[str, Callable[[Room, int], object]] = {
    "peek": lambda room, _: room.keeper.peek([turn(0, 32), passage(3)]),
    "find and let go": lambda room, _: room.keeper.let_go(room.keeper.find([turn(0, 32), passage(3)])),
    "keep": lambda room, at: room.ask([turn(0, 32), passage(10**4 + at), turn(at + 1)]),
    "free cells": lambda room, _: room.keeper.free_cells(32),
    "figures": lambda room, _: room.keeper.figures(),
    "flush": lambda room, _: room.keeper.flush(4),
    "documents": lambda room, _: (room.keeper.tree.documents(), room.files.documents()),
}


@pytest.mark.parametrize("name", list(WORK))
def test_ten_times_as_many_nodes_take_no_more_lines(rooms, name):
    few, many = ([lines_of(partial(WORK[name], room, at)) for at in range(12)] for room in rooms)
    for room in rooms:
        room.settle()
    # By the longest of few: how many of these found anything to do depends on how far the thread of the files was.
    assert sum(many) <= MOST_GROWTH * len(few) * max(few) + 100
    assert max(many) <= 4 * max(few) + 100
