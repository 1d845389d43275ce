"""Changing to another placement in two phases: parts that shrink go first, parts that grow follow once there is room.

The generation thread and the index are the two that change. Nothing here waits: each call does what can be done now,
and the next call retries the rest; what was refused for some seconds is given up, and all parts keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from engine.core import Tier
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement

REFUSED_SECONDS = 5.0
# A requested placement of which nothing was reported: the thread ended, or was busy for very long.
UNHEARD_SECONDS = 120.0

# Bounds of kept data that differ by less count as the same: free disk space changes all the time.
SAME_SHARE = 0.05

Progress = Literal["under_way", "done", "refused"]


class Movers(Protocol):
    """Carries out a placement; each call returns soon, however long the work takes."""

    def apply(self, placement: Placement, path: Path) -> None:
        """Moves the model at `path` to this placement between two steps; refused if another model is loaded."""

    def set_index_bytes(self, num_bytes: int) -> None:
        """Sets what partitions may hold in memory from the next sweep on; the ledger shows when memory is freed."""

    def move_embedder(self, to_gpu: bool) -> None:
        """Moves the embedder to the graphics card or to memory, from the next batch on."""

    @property
    def is_embedder_moving(self) -> bool:
        """Whether the embedder is moving: it waits for a batch, and starting a card may take long."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """What is in force: the model's placement, what the index may hold, and where the embedder is.

    The placement has the embedder, of `embedder_bytes`, where it was planned; `embedder_on_gpu` says where it is.
    """

    placement: Placement
    index_bytes: int
    embedder_on_gpu: bool = False
    embedder_bytes: int = 0

    @property
    def gpu_bytes(self) -> int:
        """What was planned for the graphics card, with the embedder where it is."""
        return self.placement.gpu_bytes + self._strayed_bytes

    @property
    def ram_bytes(self) -> int:
        """What was planned for memory, with the index and the embedder as they are."""
        return self.placement.ram_bytes - self.placement.index_bytes + self.index_bytes - self._strayed_bytes

    @property
    def _strayed_bytes(self) -> int:
        """The bytes of an embedder that is on the card but was not planned there; negative in the opposite case."""
        return (self.embedder_on_gpu - self.placement.embedder_on_gpu) * self.embedder_bytes


@dataclass(frozen=True, slots=True)
class HandOver:
    """A change to a placement in progress; `since` is when a part of it was last requested or completed.

    `path` is the model it was planned for. `is_asked`: the generation thread knows of it, and will report the result;
    `has_come`: the model is placed so. `is_moving`: the embedder has been asked to move, and was still moving at
    `moving_at`.
    """

    wanted: Placement
    since: float
    path: Path | None = None
    is_asked: bool = False
    has_come: bool = False
    is_moving: bool = False
    moving_at: float = 0.0


def is_there(here: Here, wanted: Placement) -> bool:
    """Returns whether all that can be moved is where it is wanted."""
    is_beside = here.index_bytes == wanted.index_bytes and here.embedder_on_gpu == wanted.embedder_on_gpu
    return is_beside and is_same_model(here.placement, wanted)


def is_free(here: Here, wanted: Placement) -> bool:
    """Returns whether nothing but bounds of kept data differs, for which no answer pauses."""
    kept = replace(here.placement, kv_ram_bytes=wanted.kv_ram_bytes, kv_disk_bytes=wanted.kv_disk_bytes)
    return is_same_model(kept, wanted)


def is_same_model(placement: Placement, wanted: Placement) -> bool:
    """Returns whether the generation thread has nothing to do that is worth it."""
    bounds = (
        (placement.kv_ram_bytes, wanted.kv_ram_bytes),
        (placement.kv_disk_bytes, wanted.kv_disk_bytes),
    )
    return _moved(placement) == _moved(wanted) and all(_is_near(*pair) for pair in bounds)


def step(
    over: HandOver, here: Here, movers: Movers, ledger: Ledger, room: Callable[[Tier], int], now: float
) -> tuple[HandOver, Progress]:
    """Does what can be done of a change now.

    Args:
        over: The change in progress.
        here: What is in force.
        movers: Carry it out.
        ledger: Reserves room.
        room: What may be held of a tier, in bytes.
        now: Seconds of any clock.
    """
    index_bytes = min(here.index_bytes, over.wanted.index_bytes)
    if index_bytes < here.index_bytes:
        movers.set_index_bytes(index_bytes)
    if here.embedder_on_gpu and not over.wanted.embedder_on_gpu:
        return _embedder(over, movers, now)
    if not is_same_model(here.placement, over.wanted):
        return _model(over, here, movers, ledger, room, now)
    if over.is_asked and not over.has_come:
        # However long the model took, waiting for what follows begins now.
        over = replace(over, has_come=True, since=now)
    if over.wanted.embedder_on_gpu and not here.embedder_on_gpu:
        has_room = over.is_moving or _has_room({"gpu": here.embedder_bytes}, ledger, room)
        return _embedder(over, movers, now) if has_room else (over, _patience(over, now))
    growth = over.wanted.index_bytes - index_bytes
    if growth and not _has_room({"ram": growth}, ledger, room):
        return over, _patience(over, now)
    if growth:
        movers.set_index_bytes(over.wanted.index_bytes)
    return over, "done"


def _model(
    over: HandOver, here: Here, movers: Movers, ledger: Ledger, room: Callable[[Tier], int], now: float
) -> tuple[HandOver, Progress]:
    if over.is_asked:
        return over, "refused" if now - over.since >= UNHEARD_SECONDS else "under_way"
    growth: dict[Tier, int] = {
        tier: _of_model(over.wanted, tier, here.embedder_bytes) - _of_model(here.placement, tier, here.embedder_bytes)
        for tier in ("gpu", "ram")
    }
    if not _has_room(growth, ledger, room):
        return over, _patience(over, now)
    # Without a model, no placement has any part of one, so nothing differs.
    assert over.path is not None
    movers.apply(over.wanted, over.path)
    return replace(over, is_asked=True, since=now), "under_way"


def _embedder(over: HandOver, movers: Movers, now: float) -> tuple[HandOver, Progress]:
    if not over.is_moving:
        movers.move_embedder(to_gpu=over.wanted.embedder_on_gpu)
        return replace(over, is_moving=True, since=now, moving_at=now), "under_way"
    if movers.is_embedder_moving:
        over = replace(over, moving_at=now)
        return over, "refused" if now - over.since >= UNHEARD_SECONDS else "under_way"
    # It has not moved; but what is in force may have been read just before it did.
    return over, "refused" if now - over.moving_at >= REFUSED_SECONDS else "under_way"


def _has_room(growth: Mapping[Tier, int], ledger: Ledger, room: Callable[[Tier], int]) -> bool:
    """Returns whether there is room for all of it. Nothing stays reserved: each part enters what it takes."""
    wanted = {tier: num_bytes for tier, num_bytes in growth.items() if num_bytes > 0}
    promises = [ledger.reserve(tier, num_bytes, room(tier)) for tier, num_bytes in wanted.items()]
    for promise in promises:
        if promise is not None:
            promise.release()
    return None not in promises


def _patience(over: HandOver, now: float) -> Progress:
    return "refused" if now - over.since >= REFUSED_SECONDS else "under_way"


def _of_model(placement: Placement, tier: Literal["gpu", "ram"], embedder_bytes: int) -> int:
    """Returns the part of a tier that the generation thread changes: without the index and the embedder."""
    has_embedder = placement.embedder_on_gpu == (tier == "gpu")
    planned = placement.gpu_bytes if tier == "gpu" else placement.ram_bytes - placement.index_bytes
    return planned - has_embedder * embedder_bytes


def _moved(placement: Placement) -> tuple[object, ...]:
    """Returns what the generation thread carries out of a placement, apart from bounds of kept data."""
    return (
        placement.n_gpu_layers,
        placement.streamed_layers,
        placement.pinned_part,
        placement.ring_slots,
        placement.is_repacked,
        placement.copies_streamed,
        placement.kv_on_gpu,
        placement.kv_type,
        placement.num_slots,
        placement.num_cells,
        placement.context_tokens,
        placement.n_ubatch,
        # Nothing moves for these, but users are told something else.
        placement.num_concessions,
        bool(placement.offer),
    )


def _is_near(one: int, other: int) -> bool:
    return abs(one - other) <= SAME_SHARE * max(one, other)
