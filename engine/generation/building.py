"""Builds what answers, as it was planned: weights, context and cells, what keeps them, and the loop that uses them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import numpy as np

from engine.errors import DecodeFailed, ModelLoadFailed
from engine.generation.beam import Beams
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells
from engine.generation.context import Context, Stretch
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.fingerprint import model_fingerprint, root_key
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.load_plan import LoadPlan
from engine.generation.loaded import KEPT_CELLS_SHARE, LoadedModel
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases
from engine.generation.speaker import speaker_of
from engine.generation.step_loop import StepLoop
from engine.memory.ledger import Ledger
from engine.models.gguf import parts_of

_WAY_OUT = "Download it again, or choose another GGUF file."


def build(
    plan: LoadPlan, files: CacheFiles, ledger: Ledger, leases: ModelLeases, on_progress: Callable[[float], bool]
) -> LoadedModel:
    """Loads the model; on the generation thread, which owns what comes back.

    Args:
        plan: What it gets.
        files: Where what it reads is kept on the disk.
        ledger: Gets what is kept in memory.
        leases: Have the weights already, and get the context.
        on_progress: Told the share of the weights that is there; returning False gives the load up.

    Raises:
        ModelError: It could not be loaded; nothing is left of it but what `leases` hold.
    """
    with ExitStack() as undo:
        model = Model(parts_of(plan.path)[0], plan.placement.n_gpu_layers, on_progress)
        undo.callback(model.close)
        context = Context(model, plan.spec)
        undo.callback(context.close)
        _try_out(model, context)
        leases.take_context(plan.shape, plan.placement, context.num_cells, context.compute_bytes)
        cells = Cells(context.num_cells, context.num_sequences)
        root = root_key(plan.path, context.spec.kv_type, context.num_cells)
        # The beginning of one prompt is of no use to another where it cannot be had by itself.
        keeper = KnowledgeKeeper(root, context, cells, ledger, files) if model.can_share_prefixes else None
        if keeper is not None:
            undo.callback(keeper.abandon)
            keeper.set_budgets(int(cells.num_cells * KEPT_CELLS_SHARE), plan.room.ram_bytes, plan.room.disk_bytes)
        loop = _loop(model, context, cells, keeper)
        # Tokens stay what they are, in whatever format their keys and values are kept.
        fingerprint = model_fingerprint(plan.path)
        speaker = speaker_of(model, plan.shape.name, fingerprint, plan.room.context_tokens)
        undo.pop_all()
    reads_ahead = plan.reads_ahead(plan.settings)
    return LoadedModel(plan.shape, model, context, speaker, loop, keeper, files, reads_ahead)


def _try_out(model: Model, context: Context) -> None:
    """Computes one token, so that whatever is wrong shows before there is a question to answer."""
    try:
        (row,) = context.decode([Stretch(0, 0, (max(0, model.bos),), 1)])
    except DecodeFailed as error:
        raise ModelLoadFailed(f"{model.path.name} cannot be computed: {error.sentence}", _WAY_OUT) from error
    if np.isnan(context.logits(row)).any():
        raise ModelLoadFailed(f"{model.path.name} computes no numbers: its weights are damaged.", _WAY_OUT)
    context.clear()


def _loop(model: Model, context: Context, cells: Cells, keeper: KnowledgeKeeper | None) -> StepLoop:
    costs = PassCosts()
    return StepLoop(
        model,
        context,
        cells,
        keeper,
        make_drafter=partial(PromptLookup, costs=costs),
        make_beams=Beams,
        note_pass=costs.note,
    )
