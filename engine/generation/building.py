"""Builds a loaded model as planned: weights, context and cells, the keeper of its KV, and the loop that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from engine.closing import close_all
from engine.errors import DecodeFailed, ModelLoadFailed, NoRoomToLoad, WeightsChanged, WeightsNotRead
from engine.generation.beam import Beams
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells
from engine.generation.context import Context, Stretch
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.fingerprint import model_fingerprint, root_key
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.knowledge_tree import digest_of
from engine.generation.load_plan import LoadPlan
from engine.generation.loaded import LoadedModel, cells_to_keep_in
from engine.generation.model import Model
from engine.generation.model_leases import LeaseGroup, ModelLeases
from engine.generation.opening import Opening, lack_of_room_told
from engine.generation.speaker import speaker_of
from engine.generation.step_loop import StepLoop
from engine.generation.swap_room import room_now
from engine.generation.weights.packing import Packing
from engine.generation.weights.stream import LayerStream
from engine.memory.amounts import in_words
from engine.memory.devices import probe_devices
from engine.memory.ledger import Ledger
from engine.models.gguf import parts_of

_WAY_OUT = "Download it again, or choose another GGUF file."


@dataclass(frozen=True, slots=True)
class OpenContext:
    """A context that computes, and its leases in the ledger."""

    context: Context
    leases: LeaseGroup

    def close(self) -> None:
        """Closes the context and releases the leases."""
        close_all(self.context.close, self.leases.release)


def build(
    plan: LoadPlan, files: CacheFiles, ledger: Ledger, leases: ModelLeases, on_progress: Callable[[float], bool]
) -> LoadedModel:
    """Loads the model; on the generation thread, which owns the result.

    Args:
        plan: The placement of the model.
        files: Keep its KV on disk.
        ledger: Gets the leases of KV kept in memory.
        leases: Get the weights and the context.
        on_progress: Receives the share of the weights that is loaded; returning False abandons the load.

    Raises:
        ModelError: It could not be loaded; nothing is left of it.
    """
    with ExitStack() as undo:
        undo.callback(leases.release)

        def load(is_repacked: bool, packing: Packing | None) -> Model:
            with lack_of_room_told():
                n_gpu_layers = plan.placement.n_gpu_layers
                return Model(parts_of(plan.path)[0], n_gpu_layers, on_progress, is_repacked, packing)

        opened_weights = Opening(load, files.folder, ledger, leases, clear_disk=files.shrink).open(plan)
        model, stream, plan = opened_weights.model, opened_weights.stream, opened_weights.plan
        undo.callback(model.close)
        if stream is not None:
            undo.callback(stream.close)
        opened = open_context(model, plan, stream, leases)
        undo.callback(opened.close)
        context, cells = opened.context, cells_of(opened.context)
        keeper = keeper_over(plan, context, cells, ledger, files)
        undo.callback(keeper.abandon)
        loop = _loop(model, context, cells, keeper, plan.room.context_tokens, files.folder)
        loop.profile.expect(plan.placement.prediction.prefill_tokens_per_s)
        # Without the KV format: tokens are the same in any format.
        fingerprint = model_fingerprint(plan.path)
        speaker = speaker_of(model, plan.shape.name, fingerprint, plan.room.context_tokens)
        undo.pop_all()
    return LoadedModel(
        plan,
        model,
        context,
        opened.leases,
        speaker,
        loop,
        keeper,
        files,
        ahead_from_seconds=plan.ahead_from_seconds(plan.settings),
        stream=stream,
        copied=opened_weights.copied,
    )


def open_context(
    model: Model, plan: LoadPlan, stream: LayerStream | None, leases: ModelLeases, *, has_computed: bool = False
) -> OpenContext:
    """Creates a context over loaded weights and tries it out.

    Args:
        model: Its weights are loaded.
        plan: The size and placement of the context.
        stream: Reads layers, if any are streamed.
        leases: Get the context.
        has_computed: Another context has computed with these weights where they are now. On the processor, the new one
            can then fail only for lack of room, which the first batch detects as well. If layers are streamed, trying
            out a single token takes as long as a step of all answers that wait (.7 s of a pause of 1.3 s, 3B at
            .9 GB/s).

    Raises:
        ModelLoadFailed: There is no room for it, or nothing can be computed in it; nothing is left of it.
    """
    with lack_of_room_told(), leases.making_context(plan.shape, plan.placement, plan.spec.num_cells):
        context = Context(model, plan.spec, stream)
        try:
            _look_for_room(model, plan)
            if not has_computed or plan.placement.n_gpu_layers:
                _try_out(model, context)
        except BaseException:
            context.close()
            raise
        held = leases.take_context(
            plan.shape, plan.placement, context.num_cells, context.compute_bytes, context.touched_bytes
        )
    return OpenContext(context, held)


def cells_of(context: Context) -> Cells:
    """Returns the cells of an empty context, all free."""
    return Cells(context.num_cells, context.num_sequences)


def keeper_over(plan: LoadPlan, context: Context, cells: Cells, ledger: Ledger, files: CacheFiles) -> KnowledgeKeeper:
    """Returns the keeper of prompts in a context, which finds what other contexts with equal KV have kept."""
    keeper = KnowledgeKeeper(
        root_over(plan, context, files),
        context,
        cells,
        ledger,
        files,
        passing_room_bytes=lambda: room_now(files.folder).passing_bytes,
        # If the model cannot restore part of a prompt by itself, another prompt cannot use it.
        keeps_whole=not context.model.can_share_prefixes,
    )
    kept_cells = cells_to_keep_in(cells.num_cells, plan.shape, plan.room.ram_bytes)
    keeper.set_budgets(kept_cells, plan.room.ram_bytes)
    return keeper


def root_over(plan: LoadPlan, context: Context, files: CacheFiles, held: bytes = b"") -> bytes:
    """Returns the key under which a model's prompts are kept in a context; `held` is its present keeper's, if any.

    A copy of a model that is already open gets a root of its own: two keepers would remove each other's files.
    """
    root = root_key(plan.path, context.spec.kv_type, context.num_cells)
    own = digest_of(root + os.fsencode(plan.path))
    if held in (root, own):
        return held
    return own if files.is_open(root) else root


def least_left_bytes(plan: LoadPlan) -> int:
    """Returns how much must stay free on a device alongside a context: half of its reserve."""
    return plan.settings.memory.device_reserve_bytes // 2


def _look_for_room(model: Model, plan: LoadPlan) -> None:
    """Checks that half of a device's reserve is still free, whatever other programs have taken meanwhile.

    A driver also takes memory while it computes, and CUDA's ends the process if there is none.

    Raises:
        NoRoomToLoad: Less is free.
    """
    least_bytes, used = least_left_bytes(plan), set(model.layer_devices.values())
    for device in probe_devices():
        if device.name in used and not device.shares_ram and device.free_bytes < least_bytes:
            raise NoRoomToLoad(
                f"Only {in_words(device.free_bytes)} of the memory of {device.description or device.name} are free, "
                "too little to compute with.",
                "Close other programs that use the graphics card, or choose a smaller model.",
            )


def _try_out(model: Model, context: Context) -> None:
    """Computes one token, so that any fault shows before there is a question to answer."""
    first = [Stretch(0, 0, (max(0, model.bos),), 1)]
    try:
        try:
            (row,) = context.decode(first)
        except WeightsNotRead:
            # Tries again, like the step loop, because a disk may fail once.
            context.clear()
            (row,) = context.decode(first)
    except (WeightsNotRead, WeightsChanged) as error:
        raise ModelLoadFailed(f"{model.path.name} cannot be computed: {error.sentence}", error.way_out) from error
    except DecodeFailed as error:
        raise ModelLoadFailed(f"{model.path.name} cannot be computed: {error.sentence}", _WAY_OUT) from error
    if np.isnan(context.logits(row)).any():
        raise ModelLoadFailed(f"{model.path.name} computes no numbers: its weights are damaged.", _WAY_OUT)
    context.clear()


def _loop(
    model: Model, context: Context, cells: Cells, keeper: KnowledgeKeeper, context_tokens: int, folder: Path
) -> StepLoop:
    costs = PassCosts()
    return StepLoop(
        model,
        context,
        cells,
        keeper,
        make_drafter=partial(PromptLookup, costs=costs),
        make_beams=Beams,
        note_pass=costs.note,
        context_tokens=context_tokens,
        swap_room=partial(room_now, folder),
    )
