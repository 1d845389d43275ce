"""The questions that have not ended yet, and the one rule about them: each ends exactly once."""

from __future__ import annotations

import threading

from engine.errors import BadRequest
from engine.events import AnswerEnded
from engine.inflight import QuestionInFlight


class OpenQuestions:
    """Questions by id, from when they were asked until they finished, were cancelled, or failed."""

    def __init__(self) -> None:
        self._open: dict[str, QuestionInFlight] = {}
        # Registered, but not handed over: checking the files that they name may take minutes on a share that hangs.
        self._in_hand: set[str] = set()
        self._lock = threading.Lock()

    def add(self, in_flight: QuestionInFlight) -> None:
        """Registers a question, which must then be handed over or withdrawn.

        Raises:
            BadRequest: One with this id is still open.
        """
        question_id = in_flight.question.question_id
        with self._lock:
            if question_id in self._open:
                raise BadRequest(f"A question with the id {question_id!r} is being answered already.")
            self._open[question_id] = in_flight
            self._in_hand.add(question_id)

    def hand_over(self, in_flight: QuestionInFlight) -> bool:
        """Returns whether it goes to the thread that answers, which will end it; False if it has been cancelled."""
        question_id = in_flight.question.question_id
        with self._lock:
            if self._open.get(question_id) is not in_flight or in_flight.cancelled.is_set():
                return False
            self._in_hand.discard(question_id)
            return True

    def withdraw(self, in_flight: QuestionInFlight) -> bool:
        """Removes a question that was refused; False if it has already ended as cancelled."""
        question_id = in_flight.question.question_id
        with self._lock:
            return self._open.get(question_id) is in_flight and self._remove(question_id)

    def end(self, event: AnswerEnded) -> bool:
        """Closes the question; False if it had ended before, so that the event must not be published."""
        with self._lock:
            return self._remove(event.question_id)

    def cancel(self, question_id: str) -> bool:
        """Sets the flag; harmless when the question has ended or never was.

        Returns:
            Whether the caller must publish its end, because no thread has it yet.
        """
        with self._lock:
            if (in_flight := self._open.get(question_id)) is None:
                return False
            in_flight.cancelled.set()
            return question_id in self._in_hand

    def _remove(self, question_id: str) -> bool:
        self._in_hand.discard(question_id)
        return self._open.pop(question_id, None) is not None

    @property
    def has_somebody_waiting(self) -> bool:
        """Whether a user waits for an answer to one of them."""
        return any(one.question.priority == "interactive" and not one.cancelled.is_set() for one in self.all())

    def all(self) -> tuple[QuestionInFlight, ...]:
        with self._lock:
            return tuple(self._open.values())
