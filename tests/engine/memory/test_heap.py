"""Tests for engine.memory.heap."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.memory import heap as heap_module
from engine.memory.heap import Heap, heap, peak_bytes, trim_heap
from tests.helpers.glibc import in_a_new_process, needs_glibc

MIB = 2**20


def in_pieces(num_bytes: int) -> list[bytearray]:
    """Memory that lies in an arena: larger than Python takes for itself, smaller than what is mapped alone."""
    return [bytearray(b"x" * 4000) for _ in range(num_bytes // 4000)]


def around_pieces() -> list[Heap]:
    """Looks before there are any, while there are, after all but one were freed, and when what is left was trimmed."""
    trim_heap()
    looks = [heap()]
    pieces = in_pieces(64 * MIB)
    looks.append(heap())
    # The last piece keeps the end of the heap where it is, so nothing of it goes back by itself.
    del pieces[:-1]
    looks.append(heap())
    trim_heap()
    return [*looks, heap()]


@needs_glibc
def test_what_is_used_and_what_is_kept_after_it_was_freed_are_told_apart():
    before, held, freed, trimmed = in_a_new_process(around_pieces)
    assert held.used_bytes - before.used_bytes > 60 * MIB
    assert freed.used_bytes - before.used_bytes < 4 * MIB
    assert freed.spare_bytes - before.spare_bytes > 56 * MIB
    assert trimmed.spare_bytes - before.spare_bytes < 8 * MIB


def around_a_thread() -> list[Heap]:
    """Looks before a thread has allocated 20 MB, and while it holds them."""
    trim_heap()
    before = heap()
    allocate = ctypes.CDLL(None).malloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    addresses: list[int] = []

    def fill() -> None:
        for _ in range(1000):
            addresses.append(allocate(20_000))
            ctypes.memset(addresses[-1], 1, 20_000)

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    return [before, heap()]


@needs_glibc
def test_threads_have_memory_of_their_own_that_counts():
    before, grown = in_a_new_process(around_a_thread)
    assert grown.used_bytes - before.used_bytes > 19 * MIB
    assert grown.resident_bytes - before.resident_bytes > 15 * MIB


@needs_glibc
def test_the_largest_moment_of_some_work_is_seen():
    def work() -> None:
        pieces = in_pieces(48 * MIB)
        threading.Event().wait(0.05)
        pieces.clear()

    assert 40 * MIB < peak_bytes(work) < 80 * MIB


def test_what_the_work_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        peak_bytes(lambda: 1 // 0)


# In a process of its own: where a large one has no room above its heap, glibc extends it by unidentifiable mappings.
ARENAS = """
import ctypes, mmap, sys, threading
from engine.memory import heap
heap.lean_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
def fill():
    for _ in range(100):
        address = libc.malloc(80_000)
        ctypes.memset(address, 1, 80_000)
        page = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        assert sys.argv[1] == "whole" or libc.madvise(page, mmap.PAGESIZE, mmap.MADV_NOHUGEPAGE) == 0
threads = [threading.Thread(target=fill) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(end - start for start, end in heap._arenas()), heap._glibc().mallinfo2().arena)
"""


@needs_glibc
@pytest.mark.parametrize("shown", ["whole", "in pieces"])
def test_arenas_are_found_beside_other_memory_and_where_the_system_shows_them_in_pieces(shown: str):
    command = [sys.executable, "-c", ARENAS, shown]
    found, arenas = map(int, subprocess.check_output(command, text=True, timeout=60).split())
    assert arenas > 30 * MIB
    assert abs(found - arenas) < 4 * MIB


# Blocks like those of answers that move; small ones between them keep an arena from shrinking.
MOVED = """
import numpy as np
from engine.memory import heap
heap.lean_heap()
small = []
for _ in range(3):
    moved = []
    for _ in range(8):
        moved.append(np.ones(12 << 20, np.uint8))
        small.append(np.ones(1 << 16, np.uint8))
    del moved
print(heap.heap().spare_bytes)
"""


@needs_glibc
def test_large_blocks_go_back_to_the_system_as_they_are_freed():
    spare_bytes = int(subprocess.check_output([sys.executable, "-c", MOVED], text=True, timeout=60))
    assert spare_bytes < 8 * MIB
    as_usual = MOVED.replace("heap.lean_heap()", "")
    assert int(subprocess.check_output([sys.executable, "-c", as_usual], text=True, timeout=60)) > 40 * MIB


@needs_glibc
def test_memory_that_goes_while_it_is_looked_at_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    maps = tmp_path / "maps"
    maps.write_text("7000000000-7004000000 rw-p 00000000 00:00 0 \n")
    monkeypatch.setattr(heap_module, "_MAPS", maps)
    assert heap().resident_bytes == 0
    assert heap_module._arenas() == []


@needs_glibc
def test_a_system_that_does_not_let_us_look_at_ourselves_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(heap_module, "_MEMORY", tmp_path / "no such file")
    assert heap() == Heap()


def test_another_allocator_tells_nothing_and_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heap_module, "_glibc", lambda: None)
    trim_heap()
    assert heap() == Heap()
    assert heap().spare_bytes == 0
