"""Snapshots as an engine tells them while a model streams, an index comes into memory and answers grow: a script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core import SpanState
from engine.protocol import Decision, MemoryReply, Span, Tier, TierSnapshot

MIB, GIB = 2**20, 2**30
_STARTED_AT = 1_700_000_000.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the script plays on: the last `gpu_layers` are on a card, every third of the others is streamed."""

    num_layers: int = 28
    gpu_layers: int = 10
    num_partitions: int = 24
    layer_bytes: int = 61 * MIB
    partition_bytes: int = 48 * MIB
    gpu_capacity_bytes: int = 2 * GIB
    ram_capacity_bytes: int = 8 * GIB
    disk_capacity_bytes: int = 480 * GIB
    num_cells: int = 8192

    def is_streamed(self, layer: int) -> bool:
        return layer < self.num_layers - self.gpu_layers and layer % 3 == 2


LARGE = Machine(num_layers=80, gpu_layers=20, num_partitions=200, ram_capacity_bytes=24 * GIB)


def snapshots(machine: Machine = Machine()) -> Iterator[MemoryReply]:
    """One snapshot after the other, without end; the ring turns, partitions come and go, cells fill."""
    for tick in itertools.count():
        yield snapshot(machine, tick)


def snapshot(machine: Machine, tick: int) -> MemoryReply:
    """The picture after so many ticks."""
    used = min(machine.num_cells - 512, 300 + 45 * tick)
    tiers = [_ram(machine, tick), _disk(machine)]
    if machine.gpu_layers:
        tiers.insert(0, _gpu(machine))
    speed = 0.55 + 0.45 * math.sin(tick / 9)
    counters = {
        "tokens_per_s": 3.4 + 1.8 * speed,
        "disk_read_bytes_per_s": (900 + 700 * speed) * MIB,
        "streamed_bytes_per_s": (820 + 640 * speed) * MIB,
        "kv_found_in_cells_ratio": 0.31 + 0.1 * speed,
        "kv_found_in_memory_ratio": 0.22,
        "partitions_resident_ratio": _resident(machine, tick) / machine.num_partitions,
        "kv_cells_used": float(used),
        "kv_cells_free": float(machine.num_cells - used),
        "kv_cells_of:first": float(used // 2),
        "kv_cells_of:second": float(used // 3),
        "questions_waiting": 3.0,
        "answers_running": 4.0,
        "streamed_layers": float(sum(machine.is_streamed(layer) for layer in range(machine.num_layers))),
        "ring_slots": 3.0,
        "partitions": float(machine.num_partitions),
        "partitions_resident": float(_resident(machine, tick)),
    }
    return MemoryReply(
        tiers=tuple(tiers),
        counters=counters,
        decisions=("10 of 28 layers on the GPU, 12 pinned in memory, 6 streamed: about 4 tokens/s.",),
        history=_history(tick),
    )


def _gpu(machine: Machine) -> TierSnapshot:
    first = machine.num_layers - machine.gpu_layers
    spans = [_layer(machine, layer, "gpu", "resident") for layer in range(first, machine.num_layers)]
    spans += [
        Span("kv", f"{machine.num_cells:,} cells", "gpu", 300 * MIB),
        Span("workspace", "compute buffer of Vulkan0", "gpu", 160 * MIB),
    ]
    return TierSnapshot(
        tier="gpu", name="GeForce GTX 1050", capacity_bytes=machine.gpu_capacity_bytes, other_bytes=240 * MIB,
        spans=tuple(spans), budget_bytes=machine.gpu_capacity_bytes - 512 * MIB,
    )  # fmt: skip


def _ram(machine: Machine, tick: int) -> TierSnapshot:
    host = range(machine.num_layers - machine.gpu_layers)
    spans = [_layer(machine, layer, "ram", _pinned_state(layer, tick)) for layer in host
             if not machine.is_streamed(layer)]  # fmt: skip
    spans += [Span("weights", f"slot {number}", "ram", machine.layer_bytes, "streaming") for number in range(3)]
    spans += [
        Span("weights", "token embeddings", "ram", 120 * MIB),
        Span("kv", f"{machine.num_cells:,} cells", "ram", 540 * MIB),
        Span("kv", "what was read, kept in memory", "ram", 210 * MIB),
        Span("embedder", "all-MiniLM-L6-v2", "ram", 96 * MIB),
        Span("index", "LanceDB's caches", "ram", 64 * MIB),
        Span("workspace", "compute buffer of CPU", "ram", 150 * MIB),
        Span("runtime", "interpreter and libraries", "ram", 430 * MIB),
    ]
    spans += [
        Span("index", f"partition {number}", "ram", machine.partition_bytes,
             "loading" if number == _resident(machine, tick) - 1 and tick % 4 < 2 else "resident")
        for number in range(_resident(machine, tick))
    ]  # fmt: skip
    return TierSnapshot(
        tier="ram", name="Memory", capacity_bytes=machine.ram_capacity_bytes,
        other_bytes=machine.ram_capacity_bytes // 5, spans=tuple(spans),
        budget_bytes=machine.ram_capacity_bytes * 2 // 3,
        given_up=("4 partitions of the index are read in searches.",) if tick > 40 else (),
    )  # fmt: skip


def _disk(machine: Machine) -> TierSnapshot:
    streamed = [layer for layer in range(machine.num_layers) if machine.is_streamed(layer)]
    spans = (
        *(_layer(machine, layer, "disk", "streaming") for layer in streamed),
        Span("index", "chunks, vectors and word index", "disk", 900 * MIB),
        Span("index", "partitions", "disk", machine.num_partitions * machine.partition_bytes),
        Span("kv", "what was read, kept on disk", "disk", 700 * MIB),
    )
    return TierSnapshot(
        tier="disk", name="Disk", capacity_bytes=machine.disk_capacity_bytes, other_bytes=210 * GIB, spans=spans,
        budget_bytes=40 * GIB,
    )  # fmt: skip


def _layer(machine: Machine, layer: int, tier: Tier, state: SpanState) -> Span:
    return Span("weights", f"layer {layer}", tier, machine.layer_bytes, state)


def _pinned_state(layer: int, tick: int) -> SpanState:
    """They are pinned one after the other, each once it has been read."""
    arrived = tick * 2
    return "resident" if layer < arrived else "loading"


def _resident(machine: Machine, tick: int) -> int:
    """They come one by one, and four leave when the third chat waits."""
    most = machine.num_partitions * 3 // 4
    return max(1, min(most, 4 + tick) - (4 if tick > 40 else 0))


def _history(tick: int) -> tuple[Decision, ...]:
    script = (
        (0, "placement", "ram", "10 of 28 layers on the GPU, 12 pinned in memory, 6 streamed."),
        (20, "placement", "ram", "2 chats waiting: answer slots 1 → 2."),
        (40, "given_up", "ram", "3 chats waiting: slots 2 → 4, released 4 partitions."),
        (60, "budget", "ram", "Another program took 600 MiB of memory: the budget is 5.3 GiB for now."),
    )
    told = [
        Decision(at=_STARTED_AT + at / 10, sentence=sentence, kind=kind, tier=tier)
        for at, kind, tier, sentence in script
        if at <= tick
    ]
    return tuple(reversed(told))
