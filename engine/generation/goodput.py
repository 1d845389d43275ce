"""Goodput: how many of the answers that users waited for came as soon and as fast as promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core import Question
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event
from engine.generation.time_slices import Targets
from engine.metrics import Timings


def came_in_time(timings: Timings, targets: Targets) -> bool:
    """Returns whether an answer met the targets for its first token and for the mean of those after it (TTFT, TPOT)."""
    num_following = max(0, timings.generated_tokens - 1)
    writing_seconds = timings.total_s - timings.ttft_s if num_following else 0.0
    return timings.ttft_s <= targets.ttft_seconds and writing_seconds <= num_following * targets.tpot_seconds


@dataclass(frozen=True, slots=True)
class Goodput:
    """Answers that models have finished for users, and how many of them came in time."""

    num_finished: int = 0
    num_in_time: int = 0

    def after(self, timings: Timings, targets: Targets) -> Goodput:
        """Returns the counts with one more answer."""
        return replace(
            self,
            num_finished=self.num_finished + 1,
            num_in_time=self.num_in_time + came_in_time(timings, targets),
        )

    def counters(self) -> dict[str, float]:
        """Returns the figures for the Memory page; none while there is no answer to report."""
        return {"answers_in_time_ratio": self.num_in_time / self.num_finished} if self.num_finished else {}


class GoodputWatch:
    """Counts users' answers since the engine began, of all models; `now` may be read on any thread.

    Scripts have no targets: a question to every file takes hours to answer, and would always be late.
    """

    def __init__(self, targets: Callable[[], Targets]) -> None:
        """Starts with no answers; `targets` returns those in force when an answer ends."""
        self._targets = targets
        self._of_people: set[str] = set()
        self.now = Goodput()

    def asked(self, question: Question) -> None:
        """Notes a question that is about to be answered; on any thread."""
        if question.priority == "interactive":
            self._of_people.add(question.question_id)

    def note(self, event: Event) -> None:
        """Takes in an event; questions end once, one after the other. Answers of quotes are not counted."""
        if not isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            return
        is_of_people = event.question_id in self._of_people
        self._of_people.discard(event.question_id)
        if is_of_people and isinstance(event, AnswerFinished) and event.answer.model is not None:
            self.now = self.now.after(event.timings, self._targets())
