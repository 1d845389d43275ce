"""Tests for app.garbage."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QTimer

from app import garbage
from app.garbage import GarbageCollection, collect_due


@pytest.fixture
def collection(qapp, monkeypatch: pytest.MonkeyPatch) -> Iterator[GarbageCollection]:
    monkeypatch.setattr(garbage, "INTERVAL_MS", 10)
    # What the tests before have left, so that only this is found.
    gc.collect()
    made = GarbageCollection()
    made.start()
    yield made
    made.stop()


def left_in_a_cycle() -> weakref.ref[QTimer]:
    timer = QTimer()
    timer.itself = timer  # type: ignore[attr-defined]
    return weakref.ref(timer)


def allocate() -> None:
    """More than Python leaves without a collection."""
    _ = [[] for _ in range(100 * gc.get_threshold()[0])]


def test_another_thread_deletes_nothing_and_the_main_one_does(collection: GarbageCollection, qtbot) -> None:
    left = left_in_a_cycle()
    deleted_on = list[int]()
    weakref.finalize(left(), lambda: deleted_on.append(threading.get_ident()))
    other = threading.Thread(target=allocate)
    other.start()
    other.join()
    assert left() is not None
    kept = [[] for _ in range(2 * gc.get_threshold()[0])]
    qtbot.waitUntil(lambda: left() is None)
    assert deleted_on == [threading.get_ident()]
    assert kept


def test_without_enough_to_look_at_nothing_is_collected(collection: GarbageCollection) -> None:
    collection._timer.stop()
    gc.collect()
    left = left_in_a_cycle()
    collect_due()
    assert left() is not None


def test_python_collects_again_afterwards(qapp) -> None:
    collection = GarbageCollection()
    collection.start()
    assert not gc.isenabled()
    collection.stop()
    assert gc.isenabled()
