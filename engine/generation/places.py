"""How many questions come before each that waits: told to everybody at first, then to those who are near."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.events import AnswerStateChanged, Publish
from engine.inflight import QuestionInFlight

# Whoever is further back in the queue is not told of every step that it moves: with hundreds that is most of the work.
PLACES_TOLD = 50


class Places:
    """What each was told last; on the generation thread."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._told: dict[str, int] = {}
        self._num_moves = 0

    def follow(self, num_moves: int, waiting: Callable[[], Iterable[QuestionInFlight]]) -> None:
        """Tells what has changed if anything did: `num_moves` counts how often anybody came, began or left so far."""
        if num_moves != self._num_moves:
            self._num_moves = num_moves
            self.tell(waiting())

    def tell(self, waiting: Iterable[QuestionInFlight]) -> None:
        """Tells what has changed; `waiting` are all that wait, the next one first."""
        told: dict[str, int] = {}
        for ahead, in_flight in enumerate(waiting):
            question_id = in_flight.question.question_id
            before = self._told.get(question_id)
            if before is None or (before != ahead and ahead < PLACES_TOLD):
                self._publish(AnswerStateChanged(question_id, "queued", ahead))
                before = ahead
            told[question_id] = before
        self._told = told
