"""The ring: which stage lies where, and what is to be read next so that it is there when its turn comes.

A pass computes the stages in order, again and again, so every moment of all passes has a number: its position. A stage
has its own home or shares a slot with others; what a slot holds may be replaced as soon as the position that needs it
was computed. Stages are read in the order in which they are needed, up to one pass ahead of the cursor. A stage that
was just given a home is read into it when its turn comes, and stays: changing homes costs no reading.

Nothing here knows threads or memory: the caller holds a lock.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

_NEVER = -1
# Stages that are larger than planned by up to this share count as planned.
SAME_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stage that is read at once: its number among the stage's pieces, and the place it goes to."""

    stage: int
    index: int
    place: Hashable


@dataclass(slots=True)
class _Slot:
    """A place in memory that holds one stage at a time."""

    stage: int | None = None
    num_taken: int = 0
    num_reading: int = 0
    num_missing: int = 0
    needed_at: int = _NEVER

    def hold(self, stage: int, num_chunks: int) -> None:
        self.stage, self.num_taken, self.num_missing = stage, 0, num_chunks

    def drop(self) -> None:
        self.stage, self.needed_at = None, _NEVER


class Ring:
    """See the module."""

    def __init__(self, num_chunks: Sequence[int]) -> None:
        """Starts with nothing anywhere; `num_chunks` are the pieces of each stage, 0 where none has to be read."""
        self._num_chunks = num_chunks
        self._places: dict[int, Hashable] = {}
        self._slots: dict[Hashable, _Slot] = {}
        self._computed = self._next = 0
        self.num_reading = 0

    @property
    def num_stages(self) -> int:
        return len(self._num_chunks)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is being read."""
        return self.num_reading == 0

    def arrange(self, places: Mapping[int, Hashable]) -> None:
        """Sets where each stage is to lie from now on; what lies there already stays. Nothing may be being read."""
        self._places = dict(places)
        self._slots = {place: self._slots.get(place, _Slot()) for place in set(places.values())}
        self.rewind()

    def is_there(self, stage: int) -> bool:
        """Whether a stage can be computed."""
        slot = self._slot_of(stage)
        return slot is None or (slot.stage == stage and slot.num_missing == 0)

    def take(self) -> Chunk | None:
        """What to read now; None while every place is still needed, or all is there."""
        self._next = max(self._next, self._computed)
        while self._next < self._computed + self.num_stages:
            stage = self._next % self.num_stages
            slot = self._slot_of(stage)
            if slot is not None:
                if slot.stage != stage and not self._make_room(slot, stage):
                    return None
                slot.needed_at = self._next
                if slot.num_taken < self._num_chunks[stage]:
                    return self._take_from(slot, stage)
            self._next += 1
        return None

    def put(self, chunk: Chunk) -> bool:
        """Notes that a piece was read. Returns whether its whole stage is there now."""
        slot = self._end_read(chunk)
        if slot.stage != chunk.stage:
            return False
        slot.num_missing -= 1
        return slot.num_missing == 0

    def lose(self, chunk: Chunk) -> None:
        """Notes that a piece could not be read: nothing lies in its place."""
        self._end_read(chunk).drop()

    def lose_all(self, places: Collection[Hashable]) -> None:
        """Empties these places. Nothing may be being read."""
        for place in set(places) & set(self._slots):
            self._slots[place].drop()

    def advance(self, stage: int) -> None:
        """Notes that all stages up to `stage` of this pass were computed."""
        self._computed = self._start + stage + 1

    def end_pass(self) -> None:
        """The rest of this pass needs nothing that is read."""
        self._computed = self._start + self.num_stages

    def rewind(self) -> None:
        """Begins a new pass, wherever the last one was: nothing is needed until then."""
        self._computed = -(-self._computed // self.num_stages) * self.num_stages
        self._next = self._computed
        for slot in self._slots.values():
            slot.needed_at = _NEVER

    @property
    def _start(self) -> int:
        return self._computed // self.num_stages * self.num_stages

    def _slot_of(self, stage: int) -> _Slot | None:
        place = self._places.get(stage)
        return None if place is None or not self._num_chunks[stage] else self._slots[place]

    def _make_room(self, slot: _Slot, stage: int) -> bool:
        """Frees a slot for another stage; False while what it holds is needed, or it is being written to."""
        if slot.num_reading or slot.needed_at >= self._computed:
            return False
        slot.hold(stage, self._num_chunks[stage])
        return True

    def _take_from(self, slot: _Slot, stage: int) -> Chunk:
        chunk = Chunk(stage, slot.num_taken, self._places[stage])
        slot.num_taken += 1
        slot.num_reading += 1
        self.num_reading += 1
        return chunk

    def _end_read(self, chunk: Chunk) -> _Slot:
        slot = self._slots[chunk.place]
        slot.num_reading -= 1
        self.num_reading -= 1
        return slot


def share_out(stages: Sequence[int], num_slots: int) -> dict[int, int]:
    """The slot of each streamed stage, so that two that share one are as far apart as possible, also across passes.

    Rows of nearly equal length, each from the first slot on: were every row but the last full, the last could be a
    single stage, which would have to wait for its predecessor in the pass.
    """
    if not stages:
        return {}
    num_rows = -(-len(stages) // max(1, num_slots))
    length, num_longer = divmod(len(stages), num_rows)
    slots = [slot for row in range(num_rows) for slot in range(length + (row < num_longer))]
    return dict(zip(stages, slots, strict=True))


def is_as_planned(planned_bytes: int, stage_bytes: int) -> bool:
    """Whether the largest stage is as large as planned, up to a norm more or less, which is not worth another plan."""
    return planned_bytes <= 2 * stage_bytes and stage_bytes <= planned_bytes * (1 + SAME_SHARE)


def slots_in(num_slots: int, planned_bytes: int, stage_bytes: int) -> int:
    """How many slots of the largest stage's actual size take no more memory than the planned slots."""
    return max(1, num_slots * planned_bytes // stage_bytes)
