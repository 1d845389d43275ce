"""Opens a model's weights as planned: loaded, and in our own memory if layers are to be streamed.

If something turns out to be impossible, the next best way is taken, and the plan says so: layers are streamed in the
processor's order, else in the order of the file, else the file is left to demand paging.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from engine.errors import ModelLoadFailed, NoRoomToLoad, NotStreamable
from engine.generation.load_plan import LoadPlan, Remark
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases
from engine.generation.weights.copied import CopiedWeights
from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.packing import Packing
from engine.generation.weights.stream import USUAL, LayerStream, Options
from engine.memory.ledger import Ledger

# The wordings of ggml's backends, the system and our context.
_ALLOCATION = re.compile(r"alloc|out ?of ?(device|host)? ?memory|no room", re.IGNORECASE)
# Names of buffers in main memory, including those that a device reads directly.
_OF_MEMORY = re.compile(r"\bcpu(_\w+)?\b|_cpu_buffer|_host\b", re.IGNORECASE)
# Loads the model, given whether it may be repacked, and what moves repacked weights out of memory meanwhile.
Load: TypeAlias = Callable[[bool, Packing | None], Model]


@dataclass(frozen=True, slots=True)
class OpenWeights:
    """A loaded model with the plan that is in force now; `stream` and `copied` are as in LoadedModel."""

    model: Model
    plan: LoadPlan
    stream: LayerStream | None = None
    copied: CopiedWeights | None = None


class Opening:
    """Opens weights; on the generation thread, which owns the result."""

    def __init__(
        self,
        load: Load,
        folder: Path,
        ledger: Ledger,
        leases: ModelLeases,
        options: Options = USUAL,
        clear_disk: Callable[[int], None] = lambda kept_bytes: None,
    ) -> None:
        """Opens nothing yet.

        Args:
            load: Loads the model.
            folder: The folder for copies of its weights.
            ledger: Records what is streamed.
            leases: Records the weights.
            options: How layers are streamed.
            clear_disk: Reduces kept KV on disk to this many bytes; the plan relies on that for a copy.
        """
        self._load, self._folder, self._ledger, self._leases, self._options = load, folder, ledger, leases, options
        self._clear_disk = clear_disk

    def open(self, plan: LoadPlan) -> OpenWeights:
        """Loads a model as planned, or as close to it as possible.

        Raises:
            ModelError: It could not be loaded; nothing of it remains.
        """
        self._leases.take_weights(plan.shape, plan.placement)
        try:
            if plan.placement.is_packed:
                try:
                    return self._packed(plan)
                except NotStreamable as error:
                    why = f"{error.sentence} They are read as they lie in the model's file."
                    plan = plan.in_file_order(Remark(why, is_of_file_order=True), may_pass=error.may_pass)
                    self._leases.take_weights(plan.shape, plan.placement)
            return self._loaded(plan)
        except BaseException:
            self._leases.release_weights()
            raise

    def _packed(self, plan: LoadPlan) -> OpenWeights:
        """Streams layers in the processor's order. If it raises NotStreamable, nothing of the model remains."""
        self._clear_disk(plan.room.disk_bytes)
        packing = Packing(self._folder, self._ledger)
        try:
            with _closed_on_failure(self._packed_model(packing)) as model:
                copied = packing.finish()
                stream, plan = self._stream(model, plan, copied)
        finally:
            packing.close()
        # Without copies, llama.cpp has no faster order for this model or processor, so layers are in the file's order.
        return OpenWeights(model, plan if copied is not None else plan.in_file_order(), stream)

    def _packed_model(self, packing: Packing) -> Model:
        try:
            with lack_of_room_told():
                return self._load(True, packing)
        except NoRoomToLoad as error:
            # A system may refuse an allocation larger than its memory, although it would never be in use all at once.
            raise NotStreamable("There is no room to put the weights into the processor's order.") from error

    def _loaded(self, plan: LoadPlan) -> OpenWeights:
        """Loads everything into memory in the processor's order, or in the file's, with or without streamed layers."""
        with _closed_on_failure(self._load(plan.placement.is_repacked, None)) as model:
            if plan.placement.is_held:
                try:
                    stream, plan = self._stream(model, plan)
                    return OpenWeights(model, plan, stream)
                except NotStreamable as error:
                    why = f"{error.sentence} The system reads of its file what is needed, which may be slow."
                    plan = plan.unstreamed(why)
            self._leases.note_copied(plan.shape, plan.placement, model.copied_bytes)
            if model.copied_range is None:
                return OpenWeights(model, plan)
            # All copied weights are in one range, so they can leave memory.
            return OpenWeights(model, plan, copied=CopiedWeights(model.copied_range, self._folder, self._ledger))

    def _stream(self, model: Model, plan: LoadPlan, copied: CopiedFile | None = None) -> tuple[LayerStream, LoadPlan]:
        """Streams layers; returns the stream and the plan with the actual size of stages."""
        self._leases.note_streamed(plan.shape, plan.placement)
        placement = plan.placement
        stream = LayerStream(
            model,
            plan.path,
            placement.streamed_layers,
            max(1, placement.ring_slots),
            self._ledger,
            self._options,
            copied,
            # If the model is loaded again, the plan already has the actual size of stages.
            planned_stage_bytes=plan.shape.slot_bytes,
            part=placement.pinned_part,
        )
        if not stream.is_as_planned:
            plan = plan.with_stages(stream.stage_bytes, stream.num_slots if placement.streamed_layers else 0)
        return stream, plan if stream.can_copy or not placement.layers_on_gpu else plan.uncopied()


@contextmanager
def _closed_on_failure(model: Model) -> Iterator[Model]:
    try:
        yield model
    except BaseException:
        model.close()
        raise


@contextmanager
def lack_of_room_told() -> Iterator[None]:
    """Distinguishes loads that failed for lack of memory, for which loading less may help, from other failures.

    Raises:
        NoRoomToLoad: Instead of ModelLoadFailed, if llama.cpp reports a failed allocation.
    """
    try:
        yield
    except ModelLoadFailed as error:
        if _ALLOCATION.search(error.sentence):
            is_in_memory = _OF_MEMORY.search(error.sentence) is not None
            raise NoRoomToLoad(error.sentence, error.way_out, is_in_memory=is_in_memory) from error
        raise
