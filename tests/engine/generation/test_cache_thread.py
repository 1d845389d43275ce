"""Tests for engine.generation.cache_thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.generation.cache_thread import CacheThread, Urgency


class Beside:
    """What is done in portions while there is nothing else to do."""

    def __init__(self, portions: int = 0) -> None:
        self.portions, self.is_over = portions, threading.Event()
        self.done: list[str] = []

    def __call__(self) -> float | None:
        if self.portions:
            self.portions -= 1
            self.done.append("portion")
            return 0.0
        self.is_over.set()
        return None


@pytest.fixture
def beside() -> Beside:
    return Beside()


@pytest.fixture
def thread(beside: Beside) -> Iterator[CacheThread]:
    thread = CacheThread("a thread of a test", beside)
    yield thread
    assert thread.close()


def test_the_most_urgent_goes_first_and_equals_in_their_order(thread, beside):
    for urgency in (Urgency.NOTE, Urgency.WRITE, Urgency.READ, Urgency.WRITE):
        thread.put(urgency, lambda name=urgency.name: beside.done.append(name))
    thread.start()
    assert thread.close()
    assert beside.done == ["READ", "WRITE", "WRITE", "NOTE"]


def test_portions_are_taken_between_and_never_before_what_was_asked_for(thread, beside):
    beside.portions = 3
    thread.put(Urgency.NOTE, lambda: beside.done.append("job"))
    thread.start()
    assert beside.is_over.wait(30)
    assert beside.done == ["job", "portion", "portion", "portion"]


def test_what_was_put_to_it_is_done_before_it_ends_and_the_rest_of_the_portions_is_not(thread, beside):
    thread.put(Urgency.WRITE, lambda: beside.done.append("job"))
    beside.portions = 10**9
    thread.start()
    assert thread.close()
    assert "job" in beside.done
    assert beside.portions


def test_it_waits_for_what_is_under_way_no_longer_than_it_is_told(thread, beside):
    hold, has_begun = threading.Event(), threading.Event()
    thread.put(Urgency.WRITE, lambda: (has_begun.set(), hold.wait(30)))
    thread.put(Urgency.WRITE, lambda: beside.done.append("hurried" if thread.is_hurried else "not hurried"))
    thread.start()
    assert has_begun.wait(30)
    assert not thread.close(0.0)
    hold.set()
    assert thread.close()
    assert beside.done == ["hurried"]


@pytest.mark.expects_warnings
def test_what_goes_wrong_does_not_keep_the_next_from_being_done(thread, beside):
    thread.put(Urgency.READ, lambda: 1 / 0)
    thread.put(Urgency.WRITE, lambda: beside.done.append("job"))
    thread.start()
    assert thread.close()
    assert beside.done == ["job"]


def test_closing_one_that_was_never_started_does_nothing(thread):
    assert thread.close()
