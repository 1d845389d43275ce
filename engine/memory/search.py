"""The search: every frame with every filling of main memory, the most hopeful first, until none can beat the best.

The space is small and does not depend on how much memory there is: a larger budget only adds placements to choose
from, so it never predicts a slower answer. Two choices are not searched but made: a device takes as many layers as
fit, and memory pins as many as fit, since both are never slower with more. What no choice needs is handed out
afterwards (leftover.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from engine.memory.cost_model import Course, Disk, Homes
from engine.memory.demand import Backlog, Demand
from engine.memory.frames import frames
from engine.memory.measured import Corrections, table_key
from engine.memory.placement import Prediction
from engine.memory.profile import MAPPED_SHARE, Profile
from engine.memory.room import Room
from engine.memory.spread import Spread
from engine.memory.terms import EMPTY, Filling, Frame, Terms

# A stage is a quarter of a layer: where reading and computing take as long, more of them even out what is uneven.
RING_SLOTS = (1, 2, 3, 4, 8)
# Of the index, and of a whole context's KV, what may lie in memory.
INDEX_SHARES = (1.0, 0.5, 0.25, 0.0)
TREE_SHARES = (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Found:
    """The best placement; `fits` says whether eq 2 and eq 3 hold. `evaluated` counts what was predicted for it.

    `answers_at_once` of those that are wanted are written in a step; `serves_all`: it is all of them.
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
    """The placement with the least expected latency; where nothing fits, the one that asks for least."""
    corrections = profile.corrections(table_key(terms.shape))
    prospects = [
        _Prospect(terms, room, profile, backlog, frame, corrections)
        for frame in frames(terms, room, profile, backlog, has_device=has_device)
    ]
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
    """What asks for the least memory, left to the page cache; `fits` where all the rest has room at least."""
    shortage = min(one.shortage for one in prospects)
    choices = [one for one in prospects if one.shortage == shortage]
    best = min(choices, key=lambda one: one.key(one.latency(one.smallest), one.smallest))
    return replace(best.found(best.smallest, evaluated + len(choices)), fits=not shortage)


@dataclass(frozen=True, slots=True)
class _Level:
    """What memory holds besides weights, and the seconds of a search and of restoring what is kept with that."""

    empty: Filling
    retrieval_s: float
    restoring_s: float


