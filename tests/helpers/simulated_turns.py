"""Models that take turns, without models: what a load comes to by the rules of engine/generation/time_slices.py alone.

Reading takes `read_s` a prompt token, a step that writes `step_s` and a little for each answer in it, a model that is
not in memory `switch_s` to come. `num_resident` have room, and each writes `SLOTS` answers at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.generation.time_slices import GROUP_SIZE, LateTurns, NextTurn, Targets, Used, Waiting, begun, turn_after

SLOTS, CHUNK = 4, 512
Next = Callable[[Waiting | None, Sequence[Waiting], Used, LateTurns, Targets, float], NextTurn | None]


@dataclass(eq=False)
class Question:
    """`told` are the moments of its tokens."""

    model: int
    asked_at: float
    prompt: int
    answer: int
    num_read: int = 0
    told: list[float] = field(default_factory=list)

    @property
    def is_read(self) -> bool:
        return self.num_read >= self.prompt

    @property
    def has_ended(self) -> bool:
        return len(self.told) >= self.answer


@dataclass
class Machine:
    read_s: float = 1 / 170
    step_s: float = 0.032
    each_s: float = 0.004
    switch_s: float = 0.3
    num_resident: int = 2


def load(per_second: float, seconds: float, num_models: int, seed: int) -> list[Question]:
    """A Poisson process; the models as Zipf has it, and lengths as people's are: many short ones, few long ones."""
    chance, at, asked = random.Random(seed), 0.0, list[Question]()
    weights = [1 / rank for rank in range(1, num_models + 1)]
    while (at := at + chance.expovariate(per_second)) < seconds:
        (model,) = chance.choices(range(num_models), weights)
        prompt, answer = int(chance.uniform(50, 600)), 1 + min(475, int(chance.expovariate(1 / 110)))
        asked.append(Question(model, at, prompt, answer))
    return asked


def goodput(asked: Sequence[Question], targets: Targets) -> float:
    """The share of all tokens that came in time."""
    in_time = sum(at <= targets.due_at(one.asked_at, n) for one in asked for n, at in enumerate(one.told))
    return in_time / sum(one.answer for one in asked)


class Turns:
    """Answers a load until a moment; `decide` says whose turn begins."""

    def __init__(
        self, asked: Sequence[Question], machine: Machine, targets: Targets, decide: Next = turn_after
    ) -> None:
        self._machine, self._targets, self._decide = machine, targets, decide
        self._coming = sorted(asked, key=lambda one: one.asked_at)
        self._waiting, self._writing = list[Question](), list[Question]()
        self._since: dict[int, float] = {}
        self._there = list[int]()
        self._front, self._used, self._num_begun, self._late = -1, Used(), 0, LateTurns()
        self._is_for_late = False
        self.now, self.num_switches = 0.0, 0

    def run(self, until: float) -> None:
        while self.now < until:
            self._hear()
            if not self._waiting and not self._writing:
                if not self._coming:
                    return
                self.now = self._coming[0].asked_at
                continue
            self._take_turn()
            self._begin()
            self._step()

    def _hear(self) -> None:
        while self._coming and self._coming[0].asked_at <= self.now:
            self._waiting.append(self._coming.pop(0))

    def _of(self, questions: Sequence[Question], model: int) -> list[Question]:
        return [one for one in questions if one.model == model]

    def _is_late(self, asked_at: float) -> bool:
        return not self._is_for_late and self._targets.is_late(asked_at, self.now)

    def _next_of(self, model: int) -> list[Question]:
        mine = self._of(self._waiting, model)
        return sorted(mine, key=lambda one: (self._is_late(one.asked_at), one.asked_at))[:GROUP_SIZE]

    def _look(self, model: int) -> Waiting | None:
        writing, waiting = self._of(self._writing, model), self._next_of(model)
        if not writing and not waiting:
            self._since.pop(model, None)
            return None
        if model == self._front:
            self._since[model] = self.now
        since = self._since.setdefault(model, self.now)
        num_unread = sum(not one.is_read for one in writing)
        dues = [self._targets.due_at(one.asked_at, len(one.told)) for one in (*writing, *waiting)]
        has_room = len(writing) < SLOTS and (model != self._front or self._num_begun < GROUP_SIZE)
        return Waiting(
            str(model), 0, since, tuple(dues),
            num_unread=num_unread or int(bool(waiting) and has_room),
            is_writing=any(one.is_read for one in writing),
            step_seconds=self._machine.step_s + self._machine.each_s * max(1, len(writing)),
            reading_seconds=(num_unread + len(waiting)) * 300 * self._machine.read_s,
            switch_seconds=0.0 if model in self._there else self._machine.switch_s,
        )  # fmt: skip

    def _take_turn(self) -> None:
        models = {one.model for one in (*self._waiting, *self._writing)}
        looks = {model: look for model in models if (look := self._look(model)) is not None}
        others = [look for model, look in looks.items() if model != self._front]
        current = looks.get(self._front)
        turn = self._decide(current, others, self._used, self._late, self._targets, self.now)
        if turn is not None:
            self._late = self._late.after(self._used, was_for_late=self._is_for_late)
            self._front, self._num_begun, self._is_for_late = int(turn.chosen.path), 0, turn.is_for_late
            is_free = models <= set(self._there)
            self._used = begun(turn.chosen, list(looks.values()), self._targets, is_free=is_free)
        if self._front not in self._there:
            self._there = [*self._there, self._front][-self._machine.num_resident :]
            self.now += self._machine.switch_s
            self.num_switches += 1
        else:
            self._there = [*(one for one in self._there if one != self._front), self._front]

    def _begin(self) -> None:
        for one in self._next_of(self._front):
            if len(self._of(self._writing, self._front)) < SLOTS and self._num_begun < GROUP_SIZE:
                self._waiting.remove(one)
                self._writing.append(one)
                self._num_begun += 1

    def _step(self) -> None:
        mine = self._of(self._writing, self._front)
        unread = [one for one in mine if not one.is_read]
        if unread:
            num_tokens = min(CHUNK, unread[0].prompt - unread[0].num_read)
            seconds = num_tokens * self._machine.read_s
            unread[0].num_read += num_tokens
            told = unread[:1] if unread[0].is_read else []
        else:
            seconds, told = self._machine.step_s + self._machine.each_s * len(mine), mine
        self.now += seconds
        self._used = self._used.with_step(seconds, is_reading=bool(unread))
        for one in told:
            one.told.append(self.now)
            if one.has_ended:
                self._writing.remove(one)
