"""Every byte of a placement under its owner in the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core import Span, Tier
from engine.memory.terms import Filling, Frame, Terms

# What layers with recurrent states keep of a sequence.
STATES = "states of sequences"
_CELLS = " cells"


def cells_name(num_cells: int) -> str:
    """Returns what the span of a context's cells is called."""
    return f"{num_cells:,}{_CELLS}"


def is_of_context(span: Span) -> bool:
    """Returns whether a span is a context's: its cells, the states of its sequences, or its buffers."""
    return span.owner == "workspace" or (span.owner == "kv" and (span.what == STATES or span.what.endswith(_CELLS)))


def spans_of(
    terms: Terms, frame: Frame, filling: Filling, weight_ram_bytes: int, kv_disk_bytes: int
) -> tuple[Span, ...]:
    """Returns what the placement takes in each tier; `weight_ram_bytes` are all weights in memory with the ring."""
    listed = (
        *terms.demand.fixed,
        *_on_device(terms, frame),
        *_in_memory(terms, frame, filling, weight_ram_bytes),
        *_on_disk(terms, frame, filling, kv_disk_bytes),
    )
    return tuple(span for span in listed if span.num_bytes)


def sum_of(spans: tuple[Span, ...], tier: Tier) -> int:
    """Returns bytes of all owners in one tier."""
    return sum(span.num_bytes for span in spans if span.tier == tier)


def _on_device(terms: Terms, frame: Frame) -> Iterator[Span]:
    on_device = terms.on_device(frame)
    if frame.n_gpu_layers:
        first = terms.shape.num_layers - on_device
        words = f"layers {first}–{terms.shape.num_layers - 1}"
        yield Span("weights", words, "gpu", terms.device_layer_bytes(frame))
        yield Span("weights", "output head", "gpu", terms.shape.head_bytes if terms.has_head(frame) else 0)
        yield Span("kv", cells_name(frame.num_cells), "gpu", terms.device_cell_bytes(frame) * frame.num_cells)
        yield Span("kv", STATES, "gpu", terms.device_state_bytes(frame))
        yield Span("workspace", "compute buffer", "gpu", terms.workspace_gpu_bytes(frame))
    if frame.embedder_on_gpu:
        yield Span("embedder", "embedding model", "gpu", terms.demand.embedder_bytes)


def _in_memory(terms: Terms, frame: Frame, filling: Filling, weight_bytes: int) -> Iterator[Span]:
    ring = filling.ring_slots * terms.spread(frame).slot_bytes if filling.num_streamed else 0
    edges = terms.edge_bytes(frame, is_streaming=bool(filling.num_streamed))
    if filling.is_mapped:
        yield Span("weights", "what fits of the layers", "ram", weight_bytes)
    else:
        yield Span("weights", "embeddings and output head", "ram", edges)
        yield Span("weights", "layers in memory", "ram", weight_bytes - edges - ring)
        yield Span("weights", f"{filling.ring_slots} slots of the ring", "ram", ring, "streaming")
    yield Span("kv", cells_name(frame.num_cells), "ram", terms.ram_cell_bytes(frame) * frame.num_cells)
    yield Span("kv", STATES, "ram", terms.ram_state_bytes(frame))
    yield Span("kv", "what was read, kept in memory", "ram", filling.tree_bytes)
    yield Span("workspace", "compute buffer and logits", "ram", terms.workspace_ram_bytes(frame))
    yield Span("index", "partitions in memory", "ram", filling.index_bytes)
    if not frame.embedder_on_gpu:
        yield Span("embedder", "embedding model", "ram", terms.demand.embedder_bytes)


def _on_disk(terms: Terms, frame: Frame, filling: Filling, kv_disk_bytes: int) -> Iterator[Span]:
    streamed = terms.streamed_bytes(frame, filling)
    yield Span("weights", "streamed layers of the model's file", "disk", streamed, "streaming")
    yield Span("weights", "the rest of the model's file", "disk", terms.shape.file_bytes - streamed)
    yield Span("weights", "a copy in the processor's order", "disk", terms.packed_bytes(frame, filling))
    yield Span("kv", "what was read, kept on disk", "disk", kv_disk_bytes)
