"""Simulates a load of questions on a machine given by its stage times: who waits for what, and how long. Pure.

Two servers, like the engine's two workers: one searches, one generates. Their times are functions of how much they do
at once, measured or planned; how they slow each other down is given as shares of their speed alone. There are three
ways to use them: one question at a time; gangs that are searched and then answered; and both in parallel, with answers
that start and end between steps.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# Maps the number of questions, and the seconds to read the next prompt, to the number of answers to run at once.
Best = Callable[[int, float], int]


@dataclass(frozen=True, slots=True)
class Question:
    """Its arrival in seconds, the tokens of its prompt that must be read, and those of its answer."""

    arrival_s: float
    new_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds to search for a number of questions, to read a number of tokens, and of a step with a number of answers.

    `writing` and `searching` are the speeds of both while they run in parallel, as shares of those alone. In `hidden_s`
    of a step nothing is computed because layers are being read; that much of a prompt can be read meanwhile.
    """

    search_s: Callable[[int], float]
    read_s: Callable[[int], float]
    step_s: Callable[[int], float]
    writing: float = 1.0
    searching: float = 1.0
    hidden_s: Callable[[int], float] = lambda answers: 0.0

    def hidden_tokens(self, answers: int, new_tokens: int) -> int:
        """Returns the prompt tokens to read with each step of `answers` answers; 0 if reading separately is better.

        Decided like in the engine (pass_times.py): by which way finishes the prompt first.
        """
        read_s = self.read_s(new_tokens)
        hidden = int(self.hidden_s(answers) * new_tokens / read_s) if answers and read_s else 0
        if not hidden:
            return 0
        pieces_s = math.ceil(new_tokens / hidden) * self.step_s(answers)
        return hidden if pieces_s < (answers + 1) * read_s else 0


@dataclass(frozen=True, slots=True)
class Served:
    """Times of a question in seconds; the rest of its latency is waiting."""

    latency_s: float
    search_s: float
    generation_s: float

    @property
    def wait_s(self) -> float:
        return max(0.0, self.latency_s - self.search_s - self.generation_s)


def mean_latency_s(served: Sequence[Served]) -> float:
    """Returns the mean over all questions."""
    return statistics.fmean(one.latency_s for one in served)


def serial(questions: Sequence[Question], stages: Stages) -> list[Served]:
    """Answers one question at a time, from its search to its last token."""
    return gangs(questions, stages, 1)


def gangs(questions: Sequence[Question], stages: Stages, most: int) -> list[Served]:
    """Searches up to `most` waiting questions together, then reads and writes them together; then come the next."""
    served: list[Served] = []
    now, place = 0.0, 0
    while place < len(questions):
        now = max(now, questions[place].arrival_s)
        gang = [one for one in questions[place : place + most] if one.arrival_s <= now]
        place += len(gang)
        search_s, ends = stages.search_s(len(gang)), _written(gang, stages)
        served += [
            Served(now + search_s + end - one.arrival_s, search_s, end) for one, end in zip(gang, ends, strict=True)
        ]
        now += search_s + max(ends)
    return served


def _written(gang: Sequence[Question], stages: Stages) -> list[float]:
    """Returns when each answer of a gang ends, in seconds from the start of the first prompt."""
    now = math.fsum(stages.read_s(one.new_tokens) for one in gang)
    ends, left = [0.0] * len(gang), {place: one.answer_tokens for place, one in enumerate(gang)}
    while left:
        steps = min(left.values())
        now += steps * stages.step_s(len(left))
        for place in [place for place, tokens in left.items() if tokens == steps]:
            ends[place] = now
        left = {place: tokens - steps for place, tokens in left.items() if tokens > steps}
    return ends


def pipelined(questions: Sequence[Question], stages: Stages, best: Best) -> list[Served]:
    """Searches and generates in parallel, with the best number of answers at once; see `Pipelines`."""
    return Pipelines(questions, stages, best).run()


@dataclass(slots=True)
class _Job:
    """Work that takes `left_s` more seconds if it runs alone, and what happens at its end."""

    left_s: float
    end: Callable[[], None]