class _Prospect:
    """A frame, and what it could come to."""

    def __init__(
        self, terms: Terms, room: Room, profile: Profile, backlog: Backlog, frame: Frame, corrections: Corrections
    ) -> None:
        self.frame, self.evaluated, self._corrections = frame, 0, corrections
        self._terms, self._demand, self._profile, self._backlog = terms, terms.demand, profile, backlog
        # Bytes of memory for weights, resident partitions and kept KV.
        self.left = room.ram_bytes - terms.framed_ram_bytes(frame)
        self._layers = terms.ram_layer_bytes(frame)
        self._whole = self._layers + terms.edge_bytes(frame, is_streaming=False)
        self._edges = terms.edge_bytes(frame, is_streaming=True)
        self._homes = terms.homes(frame, EMPTY)
        self._course = self._course_of(self._homes)
        # Where weights are not repacked, as those that the system reads are not.
        self._slower: Course | None = None
        self._rate = profile.stream_bytes_per_s
        self._at_best = profile.retrieval_seconds(0, backlog.num_answers)

    # --- the least it could take ---

    def hope(self) -> float:
        """A latency that no filling beats: as if all but weights took no room, and nothing had to be searched for."""
        return self._hope(self.left - self.smallest.index_bytes, self._at_best, 0.0)

    def _hope(self, room_bytes: int, retrieval_s: float, restoring: float) -> float:
        """The same with so much room for weights: as if a ring took no room of its own."""
        self.evaluated += 1
        if self._whole <= room_bytes:
            return self._course.latency(Disk(restoring=restoring), retrieval_s)
        mapped = Disk(mapped=self._mapped_seconds(room_bytes), restoring=restoring)
        hope = self._partial.latency(mapped, retrieval_s)
        if not self._demand.is_streamable:
            return hope
        streamed = max(1, self._edges + self._layers - room_bytes) / self._rate
        course = self._course if self._can_pack else self._partial
        return min(hope, course.latency(Disk(streamed, max(RING_SLOTS), 0.0, restoring), retrieval_s))

    # --- fillings ---

    def best_filling(self, to_beat: _Key | None) -> tuple[_Key, Filling] | None:
        """The best way to fill memory beside the frame, if it comes before `to_beat`."""
        best: tuple[_Key, Filling] | None = None
        for hope, _, level, left in sorted(self._levels()):
            if to_beat is not None and hope > to_beat[0]:
                break
            for filling in self._weights(level.empty, left):
                latency = self._latency(filling, level)
                # Most are not even near: what decides between equals is asked of few.
                if to_beat is None or latency <= to_beat[0]:
                    key = self.key(latency, filling)
                    if to_beat is None or key < to_beat:
                        to_beat, best = key, (key, filling)
        return best

    def _levels(self) -> Iterator[tuple[float, int, _Level, int]]:
        """What memory holds besides weights, with a latency that no weights beside it beat, and the room they have."""
        number = 0
        for index_bytes, loads in self._index_levels():
            for tree_bytes in self._tree_levels():
                level, number = self._level(Filling(index_bytes, loads, tree_bytes)), number + 1
                left = self.left - index_bytes - tree_bytes
                if left >= 0:
                    yield self._hope(left, level.retrieval_s, level.restoring_s), number, level, left

    def _weights(self, empty: Filling, left: int) -> Iterator[Filling]:
        if self._whole <= left:
            yield empty
            return
        if self._demand.is_streamable:
            yield from self._rings(empty, left)
        index = empty.index_bytes, empty.loads, empty.tree_bytes
        yield Filling(*index, is_mapped=True, mapped_room_bytes=left)

    def _rings(self, empty: Filling, left: int) -> Iterator[Filling]:
        spread, room_bytes = self._spread, left - self._edges
        for slots in RING_SLOTS:
            count = spread.fewest_streamed(room_bytes, slots)
            if count is not None:
                part = spread.stages_beside(count, room_bytes, slots)
                yield Filling(empty.index_bytes, empty.loads, empty.tree_bytes, count, slots, part)

    def _index_levels(self) -> tuple[tuple[int, float], ...]:
        """Bytes of resident partitions, and how many a sweep must read. Room for one is needed in any case."""
        demand = self._demand
        if demand.mode == "on_disk" or not demand.num_partitions:
            return ((0, 0.0),)
        most = demand.index_bytes if demand.wishes.index_bytes is None else demand.wishes.index_bytes
        least = min(demand.partition_bytes, demand.index_bytes)
        levels = {max(least, min(most, int(demand.index_bytes * share))) for share in INDEX_SHARES}
        return tuple((level, loads_of(demand, level)) for level in sorted(levels, reverse=True))

    def _tree_levels(self) -> tuple[int, ...]:
        """What of a context's KV stays in memory; nothing is kept room for that is never asked for again."""
        if not self._backlog.cached_share:
            return (0,)
        whole = self._terms.worthwhile_tree_bytes(self.frame.kv_type)
        return tuple(dict.fromkeys(int(whole * share) for share in TREE_SHARES))

    @property
    def smallest(self) -> Filling:
        """As little as can be, of which the system keeps in memory what it can."""
        index_bytes, loads = self._index_levels()[-1]
        return Filling(index_bytes, loads, 0, is_mapped=True, mapped_room_bytes=max(0, self.left - index_bytes))

    @property
    def shortage(self) -> int:
        """Bytes that even the smallest filling is too large by."""
        return max(0, self._index_levels()[-1][0] - self.left)

    # --- what they take ---

    def latency(self, filling: Filling) -> float:
        return self._latency(filling, self._level(filling))

    def _latency(self, filling: Filling, level: _Level) -> float:
        self.evaluated += 1
        return self._course_with(filling).latency(self._disk(filling, level.restoring_s), level.retrieval_s)

    def found(self, filling: Filling, evaluated: int) -> Found:
        level = self._level(filling)
        prediction = self._course_with(filling).prediction(self._disk(filling, level.restoring_s), level.retrieval_s)
        course = self._course
        serves_all = course.at_once == course.wanted
        return Found(self.frame, filling, prediction, course.at_once, serves_all, evaluated=evaluated)

    def key(self, latency: float, filling: Filling) -> _Key:
        """The order of placements; of those as fast: nothing lost, more at once, nothing moved, more kept."""
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

    def _level(self, filling: Filling) -> _Level:
        """What is the same for all weights beside what else is in memory."""
        terms, backlog = self._terms, self._backlog
        restored_bytes = terms.restored_bytes(self.frame.kv_type, filling.tree_bytes, backlog.cached_tokens)
        retrieval_s = self._profile.retrieval_seconds(filling.loads, backlog.num_answers)
        return _Level(filling, retrieval_s, restored_bytes / self._rate)

    @cached_property
    def _spread(self) -> Spread:
        return self._terms.spread(self.frame)

    @cached_property
    def _can_pack(self) -> bool:
        return self._terms.can_pack(self.frame)

    def _disk(self, filling: Filling, restoring: float) -> Disk:
        streaming = 0.0
        if filling.is_mapped:
            return Disk(mapped=self._mapped_seconds(filling.mapped_room_bytes), restoring=restoring)
        if filling.num_streamed:
            streaming = self._spread.bytes_streamed(filling.num_streamed, filling.part_stages) / self._rate
        return Disk(streaming, filling.ring_slots, 0.0, restoring)

    def _mapped_seconds(self, room_bytes: int) -> float:
        return self._terms.mapped_bytes(self.frame, room_bytes) / (self._rate * MAPPED_SHARE)

    def _course_with(self, filling: Filling) -> Course:
        return self._course if self._terms.is_repacked(self.frame, filling) else self._partial

    @property
    def _partial(self) -> Course:
        if self._slower is None:
            self._slower = self._course_of(replace(self._homes, is_repacked=False))
        return self._slower

    def _course_of(self, homes: Homes) -> Course:
        frame = self.frame
        return Course.of(homes, self._profile, self._backlog, frame.num_slots, frame.n_ubatch, self._corrections)


def loads_of(demand: Demand, index_bytes: int) -> float:
    """How many partitions a sweep must read from the disk where so many bytes of them stay in memory."""
    if demand.mode == "on_disk":
        return 0.0
    missing = 1.0 - min(1.0, index_bytes / max(1, demand.index_bytes))
    return demand.num_partitions * missing
