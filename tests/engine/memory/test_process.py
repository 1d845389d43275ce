"""Tests for engine.memory.process."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from engine.memory import process
from engine.memory.process import bytes_in_files, process_memory

MIB = 2**20
NUM_BYTES = 32 * MIB

needs_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="kinds are told apart on Linux only")


def touched(mapping: mmap.mmap) -> mmap.mmap:
    for place in range(0, NUM_BYTES, mmap.PAGESIZE):
        mapping[place] = 1
    return mapping


def test_the_kinds_add_up():
    memory = process_memory()
    assert memory.rss_bytes == memory.anonymous_bytes + memory.file_bytes + memory.shmem_bytes > 0
    assert memory.kept_bytes == memory.rss_bytes - memory.file_bytes


@needs_linux
def test_what_we_write_is_anonymous_and_goes_again():
    before = process_memory()
    mapping = touched(mmap.mmap(-1, NUM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    during = process_memory()
    mapping.close()
    after = process_memory()
    assert NUM_BYTES - 4 * MIB < during.anonymous_bytes - before.anonymous_bytes < NUM_BYTES + 4 * MIB
    assert abs(after.anonymous_bytes - before.anonymous_bytes) < 4 * MIB


@needs_linux
def test_pages_of_a_file_are_the_systems(tmp_path: Path):
    file = tmp_path / "model"
    file.write_bytes(b"x" * NUM_BYTES)
    before = process_memory()
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), NUM_BYTES, access=mmap.ACCESS_READ) as mapping:
        assert sum(mapping[place] for place in range(0, NUM_BYTES, mmap.PAGESIZE)) > 0
        during = process_memory()
    # On a file system in memory (tmpfs) the same pages are shared memory.
    grown = during.file_bytes + during.shmem_bytes - before.file_bytes - before.shmem_bytes
    assert NUM_BYTES - 4 * MIB < grown < NUM_BYTES + 4 * MIB


@needs_linux
def test_shared_memory_stays_as_anonymous_memory_does():
    before = process_memory()
    with touched(mmap.mmap(-1, NUM_BYTES)):
        during = process_memory()
    assert NUM_BYTES - 4 * MIB < during.shmem_bytes - before.shmem_bytes < NUM_BYTES + 4 * MIB
    assert during.kept_bytes - before.kept_bytes > NUM_BYTES - 8 * MIB


def test_a_system_that_tells_no_kinds_apart_has_all_of_it_anonymous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "_STATUS", tmp_path / "no such file")
    memory = process_memory()
    assert memory.rss_bytes == memory.anonymous_bytes == memory.kept_bytes > 0
    assert not memory.tells_kinds


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("name", ["Михаил".encode(), "Åsa".encode(), b"a\xff\x85.bin"])
def test_files_are_found_whatever_their_names_hold(tmp_path: Path, name: bytes):
    # Cyrillic letters have bytes that end lines in other encodings.
    file = os.path.join(os.fsencode(tmp_path), name)
    with open(file, "wb") as stream:
        stream.write(bytes(mmap.PAGESIZE))
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        assert bytes_in_files([(0, 8)]) == 0
