"""A load of questions on a machine that is only described: who waits for what, and for how long. Pure.

Two servers, as the engine has two workers: one searches, one generates. What each takes is given as functions of how
much it does at once, measured or planned; what happens when both work at the same time, as shares of their speed alone.
Three ways to use them: one question at a time, gangs that are searched and then answered, and both at once with answers
that come and go between two steps.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# How many answers to have under way, of so many questions, where the next prompt takes so many seconds to read.
Best = Callable[[int, float], int]


@dataclass(frozen=True, slots=True)
class Question:
    """When it comes, in seconds; tokens of its prompt that must be read, and of its answer."""

    arrival_s: float
    new_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds of searching for so many questions together, of reading so many tokens, and of a step of B answers.

    `writing` and `searching` are the speeds of both while they work at the same time, as shares of those alone. Of a
    step, `hidden_s` compute nothing, as layers are read: as much of a prompt may be read meanwhile.
    """

    search_s: Callable[[int], float]
    read_s: Callable[[int], float]
    step_s: Callable[[int], float]
    writing: float = 1.0
    searching: float = 1.0
    hidden_s: Callable[[int], float] = lambda answers: 0.0

    def hidden_tokens(self, answers: int, new_tokens: int) -> int:
        """Of so many tokens, those that are read with each step of so many answers; 0 where by themselves is better.

        As the engine decides it (pass_times.py): by when both ways are through with the prompt.
        """
        read_s = self.read_s(new_tokens)
        hidden = int(self.hidden_s(answers) * new_tokens / read_s) if answers and read_s else 0
        if not hidden:
            return 0
        pieces_s = math.ceil(new_tokens / hidden) * self.step_s(answers)
        return hidden if pieces_s < (answers + 1) * read_s else 0


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a question, in seconds; it waited for whatever is neither of the other two."""

    latency_s: float
    search_s: float
    generation_s: float

    @property
    def wait_s(self) -> float:
        return max(0.0, self.latency_s - self.search_s - self.generation_s)


def mean_latency_s(served: Sequence[Served]) -> float:
    """Over all questions."""
    return statistics.fmean(one.latency_s for one in served)


def serial(questions: Sequence[Question], stages: Stages) -> list[Served]:
    """One question at a time, from its search to its last token."""
    return gangs(questions, stages, 1)


def gangs(questions: Sequence[Question], stages: Stages, most: int) -> list[Served]:
    """All that wait, `most` at a time, are searched together, then read and written together; then come the next."""
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
    """When each of a gang has ended, in seconds from the first prompt's beginning."""
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
    """Searching and generating at the same time, as many as are best by how many there are; see `Pipelines`."""
    return Pipelines(questions, stages, best).run()


@dataclass(slots=True)
class _Job:
    """Something that takes so many seconds more, were it alone, and what follows from it."""

    left_s: float
    end: Callable[[], None]


@dataclass(slots=True)
class Pipelines:
    """The state of both servers, driven from event to event. Whoever waits is searched for with all that wait.

    The next prompt is read when fewer answers run than are best (admission.py): with their steps as far as that costs
    them nothing, else by itself, and then nobody's answer goes on meanwhile (batching.py).
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
        """Until every question has ended; in their order."""
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
        """To the next end or arrival, whichever comes first."""
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
        """A token of each answer, and so many of the prompt that is being read."""
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
