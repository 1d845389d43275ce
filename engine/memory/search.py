"""The search: every frame with every filling of main memory, the most promising first, until none can beat the best.

The space is small and does not depend on how much memory there is: a larger budget only adds placements to choose
from, so it never predicts a slower answer. Two choices are computed instead of searched: a device takes as many layers
as fit, and memory pins as many as fit, since both are never slower with more. What no choice needs is distributed
afterwards (leftover.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple, TypeAlias

from engine.core import KVType
from engine.memory.cost_model import Course, Courses, Disk, Homes
from engine.memory.demand import Backlog, Demand
from engine.memory.frames import frames
from engine.memory.measured import table_key
from engine.memory.placement import Prediction
from engine.memory.profile import MAPPED_SHARE, Profile
from engine.memory.room import Room
from engine.memory.spread import Spread
from engine.memory.terms import EMPTY, Filling, Frame, Terms

# A stage is a quarter of a layer: where reading and computing take equally long, more slots even out variation.
RING_SLOTS = (1, 2, 3, 4, 8)
# The shares of the index, and of a whole context's KV, that may lie in memory.
INDEX_SHARES = (1.0, 0.5, 0.25, 0.0)
TREE_SHARES = (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Found:
    """The best placement; `fits` says whether eq 2 and eq 3 hold. `evaluated` counts the predictions made to find it.

    `answers_at_once` of the wanted answers are written in a step; `serves_all`: these are all of them.
    """

    frame: Frame
    filling: Filling
    prediction: Prediction
    answers_at_once: int = 1
    serves_all: bool = True
    fits: bool = True
    evaluated: int = 0


_Key: TypeAlias = tuple[float, ...]


def search(terms: Terms, room: Room, profile: Profile, backlog: Backlog, *, has_device: bool) -> Found:
    """Finds the placement with the least expected latency; if none fits, the one that needs the least memory."""
    task = _Task(terms, room, profile, backlog)
    prospects = [_Prospect(task, frame) for frame in frames(terms, room, profile, backlog, has_device=has_device)]
    hopes = sorted((one.hope(), number) for number, one in enumerate(prospects) if one.left >= 0)
    best: tuple[_Key, _Prospect, Filling] | None = None
    for hope, number in hopes:
        if best is not None and hope > best[0][0]:
            break
        found = prospects[number].best_filling(best[0] if best is not None else None)
        if found is not None:
            best = (found[0], prospects[number], found[1])
    evaluated = sum(one.evaluated for one in prospects)
    if best is None:
        return _least(prospects, evaluated)
    return best[1].found(best[2], evaluated)


def _least(prospects: list[_Prospect], evaluated: int) -> Found:
    """Returns the placement with the least memory and mapped weights; it `fits` if at least all else has room."""
    shortage = min(one.shortage for one in prospects)
    choices = [one for one in prospects if one.shortage == shortage]
    best = min(choices, key=lambda one: one.key(one.latency(one.smallest), one.smallest))
    return replace(best.found(best.smallest, evaluated + len(choices)), fits=not shortage)


@dataclass(frozen=True, slots=True)
class _Level:
    """What memory holds besides weights, its bytes, and the seconds of a search and of restoring kept KV."""

    empty: Filling
    num_bytes: int
    retrieval_s: float
    restoring_s: float


class _Task:
    """Values that are the same for all frames."""

    def __init__(self, terms: Terms, room: Room, profile: Profile, backlog: Backlog) -> None:
        self.terms, self.room, self.profile, self.backlog = terms, room, profile, backlog
        self.demand, self.rate = terms.demand, profile.stream_bytes_per_s
        self.courses = Courses(profile, backlog, profile.corrections(table_key(terms.shape)))
        # A search that reads no partition.
        self.retrieval_at_best_s = profile.retrieval_seconds(0, backlog.num_answers)
        self._levels: dict[KVType, tuple[_Level, ...]] = {}

    def levels(self, kv_type: KVType) -> tuple[_Level, ...]:
        """Returns the levels, the fullest first; the last one has as little as possible."""
        if kv_type not in self._levels:
            fillings = product(self._index_levels(), self._tree_levels(kv_type))
            self._levels[kv_type] = tuple(self.level(kv_type, Filling(*index, tree)) for index, tree in fillings)
        return self._levels[kv_type]

    def level(self, kv_type: KVType, filling: Filling) -> _Level:
        """Returns the values that do not depend on the weights alongside this filling."""
        restored_bytes = self.terms.restored_bytes(kv_type, filling.tree_bytes, self.backlog.cached_tokens)
        retrieval_s = self.profile.retrieval_seconds(filling.loads, self.backlog.num_answers)
        return _Level(filling, filling.index_bytes + filling.tree_bytes, retrieval_s, restored_bytes / self.rate)

    def _index_levels(self) -> tuple[tuple[int, float], ...]:
        """Returns bytes of resident partitions, and how many a search must read. Room for one is always needed."""
        demand = self.demand
        if demand.mode == "on_disk" or not demand.num_partitions:
            return ((0, 0.0),)
        most = demand.index_bytes if demand.wishes.index_bytes is None else demand.wishes.index_bytes
        least = min(demand.partition_bytes, demand.index_bytes)
        levels = {max(least, min(most, int(demand.index_bytes * share))) for share in INDEX_SHARES}
        return tuple((level, loads_of(demand, level)) for level in sorted(levels, reverse=True))

    def _tree_levels(self, kv_type: KVType) -> tuple[int, ...]:
        """Returns how much of a context's KV may stay in memory; nothing is kept that will never be asked for again."""
        if not self.backlog.cached_share:
            return (0,)
        whole = self.terms.worthwhile_tree_bytes(kv_type)
        return tuple(dict.fromkeys(int(whole * share) for share in TREE_SHARES))


