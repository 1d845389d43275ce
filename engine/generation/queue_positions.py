"""Reports how many questions are before each waiting one: once to all, afterwards only to those near the front."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.events import AnswerStateChanged, Publish
from engine.inflight import QuestionInFlight

# Questions further back do not get every change of their position: with hundreds, that would be most of the work.
POSITIONS_REPORTED = 50


class QueuePositions:
    """The position that was last reported to each question; on the generation thread."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._reported: dict[str, int] = {}
        self._num_moves = 0

    def follow(self, num_moves: int, waiting: Callable[[], Iterable[QuestionInFlight]]) -> None:
        """Reports changes, if any: `num_moves` counts how often a question arrived, began or left so far."""
        if num_moves != self._num_moves:
            self._num_moves = num_moves
            self.report(waiting())

    def report(self, waiting: Iterable[QuestionInFlight]) -> None:
        """Reports changes; `waiting` are all waiting questions, the next one first."""
        reported: dict[str, int] = {}
        for ahead, in_flight in enumerate(waiting):
            question_id = in_flight.question.question_id
            before = self._reported.get(question_id)
            if before is None or (before != ahead and ahead < POSITIONS_REPORTED):
                self._publish(AnswerStateChanged(question_id, "queued", ahead))
                before = ahead
            reported[question_id] = before
        self._reported = reported
