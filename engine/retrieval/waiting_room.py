"""What waits to be searched, and in which order: somebody at the window before scripts, and no more than is of use.

RAGDoll's retrieval worker takes all questions that wait, since a sweep costs little more than one query. With a backlog
that would be thousands of questions with their passages in memory, hours before a model gets to them, and somebody at
the window behind all of them. So scripts' questions are searched only a bounded number ahead of the answers (the
bounded queue between the two pipelines), and others overtake them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event
from engine.inflight import QuestionInFlight
from engine.retrieval.batching import MAX_BATCH

Other = TypeVar("Other")

# As many as are ever written at once, and as many again, so that the model never waits for a search.
MOST_AHEAD = 128
# A question that is cancelled raises a flag and wakes nobody.
_LOOK_SECONDS = 0.1


class WaitingRoom(Generic[Other]):
    """Questions and other work, put in from any thread and taken out by one.

    Questions of people come first, but never twice in a row while others wait. `num_at_once`: the most questions that
    are taken together; `most_ahead`: so many questions of scripts at most are searched and not yet answered.
    """

    def __init__(self, num_at_once: Callable[[], int] = lambda: MAX_BATCH, most_ahead: int = MOST_AHEAD) -> None:
        self._num_at_once, self._most_ahead = num_at_once, most_ahead
        self._changed = threading.Condition()
        self._people = deque[QuestionInFlight]()
        self._others = deque[QuestionInFlight | Other]()
        self._ahead = set[str]()
        self._were_people_last = False
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._people) + len(self._others)

    @property
    def has_people(self) -> bool:
        """Whether somebody at the window waits."""
        return bool(self._people)

    def put(self, item: QuestionInFlight | Other) -> bool:
        """Whether it was taken in; not once it is closed."""
        with self._changed:
            if not self.is_closed:
                is_urgent = isinstance(item, QuestionInFlight) and item.question.priority == "interactive"
                if is_urgent:
                    self._people.append(item)  # type: ignore[arg-type]  # as was just asked
                else:
                    self._others.append(item)
                self._changed.notify_all()
            return not self.is_closed

    def take(self) -> list[QuestionInFlight] | Other | None:
        """Waits for what comes next: questions to search together, or one other item; None once it is closed."""
        with self._changed:
            while not self.is_closed:
                if self._people and not (self._were_people_last and self._may_go_on()):
                    return self._first_people()
                if self._may_go_on():
                    self._were_people_last = False
                    return self._next_others()
                self._changed.wait(_LOOK_SECONDS if self._others else None)
            return None

    def take_people(self) -> list[QuestionInFlight]:
        """Questions of people that wait by now, for who is busy with those of scripts; never waits."""
        with self._changed:
            return [] if self.is_closed else self._first_people()

    def note(self, event: Event) -> None:
        """Hears of questions that have ended, which makes room for others."""
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            with self._changed:
                self._ahead.discard(event.question_id)
                self._changed.notify_all()

    def close(self) -> None:
        """From now on nothing is taken in, and nothing more comes out but by `drain`."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def drain(self) -> list[QuestionInFlight | Other]:
        """Takes all that is left."""
        with self._changed:
            left = [*self._people, *self._others]
            self._people.clear()
            self._others.clear()
            return left

    def _first_people(self) -> list[QuestionInFlight]:
        self._were_people_last = True
        return [self._people.popleft() for _ in range(min(len(self._people), self._num_at_once()))]

    def _may_go_on(self) -> bool:
        """Whether one of the others can be taken."""
        return any(self._can_be_taken(item) for item in self._others)

    def _can_be_taken(self, item: QuestionInFlight | Other) -> bool:
        # What is cancelled, or no question, gets nothing that takes room.
        is_wanted = isinstance(item, QuestionInFlight) and not item.cancelled.is_set()
        return not is_wanted or len(self._ahead) < self._most_ahead

    def _next_others(self) -> list[QuestionInFlight] | Other:
        """The next questions, up to the first item that is none; or that item."""
        batch, left = list[QuestionInFlight](), deque[QuestionInFlight | Other]()
        while self._others and len(batch) < self._num_at_once():
            item = self._others.popleft()
            if not self._can_be_taken(item):
                left.append(item)
            elif isinstance(item, QuestionInFlight):
                self._ahead.add(item.question.question_id)
                batch.append(item)
            elif batch:
                left.append(item)
                break
            else:
                self._others.extendleft(reversed(left))
                return item
        self._others.extendleft(reversed(left))
        return batch
