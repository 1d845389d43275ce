"""Tests for engine.memory.pages."""

from __future__ import annotations

import mmap
import sys

import pytest

from engine.memory import pages
from engine.memory.pages import anonymous_ranges, appeared, resident_bytes

PAGE = mmap.PAGESIZE
MIB = 2**20
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ([], [(10, 20)], ((10, 20),)),
        ([(10, 20)], [(10, 20)], ()),
        ([(10, 20)], [(10, 30)], ((20, 30),)),
        ([(10, 20)], [(5, 20)], ((5, 10),)),
        ([(10, 20), (30, 40)], [(10, 40)], ((20, 30),)),
        ([(10, 20), (30, 40)], [(0, 60)], ((0, 10), (20, 30), (40, 60))),
        ([(10, 40)], [(10, 20), (30, 40), (50, 60)], ((50, 60),)),
        ([(10, 20)], [(15, 30)], ((20, 30),)),
    ],
)
def test_what_appeared_is_found_also_where_the_system_joined_it_with_what_was_there(before, after, new):
    assert appeared(before, after) == new


@needs_linux
def test_of_memory_that_was_mapped_only_what_was_written_to_is_there():
    before = anonymous_ranges()
    mapping = mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    found = appeared(before, anonymous_ranges())
    assert sum(end - start for start, end in found) >= 8 * MIB
    untouched = resident_bytes(found)
    for place in range(0, 4 * MIB, PAGE):
        mapping[place] = 1
    # Large pages may bring their neighbours with them.
    assert 4 * MIB <= resident_bytes(found) - untouched <= 6 * MIB
    mapping.close()
    assert resident_bytes(found) < 4 * MIB


@needs_linux
def test_of_much_memory_samples_tell_how_much_is_there(monkeypatch: pytest.MonkeyPatch):
    before = anonymous_ranges()
    with mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapping:
        found = appeared(before, anonymous_ranges())
        for place in range(0, 32 * MIB, PAGE):
            mapping[place] = 1
        exact = resident_bytes(found)
        monkeypatch.setattr(pages, "_MAX_PIECES", 4)
        assert abs(resident_bytes(found) - exact) < 4 * MIB


def test_another_system_tells_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert anonymous_ranges() == ()