@dataclass(slots=True)
class Pipelines:
    """The state of both servers, advanced from event to event. All waiting questions are searched together.

    The next prompt is read when fewer answers run than are best (admission.py): along with their steps as far as that
    is free, otherwise separately, and then no answer continues meanwhile (batching.py).
    """

    questions: Sequence[Question]
    stages: Stages
    best: Best
    now: float = 0.0
    _waiting: deque[int] = field(default_factory=deque)
    _found: deque[int] = field(default_factory=deque)
    _left: dict[int, int] = field(default_factory=dict)
    _unread: dict[int, int] = field(default_factory=dict)
    _search: _Job | None = None
    _pass: _Job | None = None
    _search_s: dict[int, float] = field(default_factory=dict)
    _begun_s: dict[int, float] = field(default_factory=dict)
    _ended_s: dict[int, float] = field(default_factory=dict)

    def run(self) -> list[Served]:
        """Runs until every question has ended; returns them in order."""
        coming = deque(range(len(self.questions)))
        while len(self._ended_s) < len(self.questions):
            while coming and self.questions[coming[0]].arrival_s <= self.now:
                self._waiting.append(coming.popleft())
            self._begin()
            self._advance(self.questions[coming[0]].arrival_s if coming else math.inf)
        return [
            Served(
                self._ended_s[place] - one.arrival_s, self._search_s[place], self._ended_s[place] - self._begun_s[place]
            )
            for place, one in enumerate(self.questions)
        ]

    def _begin(self) -> None:
        if self._search is None and self._waiting:
            batch, since = list(self._waiting), self.now
            self._waiting.clear()
            self._search = _Job(self.stages.search_s(len(batch)), lambda: self._end_search(batch, since))
        if self._pass is not None:
            return
        if not self._unread and self._may_read():
            place = self._found.popleft()
            self._begun_s[place], self._unread[place] = self.now, self.questions[place].new_tokens
        hidden = sum(self.stages.hidden_tokens(len(self._left), unread) for unread in self._unread.values())
        if self._unread and not hidden:
            self._read(*self._unread.popitem())
        elif self._left:
            self._pass = _Job(self.stages.step_s(len(self._left)), lambda: self._write(hidden))

    def _may_read(self) -> bool:
        if not self._found or not self._left:
            return bool(self._found)
        read_s = self.stages.read_s(self.questions[self._found[0]].new_tokens)
        return len(self._left) < self.best(len(self._waiting) + len(self._found) + len(self._left), read_s)

    def _advance(self, next_arrival_s: float) -> None:
        """Advances to the next end or arrival."""
        is_both = self._search is not None and self._pass is not None
        ends = [
            (job, job.left_s / (speed if is_both else 1.0), speed if is_both else 1.0)
            for job, speed in ((self._search, self.stages.searching), (self._pass, self.stages.writing))
            if job is not None
        ]
        seconds = min([next_arrival_s - self.now, *(left for _, left, _ in ends)])
        self.now += seconds
        for job, left, speed in ends:
            job.left_s -= seconds * speed
            if left <= seconds:
                job.end()

    def _end_search(self, batch: list[int], since: float) -> None:
        self._search = None
        for place in batch:
            self._search_s[place] = self.now - since
        self._found.extend(batch)

    def _read(self, place: int, num_tokens: int) -> None:
        def end() -> None:
            self._pass = None
            self._left[place] = self.questions[place].answer_tokens

        self._pass = _Job(self.stages.read_s(num_tokens), end)

    def _write(self, num_read: int) -> None:
        """Writes a token of each answer, and reads `num_read` tokens of the current prompt."""
        self._pass = None
        for place in list(self._left):
            self._left[place] -= 1
            if not self._left[place]:
                del self._left[place]
                self._ended_s[place] = self.now
        for place in list(self._unread):
            self._unread[place] -= num_read
            if self._unread[place] <= 0:
                del self._unread[place]
                self._left[place] = self.questions[place].answer_tokens
