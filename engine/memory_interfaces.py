"""The interfaces of the loop over memory: what it sees, and which actions it can request of the rest of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.config import Settings
from engine.handing_over import Here, Movers
from engine.memory.demand import Backlog, Demand
from engine.memory.gangs import QueueSharing
from engine.memory.hardware import Hardware
from engine.memory.ladder import Rung
from engine.memory.placement import Placement


@dataclass(frozen=True, slots=True)
class Use:
    """The bytes in use now of what can be bounded: only those can be given back."""

    tree_bytes: int = 0
    index_bytes: int = 0
    kept_cells_bytes: int = 0
    set_aside_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InForce:
    """The present state: what is wanted of memory, and where everything is.

    `demand` has all that competes with the model, and no layers if none is loaded. `given_up` is what had to be given
    up to load it: a new object for each load or move, the same object as long as nothing was added. `path` is that of
    the loaded model: what is planned from this is for no other.
    """

    demand: Demand
    here: Here
    given_up: tuple[Rung, ...] = ()
    path: Path | None = None

    @property
    def is_loaded(self) -> bool:
        return bool(self.demand.shape.layer_bytes)


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What the loop looks at; each can be called from any thread and never blocks."""

    hardware: Callable[[], Hardware]
    settings: Callable[[], Settings]
    backlog: Callable[[], Backlog]
    in_force: Callable[[], InForce]
    use: Callable[[], Use]


class MemoryActions(Movers, Protocol):
    """Carries out what is decided; each call returns soon, however long the work takes."""

    def share_steps(self, sharing: QueueSharing | None) -> None:
        """Sets how many of scripts' questions run at once; None: as many as have cells."""

    def rest_model(self) -> None:
        """Frees the model, which is not in use; the next question loads it again."""

    def keep_in_cells(self, may_lie: bool) -> None:
        """Sets whether kept KV may stay in cells that no answer needs."""

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        """Sets whether answers that wait for cells are kept on the disk instead of in memory."""


# Returns what scripts' questions gain by sharing steps, with a model placed so; None: as many run as have cells.
SharingOf = Callable[[Placement, Backlog, Demand], QueueSharing | None]
Plan = Callable[[Hardware, Backlog, Demand], Placement]


class ShouldChange(Protocol):
    """Whether to leave a placement for a better one (memory/hysteresis.py)."""

    def __call__(self, current: Placement, wanted: Placement, now: float, *, must: bool = False) -> bool: ...
