"""The drafting duel on a model that does not fit into memory: each pass reads layers through the engine's own ring.

Imported, this module starts the memory-limited side; run, it is that side.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.core import ModelShape, SamplingParams
from engine.generation.model import Model
from engine.generation.weights.stream import LayerStream
from engine.memory.bandwidth import measured
from engine.memory.demand import Backlog, Budgets, Demand, Wishes
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.memory.terms import Frame, Terms
from engine.models.gguf import read_shape
from tests.bench import confined
from tests.bench.bench_model import plain_tokens
from tests.bench.confined import Group
from tests.bench.duel import N_UBATCH, NUM_CELLS, Pace, duel
from tests.bench.quoting import SEED, Library
from tests.bench.side_process import Limit, Said, SideProcess, group_of, serve
from tests.helpers.machines import machine

# Memory that passes still allocate after the start.
_SPARE_BYTES = 32 * 2**20
# The limit until then.
_PLENTY = 1 << 40
# A machine with ample memory; the budget is set separately.
_MACHINE_GIB = 64


def figures(file: Path, vocabulary: int, num_tokens: int, num_threads: int) -> dict[str, float]:
    """Returns the duel's figures from a process whose memory holds half of the model.

    Raises:
        CannotConfine: Memory cannot be limited here.
        PeerFailed: The process was killed or failed.
    """
    limit = Limit(_PLENTY, confined.find())
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        # A copy of its own, so that none of its pages are charged to another process.
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        confined.forget_pages(copy)
        settings = {
            "model": str(copy),
            "vocabulary": vocabulary,
            "num_tokens": num_tokens,
            "num_threads": num_threads,
        }
        with SideProcess.started("tests.bench.streamed_duel", settings, limit) as side:
            return side.ask(fights=True)


def placed(shape: ModelShape, num_bytes: int, profile: Profile, num_tokens: int) -> Placement:
    """Returns the planner's placement of streamed layers and ring, with `num_bytes` for weights."""
    demand = Demand(
        shape,
        NUM_CELLS,
        parallel_answers=1,
        least_cells=NUM_CELLS,
        wishes=Wishes(n_ubatch=N_UBATCH, kv_ram_bytes=0, kv_disk_bytes=0),
    )
    frame = Frame("f16", 1, NUM_CELLS, N_UBATCH, kv_on_gpu=True, embedder_on_gpu=False)
    # Adds what a context of this size takes, so that the planner gives `num_bytes` to the weights.
    budgets = Budgets(ram_bytes=num_bytes + Terms(demand).framed_ram_bytes(frame))
    backlog = Backlog(running=1, answer_tokens=num_tokens)
    return plan(machine(0, _MACHINE_GIB), profile, backlog, replace(demand, budgets=budgets))


def _prepared(settings: Said) -> Callable[[Said], Said]:
    return lambda asked: _fought(settings) if asked else {}


def _fought(settings: Said) -> dict[str, float]:
    """Has both sides write in this process."""
    path, group = Path(settings["model"]), group_of(settings)
    assert group is not None
    half, num_tokens = path.stat().st_size // 2, settings["num_tokens"]
    placement = placed(read_shape(path), half, measured(Profile(), path.parent), num_tokens)
    # Layers are read in their file layout: repacked ones would come from a copy, which speeds up both sides alike.
    model = Model(path, 0, lambda _: True, is_repacked=False)
    held_before = group.usage().held_bytes
    stream = LayerStream(
        model,
        path,
        placement.streamed_layers,
        max(1, placement.ring_slots),
        Ledger(),
        part=placement.pinned_part,
    )
    # The part of that half that is in memory already.
    there = max(0, group.usage().held_bytes - held_before)
    library = Library(plain_tokens(settings["vocabulary"]), SEED)
    given = SamplingParams(max_tokens=num_tokens, seed=SEED)
    recorded = library.quoting(num_tokens, num_passages=2)
    when_ready = partial(_be_bound, group, half - there)
    found = duel(model, [recorded], given, Pace(settings["num_threads"]), when_ready=when_ready, stream=stream)
    read_bytes = stream.counters().read_bytes
    stream.close()
    model.close()
    return {**found.figures, "streamed layers": len(placement.streamed_layers), "read GB": read_bytes / 1e9}


def _be_bound(group: Group, missing_bytes: int) -> None:
    """Limits memory to what is held now, plus room for `missing_bytes` of the model."""
    confined.limit(group, group.usage().held_bytes + missing_bytes + _SPARE_BYTES)


if __name__ == "__main__":
    serve(_prepared)
