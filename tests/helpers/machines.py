"""Machines and models as headers and probes tell of them: for plans that need neither."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from engine.core import ModelShape, Span
from engine.memory.cost_model import Homes, decode_work
from engine.memory.demand import Backlog, Budgets, Demand, Wishes
from engine.memory.hardware import Device, Hardware
from engine.memory.measured import Measured, Point, Split
from engine.memory.profile import Profile

MIB, GIB = 2**20, 2**30
# 4-bit weights with their scales, and those of a head that is kept better.
_Q4, _Q6 = 4.85 / 8, 6.56 / 8


def llama_shape(
    name: str,
    layers: int,
    width: int,
    feed_forward: int,
    kv_width: int,
    vocabulary: int,
    *,
    is_tied: bool = False,
    context: int = 131_072,
) -> ModelShape:
    """The shape that the header of a Q4_K_M file of such a model tells."""
    parameters = width * width * 2 + width * kv_width * 2 + 3 * width * feed_forward
    layer_bytes = int(parameters * _Q4)
    embeddings = int(vocabulary * width * (_Q6 if is_tied else _Q4))
    output = 0 if is_tied else int(vocabulary * width * _Q6)
    return ModelShape(
        name=name,
        architecture="llama",
        trained_context=context,
        layer_bytes=(layer_bytes,) * layers,
        other_bytes=embeddings + output,
        output_bytes=output,
        kv_cell_bytes=(2 * kv_width * 2,) * layers,
        vocabulary_size=vocabulary,
        file_bytes=layer_bytes * layers + embeddings + output + 8 * MIB,
        width=width,
    )


# Llama 3.2 3B, Llama 3.1 8B, Qwen 2.5 32B and Llama 3.3 70B.
MODELS = (
    llama_shape("3B", 28, 3072, 8192, 1024, 128_256, is_tied=True),
    llama_shape("8B", 32, 4096, 14_336, 1024, 128_256),
    llama_shape("32B", 64, 5120, 27_648, 1024, 152_064),
    llama_shape("70B", 80, 8192, 28_672, 1024, 128_256),
)
# What a desktop computer of the middle has: two channels of memory, eight cores, an NVMe disk, a card on PCIe 4.
DESKTOP = Profile(
    ram_bytes_per_s=50e9,
    processor_rate=4e11,
    device_bytes_per_s=350e9,
    device_rate=1.2e13,
    host_to_device_bytes_per_s=20e9,
    pageable_to_device_bytes_per_s=8e9,
    disk_bytes_per_s=(2.5e9, 4e9, 5e9),
    is_measured=True,
)


def machine(gpu_gib: float, ram_gib: float, *, free_share: float = 0.85, process_bytes: int = 300 * MIB) -> Hardware:
    """A computer with so much memory; `gpu_gib` 0 is none."""
    gpu_bytes = int(gpu_gib * GIB)
    devices = (Device("GPU0", f"{gpu_gib:g} GB card", gpu_bytes, int(gpu_bytes * 0.94)),) if gpu_bytes else ()
    ram_bytes = int(ram_gib * GIB)
    return Hardware(ram_bytes, int(ram_bytes * free_share), 1000 * GIB, 400 * GIB, process_bytes, devices)


def sharing(hardware: Hardware) -> Hardware:
    """The same, its devices' memory being the machine's, as that of integrated graphics is."""
    return replace(hardware, devices=tuple(replace(device, shares_ram=True) for device in hardware.devices))


def wanted(shape: ModelShape, **changes: object) -> Demand:
    """What a chat over a library of a few hundred thousand passages asks for."""
    values: dict[str, object] = {
        "shape": shape,
        "context_tokens": min(8192, shape.trained_context),
        "parallel_answers": 4,
        "fixed": (
            Span("runtime", "interpreter and libraries", "ram", 350 * MIB),
            Span("index", "LanceDB's caches", "ram", 192 * MIB),
            Span("embedder", "all-MiniLM-L6-v2", "ram", 120 * MIB),
            Span("index", "chunks, vectors and word index", "disk", 2 * GIB),
        ),
        "index_bytes": 600 * MIB,
        "partition_bytes": 40 * MIB,
        "num_partitions": 16,
        "device_reserve_bytes": 512 * MIB,
    }
    return Demand(**{**values, **changes})  # type: ignore[arg-type]


def random_shape(chance: random.Random) -> ModelShape:
    """Layers of different sizes, as files with mixed formats have them."""
    layers, base = chance.randint(1, 96), chance.randint(1, 600) * MIB
    sizes = tuple(int(base * chance.choice((1.0, 1.0, 1.12, 1.25))) for _ in range(layers))
    output, embeddings = chance.choice((0, base)), chance.randint(1, 1200) * MIB
    is_mixture = chance.random() < 0.2
    # Of what few models have.
    aside = random.Random(base + layers)
    return ModelShape(
        name="random",
        architecture="llama",
        trained_context=chance.choice((2048, 8192, 131_072)),
        layer_bytes=sizes,
        other_bytes=embeddings + output,
        output_bytes=output,
        kv_cell_bytes=tuple(chance.choice((1024, 2048, 4096)) for _ in range(layers)),
        vocabulary_size=chance.choice((32_000, 128_256, 256_000)),
        file_bytes=sum(sizes) + embeddings + output + MIB,
        expert_share=0.9 if is_mixture else 0.0,
        expert_use=chance.choice((0.06, 0.25)) if is_mixture else 1.0,
        width=chance.choice((0, 2048, 8192)),
        state_bytes=tuple(aside.choice((0, 0, 2 * MIB)) for _ in range(layers)) if aside.random() < 0.3 else (),
        row_bytes=embeddings // 2 if aside.random() < 0.1 else 0,
    )


def random_machine(chance: random.Random) -> Hardware:
    """Also such as nobody would buy."""
    gpu = chance.choice((0, 0, chance.uniform(0.5, 48)))
    return machine(gpu, chance.uniform(0.8, 96), free_share=chance.uniform(0.05, 0.98))


def random_profile(chance: random.Random) -> Profile:
    """Rates of processors, devices and disks between old and new; a device is mostly the faster one."""
    ram, rate = 10 ** chance.uniform(9.5, 11.2), 10 ** chance.uniform(10, 12)
    times = chance.choice((0.5, 3.0, 10.0, 20.0))
    disk = 10 ** chance.uniform(7.7, 10)
    return Profile(
        ram_bytes_per_s=ram,
        processor_rate=rate,
        device_bytes_per_s=ram * times,
        device_rate=rate * times * 3,
        host_to_device_bytes_per_s=10 ** chance.uniform(9, 10.7),
        pageable_to_device_bytes_per_s=10 ** chance.uniform(9, 10.3),
        disk_bytes_per_s=(disk, disk * 1.3, disk * 1.2),
        retrieval_load_s=chance.uniform(0.001, 0.05),
    )


def random_table(chance: random.Random, shape: ModelShape, profile: Profile) -> Measured:
    """Passes that took less or more than the rates expect, or could not be computed; some sizes, with some splits."""
    table, homes = Measured(), Homes(processor_bytes=sum(shape.layer_bytes))
    for _ in range(chance.randint(1, 12)):
        split = Split(chance.choice((0, 0, shape.num_layers)), chance.random() < 0.7)
        work = decode_work(homes._replace(is_repacked=split.is_repacked), 1, 0)
        seconds = None if chance.random() < 0.1 else profile.seconds(work) * 10 ** chance.uniform(-0.5, 0.5)
        kind = chance.choice(("write", "read"))
        table = table.with_point(Point(split, kind, 2 ** chance.randint(0, 10), work, seconds))
    return table


def random_backlog(chance: random.Random) -> Backlog:
    return Backlog(
        waiting=chance.choice((0, 0, 1, 3, 12, 60)),
        running=chance.choice((0, 1, 4)),
        prompt_tokens=chance.choice((64, 900, 3000)),
        answer_tokens=chance.choice((16, 256, 700)),
        cached_share=chance.choice((0.0, 0.0, 0.5, 0.95)),
        lengths=tuple(sorted(chance.choice((80, 900, 1500, 6000)) for _ in range(chance.choice((0, 1, 16))))),
    )


def random_demand(chance: random.Random, shape: ModelShape) -> Demand:
    """Wishes and budgets among what settings allow, and every owner that the ledger may have."""
    partitions = chance.choice((0, 1, 12, 300))
    partition_bytes = chance.randint(4, 64) * MIB
    fixed = tuple(
        Span(owner, "something", "ram", chance.randint(0, 200) * MIB)
        for owner in ("runtime", "index", "embedder", "reranker", "retrieval", "parsers")
    )
    return wanted(
        shape,
        context_tokens=min(shape.trained_context, chance.choice((1024, 8192, 32_768))),
        parallel_answers=chance.choice((1, 4, 16)),
        fixed=fixed,
        index_bytes=partitions * partition_bytes,
        partition_bytes=partition_bytes if partitions else 0,
        num_partitions=partitions,
        embedder_bytes=chance.choice((0, 0, 90 * MIB)),
        is_streamable=chance.random() < 0.8,
        wishes=_random_wishes(chance, shape.layer_bytes),
        mode=chance.choice(("resident", "resident", "on_disk")),
        is_packable=chance.random() < 0.5,
    )


def _random_wishes(chance: random.Random, layer_bytes: Sequence[int]) -> Wishes:
    def perhaps(value: int) -> int | None:
        return value if chance.random() < 0.2 else None

    return Wishes(
        n_gpu_layers=perhaps(chance.randint(0, len(layer_bytes) + 2)),
        kv_type=chance.choice((None, None, "f16", "q8_0")),
        n_ubatch=perhaps(chance.choice((64, 512))),
        kv_ram_bytes=perhaps(chance.randint(0, 2 * GIB)),
        kv_disk_bytes=perhaps(chance.randint(0, 50 * GIB)),
        index_bytes=perhaps(chance.randint(0, 2 * GIB)),
        kv_on_gpu=chance.choice((None, None, None, False)),
        may_lose=chance.random() < 0.3,
    )


def random_budgets(chance: random.Random) -> Budgets:
    def perhaps(gib: float) -> int | None:
        return int(chance.uniform(0.2, gib) * GIB) if chance.random() < 0.3 else None

    return Budgets(perhaps(24), perhaps(64), perhaps(500))
