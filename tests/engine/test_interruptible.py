"""Tests for waits that Ctrl+C ends, whichever thread the system gives it to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue

import pytest

from engine.interruptible import LOOK_SECONDS, next_of, result_of, until_set

# A wait that hears nothing ends after this.
_DEAF_SECONDS = 20.0


def _awaited(end: threading.Timer) -> list[Callable[[], object]]:
    """Waits for what comes with `end`."""
    event, future, queue = threading.Event(), Future[str](), SimpleQueue[str]()

    def come() -> None:
        event.set()
        future.set_result("here")
        queue.put("here")

    end.function = come
    return [lambda: until_set(event), lambda: result_of(future), lambda: next_of(queue)]


@pytest.mark.parametrize("number", range(3))
def test_a_signal_that_another_thread_gets_ends_the_wait(number: int) -> None:
    end = threading.Timer(_DEAF_SECONDS, lambda: None)
    awaited = _awaited(end)[number]

    def interrupt() -> None:
        # Until the main thread waits.
        time.sleep(LOOK_SECONDS / 4)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=interrupt)
    end.start()
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            awaited()
        assert not end.finished.is_set(), "the signal was heard only once there was something"
    finally:
        end.cancel()
        other.join()
        signal.signal(signal.SIGINT, was)


def test_what_is_waited_for_comes_also_after_a_look() -> None:
    end = threading.Timer(LOOK_SECONDS * 1.5, lambda: None)
    awaited = _awaited(end)
    end.start()
    assert [wait() for wait in awaited] == [None, "here", "here"]
    end.join()


def test_who_waits_for_what_was_given_up_is_told() -> None:
    future = Future[str]()
    future.cancel()
    with pytest.raises(CancelledError):
        result_of(future)


def test_what_a_future_raises_is_raised() -> None:
    future = Future[str]()
    future.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        result_of(future)
