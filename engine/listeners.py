"""Listeners: they receive all events of the engine; the end of each question is published here exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event, Publish
from engine.inflight import QuestionInFlight
from engine.questions import OpenQuestions

log = logging.getLogger(__name__)


class Listeners:
    """Passes every event to all subscribers, on the thread where it happens."""

    def __init__(self, questions: OpenQuestions, first: Publish | None = None) -> None:
        self._questions = questions
        self._listeners: list[Publish] = [first] if first else []

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        """Calls `listener` with every event from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and not self._questions.end(event):
            log.warning("question %s ended twice", event.question_id)
            return
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # It runs on a worker's thread, which must live on, or later questions would never end.
                log.exception("a listener failed at %s", type(event).__name__)

    @property
    def has_somebody_waiting(self) -> bool:
        """Whether a user waits for an answer."""
        return self._questions.has_somebody_waiting

    def cancelled(self, in_flight: QuestionInFlight) -> None:
        self.publish(AnswerCancelled(in_flight.question.question_id))

    def failed(self, in_flight: QuestionInFlight, error: RagdollError) -> None:
        self.publish(AnswerFailed(in_flight.question.question_id, error))
