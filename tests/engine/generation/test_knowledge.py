"""Tests for engine.generation.knowledge, kept_bytes and kept_cells, on a context whose values can be checked."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.generation import cache_files, cache_io, knowledge
from engine.generation.cache_files import CacheFiles
from engine.generation.cache_thread import Urgency
from engine.generation.cells import Cells
from engine.generation.keeping import Found
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.segment import Segment, tokens_of
from tests.helpers.kept import TOKEN_BYTES, FakeContext, Room, passage, turn

PAGE = 4096
# What a passage of 32 tokens takes in memory, and rather more than that on disk.
BLOB = 32 * TOKEN_BYTES + 16
FILE = BLOB + 500
PLENTY = 2**20
WAIT_SECONDS = 30.0
A, B, C, D = (passage(document) for document in (1, 2, 3, 4))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path / "kept")
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    yield room
    room.close()
    assert room.ledger.spans() == ()
    assert room.cells.num_free == room.cells.num_cells
    assert room.cells.num_free_slots == room.context.num_sequences


def homes(room: Room) -> tuple[int, int, int]:
    figures = room.keeper.figures()
    return figures.cells.num_nodes, figures.ram.num_nodes, figures.disk.num_nodes


def flush(room: Room) -> None:
    while room.keeper.flush():
        room.settle()


def abandon_all(room: Room) -> None:
    for found in list(room.keeper._holds.values()):
        room.keeper.let_go(found)


def broken_for(broken: Path):
    """A way to read headers that fails for one file, as a disk that has a bad place does."""
    read_header = cache_io._read_header

    def read(descriptor: int):
        if broken.stat().st_ino == os.fstat(descriptor).st_ino:
            raise OSError(5, "Input/output error")
        return read_header(descriptor)

    return read


@contextmanager
def holding_the_disk(files: CacheFiles) -> Iterator[None]:
    hold = threading.Event()
    files._thread.put(Urgency.READ, lambda: hold.wait(30))
    try:
        yield
    finally:
        hold.set()


def test_what_was_read_is_found_along_the_path_it_was_read_in(room):
    assert room.ask([A, B, turn(1)]) == 0
    assert room.ask([A, B, turn(2)]) == 64
    assert room.ask([A, C, turn(2)]) == 32
    assert room.ask([B, A]) == 0
    room.check()


def test_kept_in_cells_it_is_shared_and_takes_none(room):
    room.ask([A, B])
    found = room.keeper.find([A, B])
    assert (found.num_tokens, found.num_cells, len(found.path)) == (64, 0, 2)
    free, sequence = room.cells.num_free, room.cells.open()
    assert room.keeper.restore(found, sequence) == 64
    assert room.cells.num_free == free
    assert room.context.num_saves == 0
    room.release(sequence)
    room.keeper.let_go(found)


def test_without_cells_it_goes_to_memory_at_once(room):
    room.set_budgets(0, PLENTY, PLENTY)
    room.ask([A, B])
    assert homes(room) == (0, 2, 0)
    found = room.keeper.find([A, B])
    assert found.num_cells == 64
    room.keeper.let_go(found)
    assert room.ask([A, B, turn(1)]) == 64
    room.check()


def test_a_peek_pins_and_reads_nothing(room):
    room.ask([A, B])
    flush(room)
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    assert room.keeper.peek([A, B, C]) == 64
    assert room.keeper.peek([B]) == 0
    assert homes(room) == (0, 0, 2)


def test_leaving_cells_saves_once_and_ever_after_is_free(room):
    room.ask([A])
    for _ in range(3):
        room.set_budgets(0, PLENTY, PLENTY)
        room.set_budgets(PLENTY, PLENTY, PLENTY)
        assert room.ask([A, turn(1, 10)]) == 32
        assert homes(room)[:2] == (1, 1)
    assert room.context.num_saves == 1


def test_a_file_is_written_once(room):
    room.set_budgets(0, PLENTY, PLENTY)
    room.ask([A, B])
    assert room.keeper.flush() == 2
    room.settle()
    assert room.keeper.flush() == 0
    written = {path: path.stat().st_ino for path in room.folder.rglob("*.kv")}
    room.set_budgets(0, 0, PLENTY)
    room.set_budgets(0, PLENTY, PLENTY)
    assert room.ask([A, B]) == 64
    room.set_budgets(0, 0, PLENTY)
    assert {path: path.stat().st_ino for path in room.folder.rglob("*.kv")} == written


def test_memory_that_is_needed_goes_to_disk_with_the_whole_path(room):
    room.set_budgets(0, PLENTY, PLENTY)
    room.ask([A, B, C])
    room.set_budgets(0, 0, PLENTY)
    room.shrink()
    assert homes(room) == (0, 0, 3)
    room.set_budgets(0, PLENTY, PLENTY)
    assert room.ask([A, B, C]) == 96
    assert homes(room) == (0, 3, 3)
    room.check()


def test_without_memory_and_cells_nothing_is_kept_and_nothing_fails(room):
    room.set_budgets(0, 0, PLENTY)
    assert room.ask([A, B]) == 0
    assert room.ask([A, B]) == 0
    assert len(room.keeper.tree) == 0


def test_budgets_are_kept_and_the_paths_that_are_asked_for_most_stay(room):
    room.set_budgets(0, PAGE * 2, 0)
    for _ in range(4):
        room.ask([A])
    for document in range(10, 16):
        room.ask([passage(document)])
        room.check()
        assert room.keeper.figures().ram.num_bytes <= PAGE * 2
    assert room.keeper.peek([A]) == 32


def test_only_so_many_sequence_numbers_are_taken(tmp_path):
    room = Room(tmp_path, num_sequences=8)
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    for document in range(10):
        room.ask([passage(document)])
    assert room.cells.num_free_slots >= 4
    assert homes(room)[0] == 4
    assert sum(room.keeper.peek([passage(document)]) for document in range(10)) == 320
    room.close()


def test_cells_that_are_wanted_back_are_given_and_nothing_is_lost(room):
    room.ask([A, B, C])
    assert room.keeper.free_cells(40) == 64
    assert room.cells.num_used == 32
    assert homes(room) == (1, 3, 0)
    assert room.keeper.free_cells(1000) == 32
    assert room.keeper.free_cells(1) == 0
    assert room.ask([A, B, C]) == 96


def test_cells_that_a_running_prompt_shares_are_no_use_to_free(room):
    room.ask([A])
    found, sequence = room.keeper.find([A]), room.cells.open()
    room.keeper.restore(found, sequence)
    room.keeper.let_go(found)
    room.ask([B])
    assert room.keeper.free_cells(64) == 32
    assert homes(room)[0] == 1
    room.release(sequence)


def move(room: Room, num_cells: int) -> None:
    """To another context, as applying.py does it."""
    room.context, room.cells = FakeContext(num_cells), Cells(num_cells, 64)
    room.keeper.move(room.context, room.cells)


def test_what_memory_has_no_room_for_passes_through_it_to_the_disk_before_a_context_goes(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    room.keeper.leave_cells(WAIT_SECONDS)
    assert room.cells.num_free == room.cells.num_cells
    move(room, 2048)
    room.settle()
    assert homes(room) == (0, 0, 2)
    assert room.ask([A, B, turn(1)]) == 64
    assert room.keeper.figures().disk.hit_tokens == 64
    # It lies in cells again, and is not written a second time.
    assert homes(room)[0] == 3
    saved = room.context.num_saves
    room.keeper.leave_cells(WAIT_SECONDS)
    assert room.context.num_saves == saved + 1
    assert room.keeper._bytes.slabs.mapped_bytes == 0
    room.settle()
    assert room.keeper._bytes.slabs.passing_bytes == 0
    room.check()


def test_without_memory_for_it_what_was_read_is_found_after_a_restart(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B, C])
    room.restart()
    room.set_budgets(PLENTY, 0, PLENTY)
    assert room.ask([A, B, C]) == 96


def test_without_memory_for_it_idle_time_writes_what_cells_hold_and_their_leaving_costs_nothing(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B, C])
    flush(room)
    assert homes(room) == (3, 0, 3)
    saved = room.context.num_saves
    assert room.keeper.free_cells(96) == 96
    assert room.context.num_saves == saved
    assert room.ask([A, B, C]) == 96


@pytest.mark.parametrize(("computed_tokens", "written"), [(0, 3), (96, 1)])
def test_what_passes_is_waited_for_at_the_end_of_an_answer_and_not_before_its_first_token(
    room, monkeypatch, computed_tokens, written
):
    room.passing_room_bytes = BLOB
    room.set_budgets(0, 0, PLENTY)
    sequence = room.cells.open()
    room.read_rest([A, B, C], sequence)
    kept, wait, hold = room.keeper._bytes, room.keeper._bytes.wait, threading.Event()
    monkeypatch.setattr(knowledge, "WAITS_SECONDS", WAIT_SECONDS)
    # The disk does nothing until a request waits for it.
    monkeypatch.setattr(kept, "wait", lambda seconds=None: (hold.set(), wait(seconds))[1])
    room.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    room.keeper.keep([A, B, C], sequence, 1.0, computed_tokens)
    assert hold.is_set() == (not computed_tokens)
    room.release(sequence)
    room.settle()
    assert homes(room) == (0, 0, written)
    room.check()


def test_what_passes_comes_behind_what_memory_has_room_for(room):
    """The budget has room for the short beginning, and for nothing that follows it."""
    room.set_budgets(PLENTY, PAGE, PLENTY)
    prompt = [turn(1), passage(1, 100), turn(2), passage(2, 100)]
    room.passing_room_bytes = 100 * TOKEN_BYTES + 16
    room.ask(prompt)
    room.restart()
    room.set_budgets(PLENTY, 0, PLENTY)
    assert room.ask(prompt) == 240


def test_what_has_no_room_to_pass_is_forgotten_and_nothing_fails(room):
    room.passing_room_bytes = BLOB - 1
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    flush(room)
    assert not room.keeper.is_behind
    room.keeper.leave_cells(WAIT_SECONDS)
    move(room, 2048)
    assert homes(room) == (0, 0, 0)
    assert room.ask([A, B]) == 0
    room.check()


def test_a_file_is_no_use_while_there_is_no_room_to_pass_and_is_none_the_worse_for_it(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    room.keeper.leave_cells(WAIT_SECONDS)
    room.settle()
    room.passing_room_bytes = 0
    assert room.keeper.find([A, B]).num_tokens == 0
    room.passing_room_bytes = BLOB
    found = room.keeper.find([A, B])
    # It was available when it was looked up, and is not when it is wanted.
    room.passing_room_bytes = 0
    sequence = room.cells.open()
    assert room.keeper.restore(found, sequence) == 0
    room.keeper.let_go(found)
    room.release(sequence)
    room.passing_room_bytes = BLOB
    assert room.ask([A, B]) == 64


@pytest.mark.parametrize("damage", [b"x" * 100, b""])
def test_a_damaged_file_that_passes_is_a_miss_from_there_on(room, damage):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B, C])
    room.keeper.leave_cells(WAIT_SECONDS)
    room.settle()
    node = next(node for node in room.keeper.tree if node.start == 32)
    path = room.keeper._bytes.disk[node].path
    path.write_bytes(path.read_bytes()[:-50] + damage)
    assert room.ask([A, B, C]) == 32
    assert room.ask([A, B, C]) == 96
    room.check()


def test_what_is_being_written_as_it_passes_is_given_from_there(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A])
    with holding_the_disk(room.files):
        assert room.keeper.flush() == 1
        assert room.keeper.free_cells(32) == 32
        assert room.ask([A]) == 32
    room.settle()
    room.check()


def test_what_one_waits_for_on_its_way_to_the_disk_can_be_forgotten(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    with holding_the_disk(room.files):
        assert room.keeper.flush() == 1
        room.keeper.forget({1})
    room.settle()
    assert homes(room) == (0, 0, 0)
    assert room.keeper._bytes.slabs.passing_bytes == 0
    room.check()


def test_what_a_running_prompt_shares_is_not_waited_for(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    found, sequence = room.keeper.find([A, B]), room.cells.open()
    room.keeper.restore(found, sequence)
    room.keeper.let_go(found)
    with holding_the_disk(room.files):
        # The first is begun, since the disk takes one.
        room.keeper.leave_cells()
    room.settle()
    assert homes(room) == (0, 0, 1)
    room.release(sequence)


def test_a_path_that_memory_has_room_for_a_part_of_passes_with_its_end(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, PAGE, PLENTY)
    room.ask([A, B, C, D])
    room.keeper.leave_cells(WAIT_SECONDS)
    move(room, 2048)
    room.settle()
    assert homes(room)[1] == 1
    room.restart()
    room.set_budgets(PLENTY, PAGE, PLENTY)
    assert room.ask([A, B, C, D]) == 128


def test_what_went_with_an_answer_is_held_again_at_nobodys_cost(room):
    room.set_budgets(PLENTY, 0, 0)
    room.ask([A, B])
    found, sequence = room.keeper.find([A, B]), room.cells.open()
    room.keeper.restore(found, sequence)
    room.keeper.let_go(found)
    room.read_rest([A, B, C], sequence)
    room.keeper.leave_cells()
    assert room.keeper.peek([A, B]) == 0
    figures = room.keeper.figures()
    # Not what the answer has from another question, nor what it does not have.
    room.set_budgets(64, 0, 0)
    room.keeper.hold([A, B, C, D], sequence)
    assert (homes(room), room.keeper.peek([A, B, C])) == ((2, 0, 0), 64)
    assert room.keeper.figures().computed_tokens == figures.computed_tokens
    room.check_values([A, B, C], sequence)
    room.release(sequence)
    room.check()
    assert room.ask([A, B, D]) == 64


def test_what_holds_cells_does_not_leave_for_what_may_be_held_again(room):
    room.set_budgets(64, 0, 0)
    sequence = room.cells.open()
    room.read_rest([A, B], sequence)
    room.ask([A, C])
    room.keeper.hold([A, B], sequence)
    assert (room.keeper.peek([A, B]), room.keeper.peek([A, C])) == (32, 64)
    room.release(sequence)
    room.check()


def test_without_time_only_what_the_disk_takes_at_once_is_kept(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B, C])
    with holding_the_disk(room.files):
        room.keeper.leave_cells()
    room.settle()
    assert homes(room) == (0, 0, 1)


def test_a_disk_that_hangs_is_not_waited_for_any_longer_than_that(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B, C])
    with holding_the_disk(room.files):
        room.keeper.leave_cells(0.05)
        assert room.cells.num_free == room.cells.num_cells
    room.settle()
    assert homes(room) == (0, 0, 1)
    room.check()


def test_what_found_no_room_to_pass_in_idle_time_is_written_at_the_end(room):
    room.set_budgets(PLENTY, 0, PLENTY)
    room.ask([A, B])
    flush(room)
    assert homes(room) == (2, 0, 0)
    room.passing_room_bytes = BLOB
    room.restart()
    room.set_budgets(PLENTY, 0, PLENTY)
    assert room.ask([A, B]) == 64


def test_when_cells_fill_up_what_would_leave_next_is_written_before(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(160, 0, PLENTY)
    for document in range(1, 7):
        room.ask([passage(document)])
    room.settle()
    assert homes(room)[0] == 5
    for _ in range(6):
        room.keeper.let_go(room.keeper.find([]))
        room.settle()
    # With the one that has left and told what a token takes.
    assert homes(room) == (5, 0, 6)


def test_who_writes_nothing_begins_no_file(room):
    room.passing_room_bytes = BLOB
    room.set_budgets(0, 0, PLENTY)
    room.keeper.write_nothing()
    room.ask([A, B])
    room.settle()
    assert room.bytes_on_disk() == 0


def test_cells_are_spared_of_what_no_prompt_needs_and_nothing_is_lost(room):
    room.ask([A, B])
    found = room.keeper.find([A])
    room.ask([C])
    room.keeper.spare_cells()
    # What lies below another is of no use in memory without it.
    assert homes(room) == (1, 3, 0)
    room.keeper.let_go(found)
    found, sequence = room.keeper.find([A]), room.cells.open()
    room.keeper.restore(found, sequence)
    room.keeper.let_go(found)
    room.keeper.spare_cells()
    assert homes(room)[0] == 1
    room.release(sequence)
    assert room.ask([A, B]) == 64
    assert room.ask([C]) == 32


def test_cells_are_not_spared_where_memory_has_little_more_room_than_they_have(room):
    room.set_budgets(PLENTY, 2 * PAGE, PLENTY)
    room.ask([A, B, C, D])
    assert room.keeper.free_cells(1) > 0
    assert homes(room)[0] == 3
    room.keeper.spare_cells()
    assert homes(room)[0] == 3


def test_what_a_prompt_waits_for_stays_where_it_is(room):
    room.ask([A, B])
    found = room.keeper.find([A, B])
    assert room.keeper.free_cells(64) == 0
    room.set_budgets(0, 0, 0)
    assert homes(room)[0] == 2
    sequence = room.cells.open()
    assert room.keeper.restore(found, sequence) == 64
    room.release(sequence)
    room.keeper.let_go(found)
    room.keeper.let_go(found)
    assert homes(room) == (0, 0, 0)
    assert len(room.keeper.tree) == 0


def test_pins_are_counted(room):
    room.ask([A])
    first, second = room.keeper.find([A]), room.keeper.find([A])
    room.keeper.let_go(first)
    room.keeper.let_go(first)
    assert room.keeper.free_cells(32) == 0
    room.keeper.let_go(second)
    assert room.keeper.free_cells(32) == 32


def test_a_sequence_number_is_given_back_by_what_shares_all_its_cells_with_a_prompt(room):
    room.ask([A, B])
    found, sequence = room.keeper.find([A, B]), room.cells.open()
    room.keeper.restore(found, sequence)
    room.keeper.let_go(found)
    assert room.keeper.free_cells(1) == 0
    num_free = room.cells.num_free_slots
    assert room.keeper.free_slots(1) == 1
    assert room.cells.num_free_slots == num_free + 1
    assert room.keeper.free_slots(5) == 1
    room.release(sequence)
    # It lies in memory by now.
    assert room.ask([A, B]) == 64


def test_what_was_not_found_is_harmless_to_let_go_of(room):
    nothing = room.keeper.find([A])
    assert nothing == Found()
    assert room.keeper.is_ready(nothing)
    room.keeper.let_go(nothing)
    room.keeper.let_go(Found())


def test_it_survives_a_restart(room):
    for _ in range(3):
        room.ask([A, B, turn(1)])
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    assert homes(room) == (0, 0, 3)
    assert room.ask([A, B, turn(1)]) == 84
    assert homes(room) == (3, 3, 3)
    assert max(node.frequency for node in room.keeper.tree) == 4
    room.check()


def test_another_model_finds_nothing_and_the_first_one_its_own_again(room):
    room.ask([A, B])
    room.restart(root=b"o" * 16)
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    assert room.ask([A, B]) == 0
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    assert room.ask([A, B]) == 64


def test_a_read_is_not_ready_until_it_is(room):
    room.ask([A])
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    hold = threading.Event()
    room.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    found = room.keeper.find([A])
    assert (found.num_tokens, found.num_cells) == (32, 32)
    assert not room.keeper.is_ready(found)
    hold.set()
    room.settle()
    assert room.keeper.is_ready(found)
    room.keeper.let_go(found)


def test_what_was_read_by_now_is_given_without_what_the_disk_is_still_busy_with(room):
    room.ask([A, B])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    room.keeper.let_go(room.find([A]))
    with holding_the_disk(room.files):
        found = room.keeper.find([A, B])
        assert not room.keeper.is_ready(found)
        sooner = room.keeper.read_by_now(found)
        assert (sooner.num_tokens, sooner.num_cells) == (32, 32)
        assert room.keeper.is_ready(sooner)
        assert [node.pins for node in room.keeper.tree] == [1, 0]
        sequence = room.cells.open()
        assert room.keeper.restore(sooner, sequence) == 32
        room.release(sequence)
        room.keeper.let_go(found)
        room.keeper.let_go(sooner)
    room.settle()
    assert room.ask([A, B]) == 64
    room.check()


def test_two_prompts_wait_for_one_read(room):
    room.ask([A])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    first, second = room.keeper.find([A]), room.keeper.find([A])
    room.settle()
    for found in (first, second):
        sequence = room.cells.open()
        assert room.keeper.restore(found, sequence) == 32
        room.release(sequence)
        room.keeper.let_go(found)
    assert homes(room) == (0, 1, 1)


@pytest.mark.parametrize("harm", ["damaged", "short", "gone"])
def test_a_bad_file_in_the_middle_is_a_miss_from_there_on(room, harm):
    room.ask([A, B, C])
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    middle = next(node for node in room.keeper.tree if node.start == 32)
    path = room.keeper._bytes.disk[middle].path
    content = path.read_bytes()
    path.unlink()
    match harm:
        case "damaged":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "short":
            path.write_bytes(content[:-5])
    assert room.ask([A, B, C]) == 32
    assert room.ask([A, B, C]) == 96
    flush(room)
    room.check()


def test_a_question_that_comes_before_its_files_are_found_reads_and_they_join_what_was_read(room, monkeypatch):
    room.ask([A, B, C])
    room.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    room.open(waits=False)
    room.set_budgets(0, PLENTY, PLENTY)
    assert room.ask([A, B]) == 0
    assert room.keeper.is_behind
    hold.set()
    assert room.files.scanned.wait(30)
    room.keeper.let_go(room.keeper.find([]))
    assert homes(room) == (0, 2, 3)
    assert room.ask([A, B, C]) == 96
    flush(room)
    room.check()


def test_files_that_are_found_while_nobody_asks_become_nodes(room, monkeypatch):
    for document in range(1, 100):
        room.ask([passage(document)])
    room.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    room.open(waits=False)
    room.set_budgets(0, PLENTY, PLENTY)
    hold.set()
    assert room.files.scanned.wait(30)
    room.keeper.flush()
    assert 0 < len(room.keeper.tree) < 99
    while room.keeper.is_behind:
        room.keeper.flush()
    assert len(room.keeper.tree) == 99
    room.check()


def test_a_file_that_cannot_be_opened_now_is_a_miss_and_a_hit_another_time(room, monkeypatch):
    room.ask([A, B])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    with monkeypatch.context() as patched:
        patched.setattr(cache_io, "read_blob", lambda *_: "unavailable")
        found = room.find([A, B])
        sequence = room.cells.open()
        assert room.keeper.restore(found, sequence) == 0
        room.release(sequence)
        room.keeper.let_go(found)
    assert homes(room) == (0, 0, 2)
    assert room.ask([A, B]) == 64
    room.check()


def test_a_parent_that_cannot_be_opened_at_the_start_costs_its_children_nothing(room, monkeypatch):
    room.ask([A, B])
    flush(room)
    parent = next(node for node in room.keeper.tree if node.start == 0)
    hidden, look_at = room.keeper._bytes.disk[parent].path, cache_io.look_at
    with monkeypatch.context() as patched:
        patched.setattr(cache_io, "look_at", lambda path, at: "unavailable" if path == hidden else look_at(path, at))
        room.restart()
        room.set_budgets(PLENTY, PLENTY, PLENTY)
        assert room.keeper.peek([A, B]) == 0
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    assert room.ask([A, B]) == 64
    room.check()


def test_what_has_no_parent_for_now_leaves_the_disk_before_what_is_of_use(room, monkeypatch):
    room.ask([A, B])
    flush(room)
    parent = next(node for node in room.keeper.tree if node.start == 0)
    hidden, look_at = room.keeper._bytes.disk[parent].path, cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda path, at: "unavailable" if path == hidden else look_at(path, at))
    room.restart()
    room.set_budgets(0, PLENTY, 2 * FILE)
    room.ask([C])
    room.ask([D])
    flush(room)
    assert homes(room) == (0, 2, 2)
    assert room.files.held_bytes <= 2 * FILE
    hidden.unlink()
    room.check()


@pytest.mark.parametrize("reads", ["raise", "tell of damage"])
def test_a_file_that_cannot_be_read_costs_its_node_and_none_that_follow(room, monkeypatch, reads):
    for last in (C, D):
        room.ask([A, B, last])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    first = room.keeper._bytes.disk[next(node for node in room.keeper.tree if node.start == 0)].path
    if reads == "raise":
        with monkeypatch.context() as patched:
            patched.setattr(cache_io, "_read_header", broken_for(first))
            assert room.find([A, B, C]).num_tokens == 96
            abandon_all(room)
    else:
        first.write_bytes(first.read_bytes()[:-5])
        room.find([A, B, C])
        abandon_all(room)
    assert homes(room)[2] == 3
    assert room.keeper.peek([A, B, D]) == 0
    assert room.keeper.trail().then(A) is None
    room.ask([A])
    assert room.ask([A, B, D]) == 96
    flush(room)
    room.check()
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    assert room.ask([A, B, C]) == 96


def test_what_is_missing_before_others_goes_with_the_last_of_them(room):
    room.ask([A, B, C])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    for node in [node for node in room.keeper.tree if node.start < 64]:
        room.keeper._bytes.disk[node].path.unlink()
    room.find([A, B])
    abandon_all(room)
    assert [node.start for node in room.keeper.tree] == [0, 32, 64]
    room.check()
    room.set_budgets(0, PLENTY, 0)
    assert len(room.keeper.tree) == 0
    room.check()


def test_what_follows_a_missing_node_leaves_cells_though_it_cannot_be_saved(room):
    room.ask([A, B])
    room.restart()
    room.set_budgets(PLENTY, 0, PLENTY)
    room.passing_room_bytes = BLOB
    assert room.ask([A, B, C]) == 64
    (first,) = (node for node in room.keeper.tree if node.start == 0)
    room.keeper._cells.release(first)
    room.keeper._bytes._lose_file(first)
    assert homes(room) == (2, 0, 1)
    room.keeper.leave_cells()
    assert homes(room) == (0, 0, 1)
    room.check()


def test_a_parent_that_is_missing_makes_its_children_useless(room):
    room.ask([A, B])
    flush(room)
    parent = next(node for node in room.keeper.tree if node.start == 0)
    path = room.keeper._bytes.disk[parent].path
    room.close()
    path.unlink()
    room.open()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    room.settle()
    assert len(room.keeper.tree) == 0
    assert room.bytes_on_disk() == 0


def test_a_full_disk_is_one_sentence_and_memory_goes_on(room, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_io, "write_file", full)
    room.set_budgets(0, PAGE * 3, PLENTY)
    for document in range(30):
        room.ask([passage(document)])
        assert room.ledger.held_bytes("ram", "kv") <= PAGE * 3
    flush(room)
    room.settle()
    assert room.problems.qsize() == 1
    assert homes(room)[2] == 0
    assert homes(room)[1] > 0
    assert room.ask([passage(29)]) == 32
    room.check()


def test_what_could_not_be_written_is_tried_again_later(tmp_path, monkeypatch):
    seconds = [0.0]
    room = Room(tmp_path, now=lambda: seconds[0])
    room.set_budgets(0, PLENTY, PLENTY)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(cache_io, "write_file", full)
        room.ask([A])
        flush(room)
    assert homes(room) == (0, 1, 0)
    seconds[0] = cache_files.PAUSE_SECONDS
    flush(room)
    assert homes(room) == (0, 1, 1)
    room.close()


def test_a_removed_document_goes_everywhere_with_every_path_through_it(room):
    room.ask([A, B, turn(1)])
    room.ask([A, C])
    flush(room)
    room.set_budgets(32, PLENTY, PLENTY)
    room.keeper.forget([2])
    assert room.keeper.peek([A, B, turn(1)]) == 32
    assert room.keeper.peek([A, C]) == 64
    room.check()
    room.keeper.forget([1])
    assert len(room.keeper.tree) == 0
    assert room.bytes_on_disk() == 0
    assert room.keeper._bytes.slabs.mapped_bytes == 0
    room.check()


def test_a_document_is_removed_from_files_of_other_models_too(room):
    room.ask([A, B])
    room.restart(root=b"o" * 16)
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    room.keeper.forget([2])
    room.restart()
    assert room.keeper.peek([A, B]) == 32


def test_a_document_removed_while_a_prompt_waits_for_it_is_not_given(room):
    room.ask([A, B])
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    found = room.keeper.find([A, B])
    room.keeper.forget([2])
    room.settle()
    sequence = room.cells.open()
    assert room.keeper.restore(found, sequence) == 32
    room.release(sequence)
    room.keeper.let_go(found)
    assert room.keeper._bytes.slabs.used_bytes == BLOB
    room.check()


def test_a_document_removed_while_it_is_written_leaves_no_file(room):
    room.set_budgets(0, PLENTY, PLENTY)
    room.ask([A])
    hold = threading.Event()
    room.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    assert room.keeper.flush() == 1
    room.keeper.forget([1])
    hold.set()
    room.settle()
    assert room.bytes_on_disk() == 0
    assert room.keeper._bytes.slabs.mapped_bytes == 0
    room.check()


def test_an_answer_belongs_to_its_conversation_at_once(room):
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    prompt, answer = [A, turn(1)], turn(2, 50)
    found, sequence = room.keeper.find(prompt), room.cells.open()
    room.read_rest(prompt, sequence)
    room.keeper.keep(prompt, sequence, 1.0, 52)
    room.read_rest([*prompt, answer], sequence)
    room.keeper.keep([*prompt, answer], sequence, 0.0, 0)
    room.keeper.let_go(found)
    room.release(sequence)
    assert all(node.cost_per_token > 0 for node in room.keeper.tree)
    assert room.ask([*prompt, answer, turn(3)]) == 102
    figures = room.keeper.figures()
    assert figures.computed_tokens == 52 + 20
    assert figures.cells.hit_tokens == 102


def test_a_prompt_of_which_all_but_the_last_token_was_kept_missed_nothing(room):
    room.ask([A, B])
    sequence = room.cells.open()
    room.read_rest([A, B], sequence)
    room.keeper.keep([A, B], sequence, 0.01, 1)
    room.release(sequence)
    assert room.keeper.figures().computed_tokens == 64
    assert [node.num_misses for node in room.keeper.tree] == [1, 1]


def test_hits_are_told_by_the_tier_they_were_found_in(room):
    room.ask([A])
    room.restart()
    room.set_budgets(0, PLENTY, PLENTY)
    room.ask([A])
    room.ask([A])
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    room.ask([A])
    room.ask([A])
    room.ask([B])
    figures = room.keeper.figures()
    assert (figures.disk.hit_tokens, figures.ram.hit_tokens, figures.cells.hit_tokens) == (32, 64, 32)
    assert figures.computed_tokens == 32
    assert figures.hit_ratio == pytest.approx(0.8)
    assert figures.disk.hit_ratio == pytest.approx(0.2)


def test_memory_that_fills_up_is_written_behind_before_it_is_needed(room):
    room.set_budgets(0, PAGE * 8, PLENTY)
    for document in range(1, 16):
        room.ask([passage(document)])
    for _ in range(3):
        room.keeper.is_ready(Found())
        room.keeper.let_go(room.keeper.find([]))
        room.settle()
    assert homes(room)[2] > 0
    assert room.keeper.peek([passage(1)]) == 32


def test_files_that_were_not_used_are_not_touched(room):
    room.ask([A, B])
    room.restart()
    room.set_budgets(PLENTY, PLENTY, PLENTY)
    before = {path: path.stat().st_mtime_ns for path in room.folder.rglob("*.kv")}
    room.ask([A])
    room.close()
    after = {path: path.stat().st_mtime_ns for path in before}
    assert sorted(after[path] > before[path] for path in before) == [False, True]
    room.open()


def test_flushing_goes_in_portions(room):
    room.ask([A, B, C, D])
    assert room.keeper.flush(limit=3) == 3
    assert room.keeper.flush(limit=3) == 1
    assert room.keeper.flush(limit=3) == 0
    room.settle()
    assert homes(room) == (4, 4, 4)


def test_a_disk_too_small_for_all_is_not_written_over_and_over(room):
    room.set_budgets(0, PLENTY, 3 * FILE)
    for document in range(8):
        room.ask([passage(document)])
    flush(room)
    room.check()
    assert room.files.held_bytes <= 3 * FILE
    before = {path.name: path.stat().st_ino for path in room.folder.rglob("*.kv")}
    flush(room)
    assert {path.name: path.stat().st_ino for path in room.folder.rglob("*.kv")} == before


def test_of_two_models_the_one_that_came_first_does_not_keep_the_disk_for_itself(room):
    room.set_budgets(0, PLENTY, 6 * FILE)
    for document in range(1, 9):
        room.ask([passage(document)])
    flush(room)
    first, num_files = room.keeper, homes(room)[2]
    assert num_files >= 6
    room.keeper = second = KnowledgeKeeper(b"o" * 16, room.context, room.cells, room.ledger, room.files)
    second.set_budgets(0, PLENTY)
    for document in range(11, 19):
        room.ask([passage(document)])
    flush(room)
    num_second = homes(room)[2]
    second.close()
    room.keeper = first
    assert min(num_second, homes(room)[2]) >= num_files // 2 - 1
    assert room.files.held_bytes <= 6 * FILE
    room.check()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_what_is_given_is_right_and_budgets_are_kept(tmp_path, seed):
    """Random prompts, cancels, removals, budgets, flushes and restarts; a model of the tree tells what may be found."""
    random_ = random.Random(seed)
    room = Room(tmp_path, num_cells=1024, num_sequences=24)
    budgets = (512, 10 * PAGE, 40 * FILE)
    room.set_budgets(*budgets)
    read: set[tuple[Segment, ...]] = set()
    waiting: list[tuple[list[Segment], Found]] = []
    for _ in range(250):
        match random_.choice("aaaaaawwwccbfelsdr"):
            case "a":
                prompt = some_prompt(random_)
                room.ask(prompt, random_.random())
                read |= {tuple(prompt[:length]) for length in range(1, len(prompt) + 1)}
            case "w":
                prompt = some_prompt(random_)
                waiting.append((prompt, room.keeper.find(prompt)))
            case "c" if waiting:
                answer_one(room, waiting.pop(random_.randrange(len(waiting))), restores=random_.random() < 0.7)
            case "b":
                budgets = (random_.randrange(0, 600), random_.randrange(0, 12) * PAGE, random_.randrange(0, 40) * FILE)
                room.set_budgets(*budgets)
                room.passing_room_bytes = random_.choice((0, BLOB))
            case "f":
                room.keeper.free_cells(random_.randrange(200))
            case "e":
                room.keeper.spare_cells()
            case "l":
                room.keeper.leave_cells(random_.choice((0.0, WAIT_SECONDS)))
            case "s":
                room.keeper.flush(random_.choice([None, 2]))
            case "d":
                document = random_.randrange(8)
                room.keeper.forget([document])
                read = {path for path in read if all(document not in segment.documents for segment in path)}
            case "r" if not waiting:
                room.restart()
                room.set_budgets(*budgets)
        prompt = some_prompt(random_)
        kept = room.keeper.peek(prompt)
        assert kept == 0 or any(sum(len(s.tokens) for s in path) >= kept for path in read if starts(prompt, path))
        if not waiting:
            room.shrink()
            room.settle()
            room.check()
            assert_within(room, budgets)
    while waiting:
        answer_one(room, waiting.pop(), restores=True)
    assert room.keeper.figures().hit_ratio > 0
    room.close()
    assert room.cells.num_free == 1024
    assert room.ledger.spans() == ()


@pytest.mark.parametrize("ram_bytes", [6 * PAGE, 0])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_disk_does_what_is_given_is_right_and_nothing_is_lost_track_of(
    tmp_path, monkeypatch, seed, ram_bytes
):
    """Files that are in use, damaged, cut or gone, a disk that is full, ends with no time, and files found late."""
    random_, luck, seconds = random.Random(seed), random.Random(seed), [0.0]
    write_file, read_blob, delete = cache_io.write_file, cache_io.read_blob, cache_io.delete

    def written(path: Path, *rest: object) -> str:
        match luck.choice("wwwwbf"):
            case "b":
                return "busy"
            case "f":
                raise OSError(28, "No space left on device")
        return write_file(path, *rest)

    def read(path: Path, *rest: object) -> str:
        match luck.choice("rrrrudcg"):
            case "u":
                return "unavailable"
            case "d" if path.exists():
                content = bytearray(path.read_bytes())
                content[luck.randrange(32, len(content))] ^= luck.randrange(1, 256)
                path.write_bytes(content)
            case "c" if path.exists():
                path.write_bytes(path.read_bytes()[: luck.randrange(path.stat().st_size)])
            case "g":
                path.unlink(missing_ok=True)
        return read_blob(path, *rest)

    monkeypatch.setattr(cache_io, "write_file", written)
    monkeypatch.setattr(cache_io, "read_blob", read)
    monkeypatch.setattr(cache_io, "delete", lambda path: luck.random() < 0.8 and delete(path))
    room = Room(tmp_path, num_cells=1024, num_sequences=24, now=lambda: seconds[0])
    budgets, hits = (128, ram_bytes, 60 * FILE), 0
    room.passing_room_bytes = BLOB
    room.set_budgets(*budgets)
    for _ in range(250):
        seconds[0] += random_.choice((0.0, 1.0, 40.0))
        match random_.choice("aaaaaafffesdrp"):
            case "a":
                # What is given is compared with what reading gives.
                hits += room.ask(some_prompt(random_), random_.random())
            case "f":
                room.keeper.free_cells(random_.randrange(200))
            case "e":
                room.keeper.spare_cells()
            case "s":
                room.keeper.flush(random_.choice([None, 2]))
            case "p":
                room.shrink()
                room.keeper.let_go(room.keeper.find(some_prompt(random_)))
            case "d":
                room.keeper.forget([random_.randrange(8)])
            case "r":
                room.keeper.close(random_.choice((0.0, 1e9)))
                room.files.close(random_.choice((0.0, None)))
                assert room.ledger.spans() == ()
                room.open(waits=random_.random() < 0.5)
                room.set_budgets(*budgets)
        slabs = room.keeper._bytes.slabs
        assert slabs.mapped_bytes <= ram_bytes
        assert room.ledger.held_bytes("ram", "kv") == slabs.mapped_bytes + slabs.passing_bytes
    assert room.files.scanned.wait(30)
    room.shrink()
    room.settle()
    assert room.ledger.held_bytes("disk", "kv") == room.files.held_bytes <= budgets[2]
    kept = room.keeper._bytes
    assert kept.slabs.used_bytes == sum(kept.ram[node].num_bytes for node in kept.ram.nodes())
    assert hits > 0
    room.close()
    assert room.cells.num_free == 1024
    assert room.ledger.spans() == ()


def assert_within(room: Room, budgets: tuple[int, int, int]) -> None:
    cells, ram_bytes, disk_bytes = budgets
    assert room.keeper.figures().cells.num_tokens <= cells
    assert room.ledger.held_bytes("ram", "kv") <= ram_bytes
    assert room.ledger.held_bytes("disk", "kv") <= disk_bytes


def some_prompt(random_: random.Random) -> list[Segment]:
    opening = [Segment(tuple(range(20)), "instructions")]
    passages = [passage(random_.randrange(8), 24) for _ in range(random_.randrange(1, 4))]
    return opening + passages + [turn(random_.randrange(4), random_.choice([6, 30]))]


def starts(prompt: list[Segment], path: tuple[Segment, ...]) -> bool:
    tokens, begun = tokens_of(path), tokens_of(prompt)
    return tokens == begun[: len(tokens)]


def answer_one(room: Room, waiting: tuple[list[Segment], Found], restores: bool) -> None:
    prompt, found = waiting
    room.settle()
    if restores and room.keeper.is_ready(found):
        room.keeper.free_cells(max(0, found.num_cells - room.cells.num_free))
        sequence = room.cells.open()
        room.keeper.restore(found, sequence)
        room.check_values(prompt, sequence)
        room.release(sequence)
    room.keeper.let_go(found)
