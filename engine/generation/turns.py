"""The queue of the generation thread: questions, and a change of the model that comes before them.

A change of the model applies to every question that names no model and has no visible text yet, even if it was asked
before: the worker takes those back from the loop, and the new model answers them, the most urgent first. So a change
waits only for answers that are partly visible, however many questions a script has asked; and questions that name a
model do not wait for a change. Of several changes only the newest is carried out. An unused model is freed only while
nothing waits: a choice always has priority.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from engine.core import Priority
from engine.generation.commands import InTurn, RestModel, Task, UseModel
from engine.generation.scheduler import RANKS
from engine.generation.time_slices import GROUP_SIZE

# Whether the answer to a question of that time can no longer begin in time (time_slices.py).
IsLate = Callable[[float], bool]


def nobody_is_late(asked_at: float) -> bool:
    """Treats no question as late, so that all are served in order."""
    return False


@dataclass(frozen=True, slots=True)
class Asked:
    """A model's questions that have not begun: the highest priority, and when the next of these were asked.

    There are at most as many as begin in one turn, in that order.
    """

    priority: Priority
    moments: tuple[float, ...]


class Turns:
    """What waits, used on the generation thread. `change` is a waiting change; `is_ending` once the thread is to end.

    `num_moves` counts how often a question arrived or left.
    """

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self.num_moves = 0
        self.change: UseModel | None = None
        self._rest: RestModel | None = None
        self.is_ending = False

    def __len__(self) -> int:
        """Returns how many items wait."""
        return len(self._tasks) + (self.change is not None) + self.is_ending

    def __iter__(self) -> Iterator[Task]:
        """Returns the questions, in the order in which they will begin."""
        return iter(self._tasks)

    def add(self, item: InTurn) -> None:
        """Adds an item after all others of the same urgency."""
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
        """Puts tasks back before all others of the same urgency, in this order: they could not use their turn."""
        if returned := list(tasks):
            self._tasks = sorted([*returned, *self._tasks], key=_urgency)
            self.num_moves += len(returned)

    def by_model(self, is_late: IsLate = nobody_is_late) -> dict[str, Asked]:
        """Returns the questions that can begin, by the model they name ("" the chosen one); `is_late` as in `take`."""
        found: dict[str, list[Task]] = {}
        for task in self._tasks:
            if self._can_begin(task):
                known = found.setdefault(task.model, [])
                # The first is the most urgent; less urgent ones follow later, whether they are late or not.
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
        """Takes the next questions that can begin.

        Questions for the chosen model wait while it is to be changed.

        Args:
            most: The largest number of them; None for all.
            models: Only those that name one of these; None for all.
            is_late: Whether a question of that time should wait for others; scripts' questions keep their order.
            priority: Only those of this priority; None for all.
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
        """Takes the waiting change, whose turn it is."""
        change, self.change = self.change, None
        return change

    def take_rest(self) -> RestModel | None:
        """Takes the model that is to be freed while unused; returns None if anything waits, which has priority."""
        rest, self._rest = self._rest, None
        return None if len(self) else rest

    def take_cancelled(self) -> list[Task]:
        """Takes the questions that were cancelled."""
        cancelled: list[Task] = []
        wanted: list[Task] = []
        for task in self._tasks:
            # The flag is read only once, because it may be set at any time.
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
    return RANKS[task.in_flight.question.priority]
