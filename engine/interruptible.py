"""Waits that Ctrl+C ends, for what runs on the main thread of a command.

Python handles a signal on the main thread, between two of its steps. One that the system gives to another thread does
not wake the main thread from a wait for a lock, and on Windows none does: `ragdoll watch` went on for minutes after
Ctrl+C, about once in a hundred times. So these waits end twice a second, and begin again.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from threading import Event
from typing import TypeVar

LOOK_SECONDS = 0.5

Value = TypeVar("Value")


def result_of(awaited: Future[Value]) -> Value:
    """Waits for the future, and returns its result. Raises what the future does."""
    while not awaited.done():
        wait((awaited,), LOOK_SECONDS)
    return awaited.result()


def next_of(queue: SimpleQueue[Value]) -> Value:
    """Waits until the queue has something, and returns it."""
    while True:
        try:
            return queue.get(timeout=LOOK_SECONDS)
        except Empty:
            continue


def until_set(event: Event) -> None:
    """Returns once the event is set."""
    while not event.wait(LOOK_SECONDS):
        pass
