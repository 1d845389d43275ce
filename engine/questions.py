"""The questions that have not ended yet, and the one rule about them: each ends once."""

from __future__ import annotations

import threading

from engine.errors import BadRequest
from engine.events import AnswerEnded
from engine.inflight import QuestionInFlight


class OpenQuestions:
    """Questions by id, from when they were asked until they finished, were cancelled, or failed."""

    def __init__(self) -> None:
        self._open: dict[str, QuestionInFlight] = {}
        self._lock = threading.Lock()

    def add(self, in_flight: QuestionInFlight) -> None:
        """Registers a question.

        Raises:
            BadRequest: One with this id is still open.
        """
        question_id = in_flight.question.question_id
        with self._lock:
            if question_id in self._open:
                raise BadRequest(f"A question with the id {question_id!r} is being answered already.")
            self._open[question_id] = in_flight

    def end(self, event: AnswerEnded) -> bool:
        """Closes the question; False when it had ended before, and the event must not be told."""
        with self._lock:
            return self._open.pop(event.question_id, None) is not None

    def cancel(self, question_id: str) -> None:
        """Sets the flag; harmless when the question has ended or never was."""
        with self._lock:
            in_flight = self._open.get(question_id)
        if in_flight is not None:
            in_flight.cancelled.set()

    @property
    def has_somebody_waiting(self) -> bool:
        """Whether a person waits for an answer to one of them."""
        return any(one.question.priority == "interactive" and not one.cancelled.is_set() for one in self.all())

    def all(self) -> tuple[QuestionInFlight, ...]:
        with self._lock:
            return tuple(self._open.values())
