"""Waiting for the ends of some questions, for callers who want answers and no events."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.errors import GenerationError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Event, Publish


class Waiting:
    """Collects the ends of these questions while it is entered, so enter it before the first is asked."""

    def __init__(self, subscribe: Callable[[Publish], Callable[[], None]], question_ids: set[str]) -> None:
        self._subscribe, self._missing = subscribe, question_ids
        self._ends: dict[str, AnswerEnded] = {}
        self._all_ended = threading.Event()
        if not question_ids:
            self._all_ended.set()

    def __enter__(self) -> Waiting:
        self._unsubscribe = self._subscribe(self.take)
        return self

    def __exit__(self, *error: object) -> None:
        self._unsubscribe()

    def wait(self) -> dict[str, AnswerEnded]:
        """How each ended, by its id, when all have."""
        self._all_ended.wait()
        return self._ends

    def take(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in self._missing:
            self._ends[event.question_id] = event
            if len(self._ends) == len(self._missing):
                self._all_ended.set()


def finished(end: AnswerEnded) -> AnswerFinished:
    """The end, if it is an answer.

    Raises:
        RagdollError: Why it is none.
    """
    if isinstance(end, AnswerFinished):
        return end
    raise end.error if isinstance(end, AnswerFailed) else GenerationError("The question was cancelled.")
