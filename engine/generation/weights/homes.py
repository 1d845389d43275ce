"""Where a model's pages really lie: our own memory, laid over the addresses at which llama.cpp looks for weights.

A stage has a home, which is private memory, or is seen through a slot that other stages share. Only what
/proc/self/maps confirms at that very moment is ever replaced.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from engine.errors import NotStreamable
from engine.generation.load_trials import note_death
from engine.generation.weights import mappings
from engine.generation.weights.arena import Arena
from engine.generation.weights.direct_reads import WeightFiles
from engine.generation.weights.extents import Layout, Pages
from engine.generation.weights.mappings import MEMORY, FileId
from engine.generation.weights.memory_map import (
    MADV_DONTNEED,
    MADV_POPULATE_READ,
    MADV_RANDOM,
    MappingLost,
    advise,
    bytes_at,
    end_process,
    map_private_over,
    map_shared_over,
)

# Pieces that a stage is read in: large enough for the disk, small enough that a pass does not wait long for the last.
CHUNK_BYTES = 2 << 20
EndProcess = Callable[[str], NoReturn]


@dataclass(frozen=True, slots=True)
class Home:
    """Memory that belongs to this stage alone."""

    stage: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A range of the arena that streamed stages share."""

    number: int


Place = Home | Slot


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file's first byte lies in memory, and what is mapped there before anything of it was moved.

    That is the file itself (`mapped`), or memory that llama.cpp has filled and the file was written from.
    """

    base: int
    mapped: FileId = MEMORY

    @property
    def mapped_base(self) -> int | None:
        """Where the first byte of what is mapped must lie; None for memory."""
        return self.base if self.mapped is not MEMORY else None


class Homes:
    """Owned by the thread that decodes; nothing is computed or read while places change.

    Places change until the model is closed. If that ends the process, it counts as if loading the model had.
    """

    def __init__(
        self,
        layout: Layout,
        files: WeightFiles,
        origins: Sequence[Origin],
        chunk_bytes: int = CHUNK_BYTES,
        end: EndProcess = end_process,
    ) -> None:
        """Makes an empty arena; nothing is moved yet.

        Args:
            layout: The pages of the model.
            files: Stages are read from here.
            origins: Where each file lies.
            chunk_bytes: Pieces that stages are read in; whole pages.
            end: Called where a mapping was lost, which the process cannot survive.
        """
        self._layout, self._files, self._origins, self._end = layout, files, origins, end
        self._chunk_bytes, self._note_death = chunk_bytes, note_death.get()
        self._arena = Arena(mmap.PAGESIZE)
        self._places: dict[int, Place] = {}
        self._slots: dict[int, int] = {}
        self._seen_from: dict[Slot, int] = {}
        self._is_settled, self.has_pinned = False, True
        self._pinned = [pages for tensor in layout.pinned.values() for pages in tensor]
        self._stages = [stage for stage, pages in enumerate(layout.stages) if pages]
        self._chunks = [tuple(chunk for pages in stage for chunk in self._cut(pages)) for stage in layout.stages]
        self._slot_bytes = max((layout.stage_bytes(stage) for stage in self._stages), default=0)

    @property
    def num_chunks(self) -> list[int]:
        """Pieces of each stage; 0 where its layer lies on a device, or it lies wholly in edges."""
        return [len(chunks) for chunks in self._chunks]

    @property
    def fixed_bytes(self) -> int:
        """Memory outside of layers: edges, and the tensors that each pass reads, unless they were dropped."""
        return self.edge_bytes + (self.pinned_bytes if self.has_pinned else 0)

    @property
    def edge_bytes(self) -> int:
        """Memory of pages that lie across two tensors: it stays as long as the model does."""
        return sum(pages.num_bytes for pages in self._layout.edges)

    @property
    def held_bytes(self) -> int:
        """Our own memory now: slots as far as they were filled, homes as if they were full."""
        at_home = [stage for stage, place in self._places.items() if isinstance(place, Home)]
        homes = sum(self._layout.stage_bytes(stage) for stage in at_home)
        return self._arena.held_bytes + homes + (self.fixed_bytes if self._is_settled else 0)

    def slot_bytes(self, places: Mapping[int, Place]) -> dict[int, int]:
        """What each slot comes to hold: as much as the largest of its stages."""
        held: dict[int, int] = {}
        for stage, place in places.items():
            if isinstance(place, Slot):
                held[place.number] = max(held.get(place.number, 0), self._layout.stage_bytes(stage))
        return held

    def settle(self) -> None:
        """Copies edges and the tensors of no layer into memory, and tells the system how the rest will be used.

        Raises:
            NotStreamable: Something else lies where the files should.
            OSError: They could not be read.
        """
        edges, pinned = self._layout.edges, self._pinned
        stages = [pages for stage in self._stages for pages in self._layout.stages[stage]]
        self._require([(pages, *self._at_origin(pages)) for pages in (*edges, *pinned, *stages)])
        self._drop_loaded()
        copies = [self._files.read_buffered(page.part, page.start, page.num_bytes) for page in edges]
        for pages in (*edges, *pinned):
            self._map_home(pages)
        for page, data in zip(edges, copies, strict=True):
            bytes_at(self._address(page), len(data)).raw = data
        for pages in pinned:
            for chunk in self._cut(pages):
                self._read(chunk)
        self._is_settled = True
        # Those read for the edges.
        self._files.forget()
        for tensor in self._layout.scattered.values():
            for pages in tensor:
                advise(self._address(pages), pages.num_bytes, MADV_RANDOM)

    def arrange(self, places: Mapping[int, Place]) -> None:
        """Maps stages to other places, and frees the memory of homes and slots that are no longer used.

        Raises:
            NotStreamable: Something else lies where a stage should; nothing has changed.
        """
        changed = [stage for stage in self._stages if places[stage] != self._places.get(stage)]
        self._require(
            [(pages, *self._now_at(stage, pages)) for stage in changed for pages in self._layout.stages[stage]]
        )
        for stage in changed:
            self._move(stage, places[stage])
        left = set(self._places.values()) - set(places.values())
        for slot in left:
            if isinstance(slot, Slot):
                self._arena.give_back(self._slots[slot.number], self._slot_bytes)
        self._places = dict(places)

    def read(self, stage: int, index: int) -> int:
        """Reads a piece of a stage to where it is seen; returns its bytes. From any thread. Raises OSError."""
        chunk = self._chunks[stage][index]
        place = self._places[stage]
        if isinstance(place, Slot):
            self._look_from(place, stage)
            # Many pages at a time; the read would have them mapped one by one.
            advise(self._address(chunk), chunk.num_bytes, MADV_POPULATE_READ)
        self._read(chunk)
        return chunk.num_bytes

    def empty_slots(self) -> None:
        """Frees the memory of all slots; what was read into them has to be read again."""
        for offset in self._slots.values():
            self._arena.give_back(offset, self._slot_bytes)
        self._seen_from.clear()

    @property
    def pinned_bytes(self) -> int:
        """Memory of the tensors that each pass reads besides the stages."""
        return sum(pages.num_bytes for pages in self._pinned)

    def drop_pinned(self) -> None:
        """Frees the memory of these tensors; nothing is computed until `fill_pinned`."""
        for pages in self._pinned:
            advise(self._address(pages), pages.num_bytes, MADV_DONTNEED)
        self.has_pinned = False

    def fill_pinned(self) -> None:
        """Reads these tensors again, where they were dropped. Raises OSError."""
        if not self.has_pinned:
            for pages in self._pinned:
                for chunk in self._cut(pages):
                    self._read(chunk)
            self.has_pinned = True

    def close(self) -> None:
        """Closes the arena; its memory is free once the model is closed, which unmaps all views."""
        self._arena.close()
        self._files.close()

    def _drop_loaded(self) -> None:
        """Lets the system drop what loading has mapped and read, which would take the room of what is read now."""
        stages = [pages for stage in self._stages for pages in self._layout.stages[stage]]
        tensors = (*self._layout.pinned.values(), *self._layout.scattered.values())
        for pages in (*stages, *(pages for tensor in tensors for pages in tensor)):
            advise(self._address(pages), pages.num_bytes, MADV_DONTNEED)
        self._files.forget()

    def _look_from(self, slot: Slot, stage: int) -> None:
        """Maps a slot for one stage at a time: for several, the system would count its memory as often.

        Two threads that come here at once do the same twice, which costs nothing but time.
        """
        before = self._seen_from.get(slot)
        if before == stage:
            return
        self._seen_from[slot] = stage
        if before is not None and self._places[before] == slot:
            for pages in self._layout.stages[before]:
                advise(self._address(pages), pages.num_bytes, MADV_DONTNEED)

    def _address(self, pages: Pages) -> int:
        return self._origins[pages.part].base + pages.start

    def _read(self, pages: Pages) -> None:
        self._files.read(pages.part, pages.start, bytes_at(self._address(pages), pages.num_bytes))

    def _cut(self, pages: Pages) -> list[Pages]:
        starts = range(pages.start, pages.end, self._chunk_bytes)
        return [Pages(pages.part, start, min(start + self._chunk_bytes, pages.end)) for start in starts]

    def _now_at(self, stage: int, pages: Pages) -> tuple[FileId, int | None]:
        """What lies where a stage is looked for: what llama.cpp has put there, our arena, or our memory."""
        place = self._places.get(stage)
        if place is None:
            return self._at_origin(pages)
        return (MEMORY if isinstance(place, Home) else self._arena.file), None

    def _at_origin(self, pages: Pages) -> tuple[FileId, int | None]:
        origin = self._origins[pages.part]
        return origin.mapped, origin.mapped_base

    def _move(self, stage: int, place: Place) -> None:
        at = self._offset(place) if isinstance(place, Slot) else 0
        for pages in self._layout.stages[stage]:
            if isinstance(place, Slot):
                self._map_slot(pages, at)
            else:
                self._map_home(pages)
            at += pages.num_bytes

    def _offset(self, slot: Slot) -> int:
        if slot.number not in self._slots:
            self._slots[slot.number] = self._arena.take(self._slot_bytes)
        return self._slots[slot.number]

    def _map_home(self, pages: Pages) -> None:
        with self._or_end():
            map_private_over(self._address(pages), pages.num_bytes)

    def _map_slot(self, pages: Pages, offset: int) -> None:
        with self._or_end():
            map_shared_over(self._address(pages), pages.num_bytes, self._arena.descriptor, offset)

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        try:
            yield
        except MappingLost as lost:
            try:
                self._note_death()
            finally:
                self._end(f"The engine ends itself: {lost}.")

    def _require(self, expected: Sequence[tuple[Pages, FileId, int | None]]) -> None:
        """Raises NotStreamable unless all pages are mapped as expected, at this moment."""
        now = mappings.current()
        for pages, file, base in expected:
            address = self._address(pages)
            if not mappings.covers(now, address, address + pages.num_bytes, file, base):
                raise NotStreamable("Something else lies in memory where the weights of this model should be.")
