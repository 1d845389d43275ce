"""Tests for engine.memory.garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.memory.garbage import settle


class Ring:
    """Only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_lives_is_passed_over_and_what_dies_of_it_is_freed_by_the_next_call():
    ring = Ring()
    seen = weakref.ref(ring)
    settle()
    assert gc.get_freeze_count() > 1000
    del ring
    gc.collect()
    assert seen() is not None
    settle()
    assert seen() is None


def test_what_comes_later_is_collected_as_ever():
    settle()
    seen = weakref.ref(Ring())
    gc.collect()
    assert seen() is None
