"""The queue of searches and its order: users at the window before scripts, and no more at once than helps.

RAGDoll's retrieval worker takes all waiting questions, since a sweep of many costs little more than one query. With a
backlog that would be thousands of questions with their passages in memory, hours before a model reads them, and a user
at the window would wait behind all of them. So only a limited number of scripts' questions is searched ahead of the
answers (the bounded queue between the two pipelines), and other questions overtake them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event
from engine.inflight import QuestionInFlight
from engine.retrieval.batching import MAX_BATCH

Other = TypeVar("Other")

# Twice the number of answers that are ever written at once, so that the model never waits for a search.
MOST_AHEAD = 128
# Cancelling a question sets a flag and wakes no thread: waiting questions of scripts are checked this often.
_LOOK_SECONDS = 0.5


class WaitingRoom(Generic[Other]):
    """Questions and other work, added from any thread and taken by one.

    Questions of users come first, but never twice in a row while others can go; other work and scripts' questions take
    turns. `num_at_once`: the most questions that are taken together; `most_ahead`: so many questions of scripts at most
    are searched and not yet answered.
    """

    def __init__(
        self,
        num_at_once: Callable[[], int] = lambda: MAX_BATCH,
        most_ahead: int = MOST_AHEAD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_at_once, self._most_ahead, self._clock = num_at_once, most_ahead, clock
        self._changed = threading.Condition()
        self._people, self._scripts = deque[QuestionInFlight](), deque[QuestionInFlight]()
        self._others = deque[Other]()
        self._ahead = set[str]()
        self._were_people_last = self._was_other_last = False
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._people) + len(self._scripts) + len(self._others)

    @property
    def has_people(self) -> bool:
        """Whether a user at the window waits and goes first."""
        return bool(self._people) and not self.is_closed

    def num_before(self, item: QuestionInFlight) -> int:
        """How many items go before a question that comes now."""
        return len(self._people) if _is_of_people(item) else len(self)

    def put(self, item: QuestionInFlight | Other) -> bool:
        """Adds an item; False once the queue is closed."""
        with self._changed:
            if not self.is_closed:
                if not isinstance(item, QuestionInFlight):
                    self._others.append(item)
                else:
                    (self._people if _is_of_people(item) else self._scripts).append(item)
                self._changed.notify_all()
            return not self.is_closed

    def take(self) -> list[QuestionInFlight] | Other | None:
        """Waits for what comes next: questions to search together, or one other item; None once it is closed."""
        with self._changed:
            look_at = self._clock() + _LOOK_SECONDS
            while not self.is_closed:
                can_go = bool(self._others) or self._has_room_for_scripts
                if self._people and not (self._were_people_last and can_go):
                    return self._first_people()
                if can_go:
                    return self._next_other()
                self._changed.wait(_LOOK_SECONDS if self._scripts else None)
                if self._clock() >= look_at:
                    look_at = self._clock() + _LOOK_SECONDS
                    if unwanted := self._without_cancelled():
                        return unwanted
            return None

    def take_people(self) -> list[QuestionInFlight]:
        """Takes the waiting questions of users while those of scripts are being worked on; never waits."""
        with self._changed:
            return [] if self.is_closed else self._first_people()

    def note(self, event: Event) -> None:
        """Notes that a question has ended, which makes room for others."""
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            with self._changed:
                self._ahead.discard(event.question_id)
                self._changed.notify_all()

    def close(self) -> None:
        """Closes the queue: nothing more is accepted, and only `drain` takes what is left."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def drain(self) -> list[QuestionInFlight | Other]:
        """Takes all that is left."""
        with self._changed:
            left: list[QuestionInFlight | Other] = [*self._people, *self._others, *self._scripts]
            self._people.clear()
            self._others.clear()
            self._scripts.clear()
            return left

    @property
    def _has_room_for_scripts(self) -> bool:
        return bool(self._scripts) and len(self._ahead) < self._most_ahead

    def _first_people(self) -> list[QuestionInFlight]:
        batch = [self._people.popleft() for _ in range(min(len(self._people), self._num_at_once()))]
        self._were_people_last = self._were_people_last or bool(batch)
        return batch

    def _next_other(self) -> list[QuestionInFlight] | Other:
        self._were_people_last = False
        if self._others and not (self._was_other_last and self._has_room_for_scripts):
            self._was_other_last = True
            return self._others.popleft()
        self._was_other_last = False
        room = min(len(self._scripts), self._num_at_once(), self._most_ahead - len(self._ahead))
        batch = [self._scripts.popleft() for _ in range(room)]
        self._ahead |= {in_flight.question.question_id for in_flight in batch}
        return batch

    def _without_cancelled(self) -> list[QuestionInFlight]:
        """Takes out cancelled questions, which need no room."""
        unwanted = [in_flight for in_flight in self._scripts if in_flight.cancelled.is_set()]
        if unwanted:
            gone = set(map(id, unwanted))
            self._scripts = deque(in_flight for in_flight in self._scripts if id(in_flight) not in gone)
        return unwanted


def _is_of_people(in_flight: QuestionInFlight) -> bool:
    return in_flight.question.priority == "interactive"