class _Weights(NamedTuple):
    """One way to hold the weights at a level: all of them, most of them and a ring, or as the system keeps them.

    Its fields are those of a Filling.
    """

    num_streamed: int = 0
    ring_slots: int = 0
    part_stages: int = 0
    is_mapped: bool = False
    copies_streamed: bool = False


_WHOLE, _MAPPED = _Weights(), _Weights(is_mapped=True)
_STREAMED = replace(EMPTY, num_streamed=1)


class _Prospect:
    """A frame, and the fillings it may have."""

    def __init__(self, task: _Task, frame: Frame) -> None:
        terms = task.terms
        self.frame, self.evaluated = frame, 0
        self._task, self._terms, self._levels = task, terms, task.levels(frame.kv_type)
        # Bytes of memory for weights, resident partitions and kept KV.
        self.left = task.room.ram_bytes - terms.framed_ram_bytes(frame)
        self._layers = terms.ram_layer_bytes(frame)
        self._whole = self._layers + terms.edge_bytes(frame, is_streaming=False)
        self._edges = terms.edge_bytes(frame, is_streaming=True)
        self._homes = terms.homes(frame, EMPTY)
        self._rate = task.rate

    # --- lower bounds ---

    def hope(self) -> float:
        """Returns a latency that no filling beats: as if all but weights took no room, and searches read nothing."""
        return self._hope(self.left - self._levels[-1].empty.index_bytes, self._task.retrieval_at_best_s, 0.0)

    def _hope(self, room_bytes: int, retrieval_s: float, restoring_s: float) -> float:
        """Returns the same with `room_bytes` for weights: as if a ring took no room of its own."""
        self.evaluated += 1
        if self._whole <= room_bytes:
            return self._resident.latency(Disk(restoring=restoring_s), retrieval_s)
        if not self._task.demand.is_streamable:
            return self._mapped_latency(room_bytes, retrieval_s, restoring_s)
        streamed = max(1, min(self._layers, self._edges + self._layers - room_bytes)) / self._rate
        ring = Disk(streamed, max(RING_SLOTS), 0.0, restoring_s)
        hope = min([course.latency(ring, retrieval_s) for course, _ in self._streaming])
        # Where each pass needs all layers, the system reads all of them again, and none of that is hidden.
        reads_all = self._layers > 0 and not self._terms.shape.expert_share
        return hope if reads_all else min(hope, self._mapped_latency(room_bytes, retrieval_s, restoring_s))

    def _mapped_latency(self, room_bytes: int, retrieval_s: float, restoring_s: float) -> float:
        """Returns the latency where the system keeps as much of the weights as it can."""
        return self._partial.latency(self._mapped(room_bytes, restoring_s), retrieval_s)

    # --- fillings ---

    def best_filling(self, to_beat: _Key | None) -> tuple[_Key, Filling] | None:
        """Returns the best filling of memory with this frame, if it comes before `to_beat`."""
        best: tuple[_Key, Filling] | None = None
        for hope, number, left in sorted(self._hopes()):
            if to_beat is not None and hope > to_beat[0]:
                break
            level = self._levels[number]
            for latency, weights in ((hope, _WHOLE),) if self._whole <= left else self._partly(level, left):
                # Most are far slower: the tie-breakers are computed only for few.
                if to_beat is None or latency <= to_beat[0]:
                    filling = _filled(level.empty, weights, left)
                    key = self.key(latency, filling)
                    if to_beat is None or key < to_beat:
                        to_beat, best = key, (key, filling)
        return best

    def _hopes(self) -> Iterator[tuple[float, int, int]]:
        """Yields for each level a latency that no way to hold the weights beats, its number, and the weights' room."""
        for number, level in enumerate(self._levels):
            left = self.left - level.num_bytes
            if left >= 0:
                yield self._hope(left, level.retrieval_s, level.restoring_s), number, left

    def _partly(self, level: _Level, left: int) -> Iterator[tuple[float, _Weights]]:
        """Yields ways to hold weights that do not all fit, and the latency with each."""
        yield from self._streamed(level, left)
        yield self._mapped_latency(left, level.retrieval_s, level.restoring_s), _MAPPED

    def _streamed(self, level: _Level, left: int) -> Iterator[tuple[float, _Weights]]:
        """Yields each ring that has room, and the latency with it."""
        if self._task.demand.is_streamable:
            spread, courses, rate = self._spread, self._streaming, self._rate
            for weights in self._rings(left):
                streaming = spread.bytes_streamed(weights.num_streamed, weights.part_stages) / rate
                disk = Disk(streaming, weights.ring_slots, 0.0, level.restoring_s)
                for course, copies_streamed in courses:
                    self.evaluated += 1
                    way = weights._replace(copies_streamed=True) if copies_streamed else weights
                    yield course.latency(disk, level.retrieval_s), way

    def _rings(self, left: int) -> Iterator[_Weights]:
        spread, room_bytes = self._spread, left - self._edges
        for slots in RING_SLOTS:
            count = spread.fewest_streamed(room_bytes, slots)
            if count is not None:
                yield _Weights(count, slots, spread.stages_beside(count, room_bytes, slots))

    @property
    def smallest(self) -> Filling:
        """The smallest filling, with mapped weights of which the system keeps what it can."""
        least = self._levels[-1].empty
        return replace(least, is_mapped=True, mapped_room_bytes=max(0, self.left - least.index_bytes))

    @property
    def shortage(self) -> int:
        """By how many bytes even the smallest filling is too large."""
        return max(0, self._levels[-1].empty.index_bytes - self.left)

    # --- costs ---

    def latency(self, filling: Filling) -> float:
        level = self._task.level(self.frame.kv_type, filling)
        return self._course_with(filling).latency(self._disk(filling, level.restoring_s), level.retrieval_s)

    def found(self, filling: Filling, evaluated: int) -> Found:
        level = self._task.level(self.frame.kv_type, filling)
        prediction = self._course_with(filling).prediction(self._disk(filling, level.restoring_s), level.retrieval_s)
        course = self._course
        serves_all = course.at_once == course.wanted
        return Found(self.frame, filling, prediction, course.at_once, serves_all, evaluated=evaluated)

    def key(self, latency: float, filling: Filling) -> _Key:
        """Returns the rank; of equally fast placements: nothing lost, more at once, nothing moved, more kept."""
        frame = self.frame
        return (
            latency,
            frame.kv_type != "f16",
            -frame.num_slots,
            not frame.kv_on_gpu,
            frame.embedder_on_gpu,
            frame.n_ubatch,
            -filling.index_bytes,
            -filling.tree_bytes,
        )

    @cached_property
    def _spread(self) -> Spread:
        return self._terms.spread(self.frame)

    def _disk(self, filling: Filling, restoring_s: float) -> Disk:
        if filling.is_mapped:
            return self._mapped(filling.mapped_room_bytes, restoring_s)
        streaming = 0.0
        if filling.num_streamed:
            streaming = self._spread.bytes_streamed(filling.num_streamed, filling.part_stages) / self._rate
        return Disk(streaming, filling.ring_slots, 0.0, restoring_s)

    def _mapped(self, room_bytes: int, restoring_s: float) -> Disk:
        seconds = self._terms.mapped_bytes(self.frame, room_bytes) / (self._rate * MAPPED_SHARE)
        return Disk(mapped=seconds, restoring=restoring_s)

    def _course_with(self, filling: Filling) -> Course:
        if filling.copies_streamed:
            return self._copying
        return self._course if self._terms.is_repacked(self.frame, filling) else self._partial

    @cached_property
    def _course(self) -> Course:
        """The course with the weights where they lie if all of them are in memory."""
        return self._course_of(self._homes)

    @cached_property
    def _resident(self) -> Course:
        """The course with all weights in memory."""
        return self._course_with(EMPTY)

    @cached_property
    def _streaming(self) -> tuple[tuple[Course, bool], ...]:
        """The courses with streamed weights: ways to compute large batches, each with whether a device computes them.

        Copying may be slower for batches that are only just large enough for it, so both ways may have to be compared.
        """
        plain = self._course_with(_STREAMED)
        if not (self._task.demand.can_copy_streamed and self._homes.device_bytes and self._layers):
            return ((plain, False),)
        copying = self._copying
        if copying.is_never_slower(plain):
            return ((copying, True),)
        return ((plain, False),) if plain.is_never_slower(copying) else ((plain, False), (copying, True))

    @cached_property
    def _copying(self) -> Course:
        """The course with some weights streamed, and copied to the device for large batches."""
        return self._course_of(self._homes._replace(is_repacked=False, copies_streamed=True))

    @cached_property
    def _partial(self) -> Course:
        """The course with weights that are not repacked, as those that the system maps are not."""
        return self._course_of(self._homes._replace(is_repacked=False))

    def _course_of(self, homes: Homes) -> Course:
        frame = self.frame
        return self._task.courses.of(homes, frame.num_slots, frame.n_ubatch, frame.num_cells)


def _filled(empty: Filling, weights: _Weights, left: int) -> Filling:
    mapped_room_bytes = left if weights.is_mapped else 0
    return Filling(empty.index_bytes, empty.loads, empty.tree_bytes, *weights, mapped_room_bytes=mapped_room_bytes)


def loads_of(demand: Demand, index_bytes: int) -> float:
    """Returns how many partitions a search must read from the disk where `index_bytes` of them stay in memory."""
    if demand.mode == "on_disk":
        return 0.0
    missing = 1.0 - min(1.0, index_bytes / max(1, demand.index_bytes))
    return demand.num_partitions * missing
