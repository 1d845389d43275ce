"""The backlog: how many questions wait and run now, whether others follow, and how long recent ones have been.

Learnt from the events of the engine, on whichever thread they happen.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, AnswerStateChanged, Event, PromptMade
from engine.memory.demand import Backlog
from engine.metrics import Timings

# The weight of one answer for the next ones, and that of the assumptions before the first, in answers.
_LEARNING_RATE, _ASSUMED_ANSWERS = 0.2, 1 / 2
_RUNNING = ("reading", "writing")
# How many recent lengths are kept, as the next one may be like any of them. Questions overlap where, of the last four,
# two came while others were there; when the last two came alone, they are asked one by one again.
_OF_LATE, _CAME_LAST, _OVERLAPPING, _ALONE_AGAIN = 16, 4, 2, 2
# After this long without a question, the next one may be alone.
QUIET_SECONDS = 60.0
# A smaller difference is not worth another plan.
_REFILL_DIGITS = 1
# The least refill that is assumed: whatever was seen, others may follow. It also makes the end of the last question
# count beside the mean. Of several plans with the same mean, which are common where no question follows, some finish
# much later: nine questions took 50 s nine at a time and 74 s by threes.
LEAST_REFILL = 0.5


class BacklogWatch:
    """Counts questions by their state; `on_change` is called when one came, began or ended."""

    def __init__(
        self, on_change: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_change, self._clock = on_change, clock
        self._runs: dict[str, bool] = {}
        # Tokens of prompts that wait, are read or are answered, if they have been made.
        self._prompts: dict[str, int] = {}
        self._known, self._num_known = Backlog(), 0
        self._lengths, self._came_beside = deque[int](maxlen=_OF_LATE), deque[bool](maxlen=_CAME_LAST)
        # The share of ended questions that others took the place of; and how many have come since one ended.
        self._refill, self._num_come, self._ended_at = 0.0, 0, float("-inf")
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Takes in an event; events of no question are ignored."""
        if isinstance(event, AnswerStateChanged):
            is_news = self._note_state(event.question_id, event.state in _RUNNING)
        elif isinstance(event, PromptMade):
            is_news = self._note_prompt(event.question_id, event.num_tokens)
        elif isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            is_news = self._note_end(event)
        else:
            return
        if is_news:
            self._on_change()

    def now(self) -> Backlog:
        with self._lock:
            running = sum(self._runs.values())
            known = self._known
            return Backlog(
                len(self._runs) - running,
                running,
                self._prompt_tokens,
                known.answer_tokens,
                known.cached_share,
                max(LEAST_REFILL, round(self._refill, _REFILL_DIGITS)),
                tuple(sorted((*self._lengths, *self._lengths_under_way))),
                self._overlaps,
            )

    @property
    def _prompt_tokens(self) -> int:
        """The mean prompt of waiting and running questions: that of made prompts, with an estimate for the others."""
        num_made, num_tokens = len(self._prompts), sum(self._prompts.values())
        if not num_made:
            return self._known.prompt_tokens
        num_known = min(1 / _LEARNING_RATE, self._num_known + _ASSUMED_ANSWERS)
        usual = (num_known * self._known.prompt_tokens + num_tokens) / (num_known + num_made)
        return round((num_tokens + (len(self._runs) - num_made) * usual) / len(self._runs))

    @property
    def _lengths_under_way(self) -> Iterator[int]:
        return (num_tokens + self._known.answer_tokens for num_tokens in self._prompts.values())

    @property
    def _overlaps(self) -> bool:
        latest = tuple(self._came_beside)
        return sum(latest) >= _OVERLAPPING and any(latest[-_ALONE_AGAIN:])

    def _learn(self, timings: Timings) -> None:
        """Learns from an answer; one that consists of quotes alone teaches nothing."""
        if timings.prompt_tokens:
            self._num_known += 1
            self._lengths.append(timings.prompt_tokens + timings.generated_tokens)
            rate = max(_LEARNING_RATE, 1 / (self._num_known + _ASSUMED_ANSWERS))
            self._known = _learned(self._known, timings, rate)

    def _note_state(self, question_id: str, runs: bool) -> bool:
        with self._lock:
            if question_id not in self._runs:
                self._note_coming()
            is_news = self._runs.get(question_id) != runs
            self._runs[question_id] = runs
        return is_news

    def _note_prompt(self, question_id: str, num_tokens: int) -> bool:
        """Notes a prompt, even of a question that was not searched for, of which there was no event yet."""
        with self._lock:
            if question_id not in self._runs:
                self._note_coming()
                self._runs[question_id] = False
            is_news = self._prompts.get(question_id) != num_tokens
            self._prompts[question_id] = num_tokens
        return is_news

    def _note_coming(self) -> None:
        self._came_beside.append(bool(self._runs))
        if not self._runs and self._clock() - self._ended_at > QUIET_SECONDS:
            self._refill, self._num_come = 0.0, 0
        else:
            self._num_come += 1

    def _note_end(self, event: AnswerFinished | AnswerCancelled | AnswerFailed) -> bool:
        with self._lock:
            if isinstance(event, AnswerFinished):
                self._learn(event.timings)
            was_known = self._runs.pop(event.question_id, None) is not None
            self._prompts.pop(event.question_id, None)
            if was_known:
                self._refill = _towards(self._refill, min(1, self._num_come), _LEARNING_RATE)
                self._num_come, self._ended_at = 0, self._clock()
            return was_known


def _learned(known: Backlog, timings: Timings, rate: float) -> Backlog:
    """Returns averages that follow what was seen."""
    share = min(1.0, timings.cached_tokens / timings.prompt_tokens)
    return Backlog(
        prompt_tokens=round(_towards(known.prompt_tokens, timings.prompt_tokens, rate)),
        answer_tokens=max(1, round(_towards(known.answer_tokens, timings.generated_tokens, rate))),
        cached_share=_towards(known.cached_share, share, rate),
    )


def _towards(known: float, seen: float, rate: float) -> float:
    return known + rate * (seen - known)
