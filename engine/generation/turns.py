"""What waits for its turn on the generation thread: questions, and the change of the model that comes before them.

A change of the model is for every question that names none and of which nobody has seen any text, also when it was
asked before: the worker takes those back from the loop, and the new model answers them, the most urgent first. So a
change waits for no more than the answers that have begun to appear, however many a script has asked for; and who names
a model waits for no change. Of several changes only the newest is carried out. A model that nobody uses rests only
while nothing waits: a choice always overrules it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import get_args

from engine.core import Priority
from engine.generation.commands import InTurn, RestModel, Task, UseModel
from engine.generation.rounds import GROUP_SIZE

_URGENCY: tuple[Priority, ...] = get_args(Priority)
# Whether an answer to a question that was asked then cannot begin in time any more (rounds.py).
IsLate = Callable[[float], bool]


def nobody_is_late(asked_at: float) -> bool:
    """Serves all as they came."""
    return False


@dataclass(frozen=True, slots=True)
class Asked:
    """Of one model's questions that have not begun: how urgent they are at most, and when the next of these were asked.

    Of as many as begin in one turn, in the order in which they will.
    """

    priority: Priority
    moments: tuple[float, ...]


class Turns:
    """On the generation thread. `change` is the one that waits, if any; `is_ending` once the thread was told to end.

    `num_moves` counts how often a question came or left.
    """

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self.num_moves = 0
        self.change: UseModel | None = None
        self._rest: RestModel | None = None
        self.is_ending = False

    def __len__(self) -> int:
        """How much waits."""
        return len(self._tasks) + (self.change is not None) + self.is_ending

    def __iter__(self) -> Iterator[Task]:
        """The questions, in the order in which they will begin."""
        return iter(self._tasks)

    def add(self, item: InTurn) -> None:
        """Behind all that is as urgent."""
        if isinstance(item, Task):
            insort(self._tasks, item, key=_urgency)
            self.num_moves += 1
        elif isinstance(item, UseModel):
            self.change = item
        elif isinstance(item, RestModel):
            self._rest = item
        else:
            self.is_ending = True

    def put_back(self, tasks: Iterable[Task]) -> None:
        """Before all that is as urgent, in this order: they had their turn and could not use it."""
        if returned := list(tasks):
            self._tasks = sorted([*returned, *self._tasks], key=_urgency)
            self.num_moves += len(returned)

    def by_model(self, is_late: IsLate = nobody_is_late) -> dict[str, Asked]:
        """What the questions that can begin name as their model, "" for the chosen one; `is_late` as in `take`."""
        found: dict[str, list[Task]] = {}
        for task in self._tasks:
            if self._can_begin(task):
                known = found.setdefault(task.model, [])
                # The first of them is as urgent as any; whoever is less so comes after those, late or not.
                if not known or _urgency(known[0]) == _urgency(task):
                    known.append(task)
        return {model: _asked(nsmallest(GROUP_SIZE, tasks, _order(is_late))) for model, tasks in found.items()}

    def take(
        self,
        most: int | None = None,
        models: Collection[str] | None = None,
        is_late: IsLate = nobody_is_late,
        priority: Priority | None = None,
    ) -> list[Task]:
        """The next questions that can begin.

        Those that are for the chosen model wait while that is to be changed.

        Args:
            most: At most so many of them; None: all.
            models: Only those that name one of these; None: all.
            is_late: Whether somebody who asked then had better wait for others who ask; scripts go by their order.
            priority: Only those of this one; None: all.
        """
        taken = [one for one in self._tasks if self._can_begin(one) and (models is None or one.model in models)]
        if priority is not None:
            taken = [one for one in taken if one.in_flight.question.priority == priority]
        taken = sorted(taken, key=_order(is_late))[:most]
        ids = set(map(id, taken))
        self._tasks = [task for task in self._tasks if id(task) not in ids]
        self.num_moves += len(taken)
        return taken

    def _can_begin(self, task: Task) -> bool:
        return self.change is None or task.model not in ("", str(self.change.path or ""))

    def take_change(self) -> UseModel | None:
        """The change that waits; its turn has come."""
        change, self.change = self.change, None
        return change

    def take_rest(self) -> RestModel | None:
        """The model that was to rest; none where anything waits, which comes instead."""
        rest, self._rest = self._rest, None
        return None if len(self) else rest

    def take_cancelled(self) -> list[Task]:
        """The questions that nobody wants an answer to any more."""
        cancelled: list[Task] = []
        wanted: list[Task] = []
        for task in self._tasks:
            # Looked at once: it may rise at any time.
            (cancelled if task.in_flight.cancelled.is_set() else wanted).append(task)
        self._tasks = wanted
        self.num_moves += len(cancelled)
        return cancelled


def _order(is_late: IsLate) -> Callable[[Task], tuple[int, bool]]:
    return lambda task: (
        _urgency(task),
        task.in_flight.question.priority == "interactive" and is_late(_asked_at(task)),
    )


def _asked(tasks: Sequence[Task]) -> Asked:
    return Asked(tasks[0].in_flight.question.priority, tuple(map(_asked_at, tasks)))


def _asked_at(task: Task) -> float:
    return task.in_flight.timeline.marks["asked"]


def _urgency(task: Task) -> int:
    return _URGENCY.index(task.in_flight.question.priority)
