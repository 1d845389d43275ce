"""A loaded model's layers in main memory: pinned in our own memory, or streamed through the ring at each pass.

llama.cpp maps the model's file and computes from there, or from memory in which it has put weights into the processor's
order, and which was written to a file (packing.py). We lay our own memory over those addresses: a home for each layer
that stays, and for streamed layers a few slots that their stages (stages.py) share; one of these layers may have homes
for some of its stages as well. Readers fill a slot as soon as what it held was computed, so a pass reads exactly what
is not pinned, as fast as the disk delivers it (the idea is FlexGen's and RAGDoll's, without a change to llama.cpp).

With a device, stages are copied there for large batches, each when its turn comes (copying.py: `can_copy`).

What it promises: logits are those of the whole model or none at all. A layer that could not be read, was not read in
time, or was passed unexpectedly makes `after_decode` raise, and the next decode tries again. Where the file has changed
by then, no decode would be right any more: `WeightsChanged` is raised, and the model has to be loaded again.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.closing import close_all
from engine.errors import GenerationError, ModelLoadFailed, NotStreamable, WeightsChanged, WeightsNotRead
from engine.generation.model import Model
from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.cursor import Cursor
from engine.generation.weights.direct_reads import DirectFiles, FileChanged, WeightFiles
from engine.generation.weights.homes import CHUNK_BYTES, EndProcess, Home, Homes, Place, Slot
from engine.generation.weights.layer_leases import LayerLeases
from engine.generation.weights.memory_map import end_process
from engine.generation.weights.pacing import next_homes
from engine.generation.weights.readers import READS_AT_ONCE, Readers
from engine.generation.weights.ring import Ring, is_as_planned, share_out, slots_in
from engine.generation.weights.sources import Sources, sources_of
from engine.memory.ledger import Ledger
from engine.memory.placement import PinnedPart

log = logging.getLogger(__name__)

# A disk that was spun down takes about ten seconds to spin up.
PATIENCE_SECONDS = 30.0
_DISK_WAY_OUT = "Look whether the disk is in order, then ask again."
# Errors of a drive that was pulled out, or of a network that was lost: a file that was open stays unreadable for ever.
_OF_DRIVES = frozenset({errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOTCONN})
OpenFiles = Callable[[Sequence[Path]], WeightFiles]


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """What streaming has done since the model was loaded, and how it is set up now; in bytes and seconds.

    `num_moving` layers are not yet where they are wanted, or not all there.
    """

    read_bytes: int
    reading_seconds: float
    waited_seconds: float
    num_passes: int
    num_failed_reads: int
    num_streamed: int
    num_moving: int
    num_slots: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Options:
    """What differs in tests and measurements: how files are read, how much at a time, and how long a pass waits."""

    open_files: OpenFiles = DirectFiles
    reads_at_once: int = READS_AT_ONCE
    patience_seconds: float = PATIENCE_SECONDS
    chunk_bytes: int = CHUNK_BYTES
    end: EndProcess = end_process


USUAL = Options()


class LayerStream:
    """Made, used and closed on the thread that decodes. Close it after contexts that use it and before its model."""

    def __init__(
        self,
        model: Model,
        path: Path,
        streamed: Collection[int],
        num_slots: int,
        ledger: Ledger,
        options: Options = USUAL,
        copied: CopiedFile | None = None,
        planned_stage_bytes: int = 0,
        part: PinnedPart | None = None,
    ) -> None:
        """Moves the model's weights into our own memory; layers arrive with the first passes.

        Args:
            model: Loaded with `is_repacked=False`, or packed into `copied`; nothing is computed with it yet.
            path: Any of its files.
            streamed: The layers to be read at each pass; those on a device are left where they are.
            num_slots: The most stages of them that are in memory, or on their way, at a time; at least one. The number
                changes, for as much memory, where stages are not `is_as_planned`.
            ledger: Gets what is held; these layers are registered here only.
            options: See there.
            copied: Has what llama.cpp put in another order, where it did; it is closed with this, or now if this fails.
            planned_stage_bytes: The stage size that slots were counted with; 0 for what the header says.
            part: Of one of the streamed layers, what stays in memory, where stages are as planned.

        Raises:
            NotStreamable: On this system, or with this model, or this file; the model is as it was, unless it was
                `copied`.
            ModelLoadFailed: The disk failed when parts of it had been taken out of memory already.
            ModelFileInvalid: A file of the model is gone or damaged.
        """
        self._ledger, self._options = ledger, options
        self._copied = copied
        with ExitStack() as undo:
            undo.callback(self._close_copied)
            sources = sources_of(model, path, copied)
            self._layout, self.can_copy = sources.layout, sources.can_copy
            self._in_memory = [layer for layer in range(self._layout.num_layers) if self._filled(layer)]
            self._stages = [stage for layer in self._in_memory for stage in self._filled(layer)]
            self.stage_bytes = max(map(self._layout.stage_bytes, self._stages), default=0)
            planned_stage_bytes = planned_stage_bytes or sources.planned_stage_bytes
            self.is_as_planned = not self._stages or is_as_planned(planned_stage_bytes, self.stage_bytes)
            if not self.is_as_planned:
                num_slots, part = slots_in(num_slots, planned_stage_bytes, self.stage_bytes), None
            self._homes = _homes(sources, options)
            undo.callback(self._homes.close)
            self._settle()
            self._ring = Ring(self._homes.num_chunks)
            self._readers = Readers(self._ring, self._homes.read, options.reads_at_once, options.patience_seconds)
            undo.callback(self._stop_reading)
            layer_bytes = [self._layout.layer_bytes(layer) for layer in range(self._layout.num_layers)]
            parts = {pages.part for stage in self._layout.stages for pages in stage}
            # Where a part of each is read from the model's own file, the copy is entered as a whole.
            self._tells_layers = is_from_copy = copied is not None and parts == {len(sources.paths) - 1}
            self._leases = LayerLeases(ledger, layer_bytes, self._homes.fixed_bytes, is_from_copy=is_from_copy)
            undo.callback(self._leases.release)
            self._cursor = Cursor(self._readers, sources.marks)
            self._places: dict[int, Place] = {}
            self._at_home_now, self._read_stages = frozenset[int](), list[int]()
            self._reached: tuple[frozenset[int], int] | None = None
            self._loading: list[int] = []
            self._num_passes = 0
            self._is_away = False
            self._wanted, self._num_slots = self._at_home(streamed, part), num_slots
            self._apply(self._wanted)
            undo.pop_all()

    @property
    def cb_eval(self) -> Any:
        """What a context hands to llama.cpp."""
        return self._cursor.callback

    @property
    def streamed(self) -> tuple[int, ...]:
        """The layers that are read at each pass now, as a whole or in part."""
        return tuple(layer for layer in self._in_memory if not self._at_home_now.issuperset(self._filled(layer)))

    @property
    def num_slots(self) -> int:
        """The number of slots, for stages of their actual size."""
        return self._num_slots

    def disk_seconds(self) -> tuple[float, float]:
        """How long passes have waited for layers so far, and for how long layers were read."""
        counters = self._readers.counters()
        return counters.waited_seconds, counters.reading_seconds

    def before_decode(self) -> None:
        """Prepares for a decode; waits until it can begin.

        Raises:
            WeightsNotRead: The first layer cannot be read.
            WeightsChanged: See the module.
        """
        try:
            self._go_on_moving()
        except NotStreamable as error:
            log.error("Layers stay where they are: %s", error.sentence)
            if self._reached is not None:
                self._wanted, self._num_slots = self._reached
        self._readers.begin()
        self._note_arrivals()
        if not self._cursor.begin():
            raise _failure(self._readers.error)

    def after_decode(self, is_computed: bool = True) -> None:
        """Checks a decode that is over.

        Args:
            is_computed: Whether llama.cpp says that it computed all of it.

        Raises:
            WeightsNotRead, WeightsChanged: Its logits mean nothing, nor do the cells that it wrote.
        """
        self._num_passes += self._cursor.num_passes
        is_followed = not self._cursor.has_marks or self._cursor.num_passes > 0
        is_sound = not self._cursor.is_lost and self._cursor.is_between_passes
        if is_sound and (is_followed or not is_computed):
            return
        self._readers.rewind()
        if is_computed:
            raise _failure(self._readers.error)

    def retarget(self, streamed: Collection[int], num_slots: int, part: PinnedPart | None = None) -> None:
        """Gives layers other places, between decodes: a few now, and a few before each decode that follows.

        Where fewer layers are to have a home, memory is freed at once. Those that get one are read into it by the next
        pass, instead of into a slot, so it takes no longer than the passes before. What stays is not read again.

        Raises:
            NotStreamable: Something else lies where a layer should; all stays as it is.
        """
        before = self._wanted, self._num_slots
        self._wanted, self._num_slots = self._at_home(streamed, part), num_slots
        if self._is_away:
            return
        try:
            self._go_on_moving()
        except NotStreamable:
            self._wanted, self._num_slots = before
            raise

    @property
    def missing_bytes(self) -> int:
        """The memory that `come_back` takes."""
        pinned_bytes = 0 if self._homes.has_pinned else self._homes.pinned_bytes
        return self._bytes_of(self._wanted - self._at_home_now) + pinned_bytes

    @property
    def removable_bytes(self) -> int:
        """The memory that `go_away` can free."""
        pinned_bytes = self._homes.pinned_bytes if self._homes.has_pinned else 0
        return self._bytes_of(self._at_home_now) + pinned_bytes

    def go_away(self, num_bytes: int) -> None:
        """Frees at least `num_bytes` of memory, if there is as much; nothing is computed until `come_back`.

        The last layers leave first: with the first ones, a pass can begin while the others are read. What each pass
        reads besides the layers leaves last, as it is read at once. The model stays open, and keeps its vocabulary.

        Raises:
            NotStreamable: Something else lies where a layer should; all that is left stays as it is.
        """
        self._is_away = True
        homes, given_bytes = set(self._at_home_now), 0
        for stage in sorted(homes, reverse=True):
            if given_bytes >= num_bytes:
                break
            homes.discard(stage)
            given_bytes += self._layout.stage_bytes(stage)
        with self._readers.still() as is_still:
            if not is_still:
                # It would write into memory that is about to be reused.
                raise NotStreamable("A read from the model's file does not come back.")
            self._readers.hold([place for place in self._places.values() if isinstance(place, Slot)])
            self._homes.empty_slots()
        self._apply(frozenset(homes))
        if given_bytes < num_bytes:
            self._homes.drop_pinned()
        self._leases.show_slots({})
        self._leases.show_fixed(self._homes.fixed_bytes)

    def come_back(self) -> None:
        """Brings back what is to lie in memory: what each pass reads at once, layers while the next pass is computed.

        Raises:
            WeightsNotRead: The file cannot be read; another try may succeed.
            WeightsChanged: See the module.
            NotStreamable: Something else lies where a layer should.
        """
        if not self._is_away:
            return
        self._apply(self._wanted)
        # Layers are read at the same time as the rest.
        self._readers.let_go()
        try:
            self._homes.fill_pinned()
        except OSError as error:
            raise _failure(error) from error
        self._leases.show_fixed(self._homes.fixed_bytes)
        self._is_away = False

    @property
    def is_whole(self) -> bool:
        """Whether all layers that are to lie in memory do."""
        return not (self._is_away or self._loading)

    def counters(self) -> StreamCounters:
        reads = self._readers.counters()
        return StreamCounters(
            read_bytes=reads.read_bytes,
            reading_seconds=reads.reading_seconds,
            waited_seconds=reads.waited_seconds,
            num_passes=self._num_passes,
            num_failed_reads=reads.num_failed,
            num_streamed=len(self.streamed),
            num_moving=len(self._layers_of(self._wanted ^ self._at_home_now)) + len(self._layers_of(self._loading)),
            num_slots=len({place for place in self._places.values() if isinstance(place, Slot)}),
            held_bytes=self._homes.held_bytes,
        )

    def close(self) -> None:
        """Stops reading and gives everything back; memory is free once the model is closed too."""
        close_all(self._stop_reading, self._homes.close, self._leases.release, self._close_copied)

    def _close_copied(self) -> None:
        if self._copied is not None:
            self._copied.close()

    def _stop_reading(self) -> None:
        self._readers.close()
        if self._readers.is_running:
            # Its memory is about to be reused.
            self._options.end("The engine ends itself: a read from the model's file does not come back.")

    def _settle(self) -> None:
        try:
            self._homes.settle()
        except OSError as error:
            sentence = f"The model's file could not be read: {error.strerror or error}."
            if self._copied is None:
                # There is empty memory where its weights were.
                raise ModelLoadFailed(sentence, _DISK_WAY_OUT) from error
            raise NotStreamable(sentence) from error

    def _at_home(self, streamed: Collection[int], part: PinnedPart | None) -> frozenset[int]:
        """The stages of layers that stay; of the one that stays in part, those that fit into the planned number."""
        stay = [stage for layer in self._in_memory if layer not in streamed for stage in self._filled(layer)]
        if part is not None:
            left = part.num_stages * self.stage_bytes
            for stage in sorted(self._filled(part.layer), key=self._layout.stage_bytes, reverse=True):
                if self._layout.stage_bytes(stage) <= left:
                    stay.append(stage)
                    left -= self._layout.stage_bytes(stage)
        return frozenset(stay)

    def _bytes_of(self, stages: Collection[int]) -> int:
        return sum(map(self._layout.stage_bytes, stages))

    def _layers_of(self, stages: Collection[int]) -> list[int]:
        """The layers to which any of these stages belongs."""
        return [layer for layer in self._in_memory if not set(stages).isdisjoint(self._layout.layers[layer])]

    def _filled(self, layer: int) -> list[int]:
        """The stages of a layer that have pages of their own."""
        return [stage for stage in self._layout.layers[layer] if self._layout.stages[stage]]

    def _go_on_moving(self) -> None:
        """Moves some of the stages that are not where they are wanted."""
        if self._reached != (self._wanted, self._num_slots):
            self._apply(next_homes(self._at_home_now, self._wanted, len(self._stages)))

    def _apply(self, homes: frozenset[int]) -> None:
        """Gives these stages homes and the others slots; leaves it to the next decode where a read does not end."""
        read_stages = [stage for stage in self._stages if stage not in homes]
        slots = share_out(read_stages, self._num_slots)
        places = {stage: Slot(slots[stage]) if stage in slots else Home(stage) for stage in self._stages}
        with self._readers.still() as is_still:
            if not is_still:
                return
            self._homes.arrange(places)
            self._readers.arrange(places)
        self._places, self._reached = places, (homes, self._num_slots)
        self._at_home_now, self._read_stages = homes, read_stages
        self._show()

    def _show(self) -> None:
        """Shows the ledger where layers lie now, and the cursor which stages are read."""
        for layer in self._in_memory:
            at_home = self._at_home_now.intersection(self._filled(layer))
            self._leases.show(layer, self._bytes_of(at_home), "loading" if at_home <= self._wanted else "evicting")
        self._leases.show_slots(self._homes.slot_bytes(self._places))
        if self._copied is not None and self._tells_layers:
            self._copied.show_streamed(self._bytes_of(self._read_stages))
        self._loading = sorted(self._at_home_now)
        self._note_arrivals()

    def _note_arrivals(self) -> None:
        """Stops watching stages whose homes are full."""
        if not self._loading and self._cursor.is_watching(self._read_stages):
            return
        are_there = self._readers.are_there(self._loading)
        there = {stage for stage, is_there in zip(self._loading, are_there, strict=True) if is_there}
        self._loading = [stage for stage in self._loading if stage not in there]
        for layer in self._layers_of(there):
            at_home = self._at_home_now.intersection(self._filled(layer))
            if at_home <= self._wanted and at_home.isdisjoint(self._loading):
                self._leases.show(layer, self._bytes_of(at_home), "resident")
        self._cursor.watch(sorted((*self._read_stages, *self._loading)))


def _failure(error: OSError | None) -> GenerationError:
    """Why a layer is not there; None: the disk did not answer in time."""
    if isinstance(error, FileChanged):
        return WeightsChanged(
            "The model's file was changed while the model was in use, so it is loaded anew.", "Ask again."
        )
    why = (error.strerror or str(error)) if error else "the disk did not answer in time"
    drive_failed = error is not None and error.errno in _OF_DRIVES
    sentence = f"A part of the model could not be read from the disk: {why}."
    return WeightsNotRead(sentence, _DISK_WAY_OUT, drive_failed=drive_failed)


def _homes(sources: Sources, options: Options) -> Homes:
    try:
        files = options.open_files(sources.paths)
    except OSError as error:
        raise NotStreamable(f"The model's file could not be opened: {error.strerror or error}.") from error
    return Homes(sources.layout, files, sources.origins, options.chunk_bytes, options.end)
