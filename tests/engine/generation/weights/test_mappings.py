"""Tests for engine.generation.weights.mappings."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from engine.errors import NotStreamable
from engine.generation.weights.mappings import MEMORY, FileId, Mapping, appeared, base_of, covers, current, parse

LINES = """\
55e0c0000000-55e0c0021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000010000 r--s 00002000 fe:00 2302756                    /models/a model.gguf
7f0000010000-7f0000014000 rw-p 00000000 00:00 0
7f0000014000-7f0000018000 rw-p 00000000 00:00 0                          [anon:weights]
7f0000018000-7f0000020000 rw-s 00001000 00:01 77                         /memfd:ragdoll-weights (deleted)
7f0000020000-7f0000030000 r--s 00022000 fe:00 2302756                    /models/a model.gguf
7f0000040000-7f0000050000 r--s 00000000 fe:00 5                          /models/line\\012break.gguf
7ffe1d5c5000-7ffe1d5e6000 rw-p 00000000 00:00 0                          [stack]
""".splitlines()
MODEL = FileId(os.makedev(0xFE, 0), 2302756, "/models/a model.gguf")
OWN = FileId(os.makedev(0, 1), 77)
AT = 0x7F0000000000
BASE = AT - 0x2000


def test_files_and_memory_are_told_and_the_heap_and_stacks_are_not() -> None:
    found = parse(LINES)
    assert [mapping.file.path for mapping in found] == [
        "/models/a model.gguf",
        "",
        "",
        "/memfd:ragdoll-weights (deleted)",
        "/models/a model.gguf",
        "/models/line\nbreak.gguf",
    ]
    assert found[0] == Mapping(AT, AT + 0x10000, 0x2000, MODEL)
    assert found[0].base == BASE


def test_the_base_of_a_file_is_where_its_first_byte_would_lie() -> None:
    assert base_of(MODEL, parse(LINES)) == BASE


def test_a_file_that_is_mapped_twice_or_not_at_all_has_no_base() -> None:
    with pytest.raises(NotStreamable, match="2 times"):
        base_of(MODEL, [*parse(LINES), Mapping(0, 4096, 0, MODEL)])
    with pytest.raises(NotStreamable, match="0 times"):
        base_of(FileId(1, 1, "/models/other.gguf"), parse(LINES))


def test_a_file_is_the_same_by_its_number_or_by_its_path() -> None:
    assert FileId(1, 2, "/a").is_same(FileId(1, 2, "/b"))
    assert FileId(1, 2, "/a").is_same(FileId(9, 9, "/a"))
    assert not FileId(1, 2, "").is_same(FileId(9, 9, ""))


@pytest.mark.parametrize(
    ("start", "end", "file", "base", "is_covered"),
    [
        (0, 0x10000, MODEL, BASE, True),
        (0x1000, 0x2000, MODEL, BASE, True),
        (0x1000, 0x2000, MODEL, BASE + 0x1000, False),
        (0x1000, 0x11000, MODEL, BASE, False),
        (0x10000, 0x18000, MEMORY, None, True),
        (0x10000, 0x19000, MEMORY, None, False),
        (0x18000, 0x20000, OWN, None, True),
        (0x18000, 0x20000, MODEL, None, False),
        (0x2F000, 0x31000, MODEL, BASE, False),
        (0x30000, 0x31000, MODEL, BASE, False),
        (0x60000, 0x61000, MEMORY, None, False),
    ],
)
def test_a_range_is_covered_only_by_what_is_expected(start, end, file, base, is_covered) -> None:
    assert covers(parse(LINES), AT + start, AT + end, file, base) is is_covered


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_file_that_is_mapped_now_has_appeared(tmp_path: Path) -> None:
    path = tmp_path / "a file.gguf"
    path.write_bytes(bytes(3 * mmap.PAGESIZE))
    before = current()
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ):
        new = [mapping for mapping in appeared(before, current()) if mapping.file.is_same(FileId.of(path))]
        assert len(new) == 1
        assert base_of(FileId.of(path), new) == new[0].start
        assert new[0].end - new[0].start == 3 * mmap.PAGESIZE
    assert not any(mapping.file.is_same(FileId.of(path)) for mapping in current())
