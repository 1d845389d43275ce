"""Tests for engine.generation.weights.arena and memory_map: memory at addresses of our choice, given back for good."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engine.generation.weights.arena import Arena
from engine.generation.weights.mappings import MEMORY, covers, current
from engine.generation.weights.memory_map import (
    EXIT_STATUS,
    MappingLost,
    bytes_at,
    map_private_over,
    map_shared_over,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mappings are replaced on Linux only")
PAGE = mmap.PAGESIZE


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(PAGE)
    yield arena
    arena.close()


@pytest.fixture
def room() -> Iterator[int]:
    """The address of eight pages that nothing else needs."""
    memory = mmap.mmap(-1, 8 * PAGE)
    anchor = ctypes.c_char.from_buffer(memory)
    yield ctypes.addressof(anchor)
    del anchor
    memory.close()


def test_two_addresses_see_the_same_range(arena: Arena, room: int) -> None:
    offset = arena.take(2 * PAGE)
    for address in (room, room + 4 * PAGE):
        map_shared_over(address, 2 * PAGE, arena.descriptor, offset)
    bytes_at(room, 5).raw = b"slots"
    assert bytes_at(room + 4 * PAGE, 5).raw == b"slots"
    assert covers(current(), room, room + 2 * PAGE, arena.file)
    assert covers(current(), room + 4 * PAGE, room + 6 * PAGE, arena.file)
    assert not covers(current(), room, room + 3 * PAGE, arena.file)


def test_a_range_holds_memory_only_once_it_is_written_and_until_it_is_given_back(arena: Arena, room: int) -> None:
    first, second = arena.take(2 * PAGE), arena.take(3 * PAGE - 1)
    assert second == 2 * PAGE
    assert arena.held_bytes == 0
    map_shared_over(room, 2 * PAGE, arena.descriptor, first)
    map_shared_over(room + 2 * PAGE, 3 * PAGE, arena.descriptor, second)
    bytes_at(room, 5 * PAGE).raw = b"x" * (5 * PAGE)
    assert arena.held_bytes == 5 * PAGE
    arena.give_back(first, 2 * PAGE)
    assert arena.held_bytes == 3 * PAGE
    assert bytes_at(room, 1).raw == b"\0"
    assert bytes_at(room + 2 * PAGE, 1).raw == b"x"


def test_private_memory_is_empty_and_nobody_elses(room: int) -> None:
    bytes_at(room, 1).raw = b"x"
    map_private_over(room, 4 * PAGE)
    assert bytes_at(room, 1).raw == b"\0"
    assert covers(current(), room, room + 4 * PAGE, MEMORY)


def test_a_mapping_that_the_system_refuses_is_lost(room: int) -> None:
    with pytest.raises(MappingLost, match="Bad file descriptor"):
        map_shared_over(room, PAGE, 9999, 0)
    map_private_over(room, PAGE)


@pytest.mark.expects_warnings
def test_what_cannot_be_given_back_is_said_and_ends_nothing(arena: Arena) -> None:
    offset = arena.take(PAGE)
    arena.close()
    arena.give_back(offset, PAGE)


def test_the_engine_ends_at_once_with_a_line_of_log() -> None:
    script = (
        "import logging; logging.basicConfig(); from engine.generation.weights.memory_map import end_process\n"
        "try:\n    end_process('A mapping was lost.')\nfinally:\n    print('never')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == EXIT_STATUS
    assert "A mapping was lost." in done.stderr
    assert done.stdout == ""
