"""Opening a model's weights as they were planned: loaded, and where they are to come and go, in memory of ours.

What turns out not to be possible is done the next best way, and the plan says so: layers that are streamed in the
processor's order, then in the file's, then by the system, which reads of the file what is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from engine.errors import NotStreamable
from engine.generation.cache_files import CacheFiles
from engine.generation.load_plan import LoadPlan
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases
from engine.generation.weights.copied import CopiedWeights
from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.packing import Packing
from engine.generation.weights.stream import LayerStream
from engine.memory.ledger import Ledger

# Loads it; whether it may be repacked, and what takes that out of memory meanwhile.
Load: TypeAlias = Callable[[bool, Packing | None], Model]


@dataclass(frozen=True, slots=True)
class OpenWeights:
    """A loaded model by the plan that is in force now; `stream` and `copied` are as in LoadedModel."""

    model: Model
    plan: LoadPlan
    stream: LayerStream | None = None
    copied: CopiedWeights | None = None


def open_weights(load: Load, plan: LoadPlan, files: CacheFiles, ledger: Ledger, leases: ModelLeases) -> OpenWeights:
    """Loads a model as planned, or as near to it as can be; on the generation thread, which owns what comes back.

    Raises:
        ModelError: It could not be loaded; nothing is left of it.
    """
    leases.take_weights(plan.shape, plan.placement)
    try:
        if plan.placement.is_packed:
            try:
                return _packed(load, plan, files, ledger, leases)
            except NotStreamable as error:
                plan = plan.in_file_order(f"{error.sentence} They are read as they lie in the model's file.")
                leases.take_weights(plan.shape, plan.placement)
        return _loaded(load, plan, files, ledger, leases)
    except BaseException:
        leases.release_weights()
        raise


def _packed(load: Load, plan: LoadPlan, files: CacheFiles, ledger: Ledger, leases: ModelLeases) -> OpenWeights:
    """Layers come and go in the processor's order. Raises NotStreamable, with nothing left of it."""
    packing = Packing(files.folder, ledger)
    try:
        model = load(True, packing)
        try:
            copied = packing.finish()
            stream = _stream(model, plan, ledger, leases, copied)
        except BaseException:
            model.close()
            raise
    finally:
        packing.close()
    # Where llama.cpp knows no faster order for this model, or this processor, that is the file's.
    return OpenWeights(model, plan if copied is not None else plan.in_file_order(), stream)


def _loaded(load: Load, plan: LoadPlan, files: CacheFiles, ledger: Ledger, leases: ModelLeases) -> OpenWeights:
    """All in memory in the processor's order, or in the file's with layers that come and go or not."""
    model = load(plan.placement.is_repacked, None)
    try:
        if plan.placement.is_held:
            try:
                return OpenWeights(model, plan, _stream(model, plan, ledger, leases))
            except NotStreamable as error:
                why = f"{error.sentence} The system reads of its file what is needed, which may be slow."
                plan = plan.unstreamed(why)
        leases.note_copied(plan.shape, plan.placement, model.copied_bytes)
        # They can leave memory where all of them lie in one place.
        copied = CopiedWeights(model.copied_range, files.folder, ledger) if model.copied_range is not None else None
    except BaseException:
        model.close()
        raise
    return OpenWeights(model, plan, copied=copied)


def _stream(
    model: Model, plan: LoadPlan, ledger: Ledger, leases: ModelLeases, copied: CopiedFile | None = None
) -> LayerStream:
    leases.note_streamed(plan.shape, plan.placement)
    placement = plan.placement
    slots = max(1, placement.ring_slots)
    return LayerStream(model, plan.path, placement.streamed_layers, slots, ledger, copied=copied)
