"""What the generation thread is told by others: questions and changes in their turn, the rest between two steps."""

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

    `is_chosen`: somebody has just asked for it, so it is tried even when the engine ended over it before.
    """

    path: Path | None
    n_gpu_layers: int | None = None
    is_urgent: bool = True
    is_chosen: bool = True


@dataclass(frozen=True, slots=True)
class RestModel:
    """Free this model until a question needs it. Passed over where somebody does by then, or has chosen another."""

    path: Path


@dataclass(frozen=True, slots=True)
class Expected:
    """A question whose search goes on for so many seconds, with the passages that it has found so far."""

    in_flight: QuestionInFlight
    passages: tuple[Passage, ...]
    left_seconds: float


class ForgetRemoved:
    """Documents may have left the library: nothing of them is kept any longer."""


class ApplySettings:
    """What is kept has new bounds."""


@dataclass(frozen=True, slots=True)
class ApplyPlacement:
    """The loaded model is to live as this says; `path` is the model it was planned for, None: whichever is loaded."""

    placement: Placement
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class KeepInCells:
    """Whether what was read may lie in cells that no answer needs."""

    may_lie: bool


@dataclass(frozen=True, slots=True)
class SetAsideOnDisk:
    """Whether answers that wait for cells keep what they had computed on the disk; else in memory."""

    is_on_disk: bool


@dataclass(frozen=True, slots=True, eq=False)
class Rehearse:
    """Passes are to be timed, if nobody asks anything: `reply` is what came of it, None where nothing could be.

    Of a point, or of steps beside something else that is not over before `until` is set, with `num_threads`.
    """

    kind: Kind
    size: int
    reply: Future[Rehearsed | None]
    until: threading.Event | None = None
    num_threads: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LoadNow:
    """The chosen model is to be loaded, if it is not; `reply` is whether there is one, or why it cannot be."""

    reply: Future[bool]


@dataclass(frozen=True, slots=True, eq=False)
class LetGo:
    """This model is to be freed, unless somebody waits for what it writes; `reply` is whether it is."""

    path: Path
    reply: Future[bool]


# Somebody waits for what comes of these.
Awaited = Rehearse | LoadNow | LetGo


def decline(command: Awaited) -> None:
    """Tells whoever waits for it that it will not be done."""
    if isinstance(command, Rehearse):
        if command.reply.set_running_or_notify_cancel():
            command.reply.set_result(None)
    elif command.reply.set_running_or_notify_cancel():
        command.reply.set_result(False)


class LookAtDevices:
    """What is free on a device may have changed: other programs take of it and give back."""


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
