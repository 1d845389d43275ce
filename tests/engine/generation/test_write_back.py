"""Tests for engine.generation.write_back: what is kept when there is little time to write it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.generation import cache_io
from engine.generation.cache_thread import Urgency
from tests.helpers.kept import Room, passage, turn
from tests.helpers.slow_disk import SlowDisk

PLENTY = 2**22
NODES = 40


@pytest.fixture
def disk(monkeypatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(cache_io, "write_file", disk.write_file)
    yield disk
    disk.may_go_on.set()


@pytest.fixture
def room(tmp_path: Path, disk: SlowDisk) -> Iterator[Room]:
    room = Room(tmp_path / "kept", now=lambda: disk.now)
    room.set_budgets(0, PLENTY, PLENTY)
    yield room
    room.files.close()
    assert room.ledger.spans() == ()
    assert room.cells.num_free == room.cells.num_cells


def reopened(room: Room, disk: SlowDisk) -> Room:
    disk.may_go_on.set()
    room.files.close()
    room.open()
    room.set_budgets(0, PLENTY, PLENTY)
    return room


def kept(room: Room) -> list[int]:
    return [document for document in range(1, NODES + 1) if room.keeper.peek([passage(document)])]


def test_what_is_worth_most_is_written_first(room, disk):
    for document in range(1, NODES + 1):
        for _ in range(document % 7 + 1):
            room.ask([passage(document)])
    worth = {node.key.hex(): node.frequency * node.cost_per_token for node in room.keeper.tree}
    disk.may_go_on.set()
    room.keeper.close(10.0)
    written = [worth[path.stem] for path in disk.written]
    assert len(written) == NODES
    assert written == sorted(written, reverse=True)


def test_when_time_is_over_the_rest_is_not_kept(room, disk):
    for document in range(1, NODES + 1):
        for _ in range(document):
            room.ask([passage(document)])
    disk.stops_after = 4
    room.keeper.close(0.1)
    assert len(disk.written) == 4
    assert kept(reopened(room, disk)) == [37, 38, 39, 40]


def test_a_path_is_written_from_its_beginning(room, disk):
    room.ask([passage(1), passage(2), passage(3)])
    # Its end is worth more than its beginning.
    for node in room.keeper.tree:
        node.frequency = node.start // 32 + 1
    disk.stops_after = 2
    room.keeper.close(0.1)
    assert len(disk.written) == 2
    assert reopened(room, disk).keeper.peek([passage(1), passage(2), passage(3)]) == 64


def test_what_lies_in_cells_alone_is_written_too(room, disk):
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    room.ask([passage(1), turn(1)])
    disk.may_go_on.set()
    room.keeper.close(2.0)
    again = reopened(room, disk)
    assert again.ask([passage(1), turn(1)]) == 52
    again.keeper.close()


def test_closing_waits_for_no_disk_that_has_stopped(room, disk):
    for document in range(1, NODES + 1):
        room.ask([passage(document)])
    room.keeper.close(0.1)
    assert len(disk.begun) == 1
    assert disk.written == []
    room.files.close(0.0)
    assert room.ledger.spans() == ()
    disk.may_go_on.set()
    room.files.close()
    # What was being written had been given up.
    assert disk.written == []
    assert list(room.folder.rglob("*.*")) == []


def test_closing_waits_for_nothing_that_is_being_read(room, disk):
    disk.may_go_on.set()
    room.ask([passage(1)])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    hold = threading.Event()
    room.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    found = room.keeper.find([passage(1)])
    assert not room.keeper.is_ready(found)
    room.keeper.abandon()
    assert room.ledger.held_bytes("ram", "kv") == 0
    hold.set()


def test_closing_with_a_full_disk_ends_at_once(room, disk, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_io, "write_file", full)
    for document in range(1, NODES + 1):
        room.ask([passage(document)])
    room.keeper.close()
    room.files.close()
    assert room.problems.qsize() == 1
