"""Commands to the generation thread: questions and changes in their turn, the rest between two steps."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from engine.core import Evidence, Passage
from engine.generation.rehearsal import Rehearsed
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain
from engine.memory.measured import Kind
from engine.memory.placement import Placement


@dataclass(frozen=True, slots=True)
class Task:
    in_flight: QuestionInFlight
    evidence: Evidence

    @property
    def model(self) -> str:
        """The model that is to answer; "" for the chosen one."""
        return self.in_flight.question.model


@dataclass(frozen=True, slots=True)
class UseModel:
    """Answer with this file from the next question on (None: with quotes); load it now, or when first needed.

    `is_chosen`: a user has just asked for it, so it is tried even when the engine died while loading it before.
    """

    path: Path | None
    n_gpu_layers: int | None = None
    is_urgent: bool = True
    is_chosen: bool = True


@dataclass(frozen=True, slots=True)
class RestModel:
    """Free this model until a question needs it. Ignored if one does by then, or another model has been chosen."""

    path: Path


@dataclass(frozen=True, slots=True)
class Expected:
    """A question whose search goes on for `left_seconds`, with the passages that it has found so far."""

    in_flight: QuestionInFlight
    passages: tuple[Passage, ...]
    left_seconds: float


class ForgetRemoved:
    """Drop all that is kept of documents that are no longer in the library."""


class ApplySettings:
    """Apply the bounds of kept KV from the settings, which have changed."""


@dataclass(frozen=True, slots=True)
class ApplyPlacement:
    """Place the loaded model like this; `path` is the model it was planned for, None: whichever is loaded."""

    placement: Placement
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class KeepInCells:
    """Set whether kept KV may stay in cells that no answer needs."""

    may_lie: bool


@dataclass(frozen=True, slots=True)
class SetAsideOnDisk:
    """Set whether the KV of answers that wait for cells is on disk; otherwise it is in memory."""

    is_on_disk: bool


@dataclass(frozen=True, slots=True, eq=False)
class Rehearse:
    """Time passes, if there is nothing to answer: `reply` is the result, None if none could be timed.

    Measures a point, or steps with `num_threads` alongside other work that goes on until `until` is set.
    """

    kind: Kind
    size: int
    reply: Future[Rehearsed | None]
    until: threading.Event | None = None
    num_threads: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LoadNow:
    """Load the chosen model, if it is not loaded; `reply` is whether there is one, or why it cannot be loaded."""

    reply: Future[bool]


@dataclass(frozen=True, slots=True, eq=False)
class LetGo:
    """Free this model, unless one of its answers is waited for; `reply` is whether it was freed."""

    path: Path
    reply: Future[bool]


# Callers wait for the replies of these.
Awaited = Rehearse | LoadNow | LetGo


def decline(command: Awaited) -> None:
    """Replies that the command will not be carried out."""
    if isinstance(command, Rehearse):
        if command.reply.set_running_or_notify_cancel():
            command.reply.set_result(None)
    elif command.reply.set_running_or_notify_cancel():
        command.reply.set_result(False)


class LookAtDevices:
    """Look at the free memory of devices again, which other programs may have changed."""


class Stop:
    """End once everything before this is done."""


InTurn = Task | UseModel | RestModel | Stop
AtOnce = (
    Expected
    | FoundAgain
    | ForgetRemoved
    | ApplySettings
    | ApplyPlacement
    | KeepInCells
    | SetAsideOnDisk
    | LookAtDevices
    | Rehearse
    | LoadNow
    | LetGo
)
