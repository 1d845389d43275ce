"""Which pages of a model's files belong to which stage: arithmetic over the tensor tables, before anything is mapped.

A stage is the list of its tensors' bytes, not the span from the first to the last. Pages that it shares with its
neighbours are its edges; the rest can be moved without touching anything else. Tensors that llama.cpp has copied into
the processor's order lie in another file than the others; of these, small ones are not worth reading again.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from types import MappingProxyType

from engine.errors import NotStreamable
from engine.generation.weights.stages import Stages
from engine.models.fit import MOST_STRETCHES, picks_experts
from engine.models.gguf import READ_BY_ROW, TensorExtent, layer_of

EMBEDDINGS, OUTPUT, UNNAMED = "token_embd.weight", "output.weight", "without a name"
# Norms and biases of all layers together are smaller than one slot.
SMALL_BYTES = 2**20
# A stage's number, or the name of a tensor that is read or kept by itself.
Label = int | str


@dataclass(frozen=True, slots=True)
class Pages:
    """The bytes `start`…`end` of one of a model's files, whole pages."""

    part: int
    start: int
    end: int

    @property
    def num_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Layout:
    """Pages by what lies in them; `edges` are single pages with bytes of several stages, or with an end of one.

    `stages` has an entry for every stage, empty where its layer lies on a device; `layers` are the stages of each.
    `pinned` are tensors of no layer that each pass reads as a whole, `scattered` those of which it reads a few rows.
    """

    stages: tuple[tuple[Pages, ...], ...]
    layers: tuple[range, ...]
    pinned: Mapping[str, tuple[Pages, ...]]
    scattered: Mapping[str, tuple[Pages, ...]]
    edges: tuple[Pages, ...]

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    def stage_bytes(self, stage: int) -> int:
        return sum(pages.num_bytes for pages in self.stages[stage])

    def layer_bytes(self, layer: int) -> int:
        return sum(self.stage_bytes(stage) for stage in self.layers[layer])


@dataclass(frozen=True, slots=True)
class _Run:
    """Tensors of one stage, or of no layer, side by side in a file."""

    label: Label
    part: int
    start: int
    end: int


def layout_of(
    tables: Sequence[Sequence[TensorExtent]],
    stages: Stages,
    in_memory: Collection[int],
    is_output_in_memory: bool,
    page_bytes: int,
    copied: Sequence[TensorExtent] = (),
) -> Layout:
    """Divides the files of a model into pages.

    Args:
        tables: The tensors of each file.
        stages: The model's layers, and the stages that they divide into.
        in_memory: Layers whose weights the processor reads; the others lie on a device.
        is_output_in_memory: Whether the processor reads the output head as well.
        page_bytes: The size of a page of the system.
        copied: Tensors that are read from one more file, which comes after the others (`copied_table`).

    Raises:
        NotStreamable: The tensors of layers are interleaved in a file, or overlap; or most of a layer is not needed at
            each pass.
    """
    if picks_experts(tables):
        raise NotStreamable(
            "Of each layer of this model a token needs a few experts, which the system reads by itself."
        )
    for table in tables:
        _require_apart(table)
    copied_names = frozenset(tensor.name for tensor in copied)
    label_of = _labels(stages, in_memory, copied_names, is_output_in_memory=is_output_in_memory)
    runs = [run for part, table in enumerate(tables) for run in _runs(part, table, label_of)]
    runs += _runs(len(tables), copied, lambda tensor: tensor.name if (of := stages.of(tensor.name)) is None else of)
    pages_of = _pages_by_label(runs, page_bytes)
    others = {label: pages for label, pages in pages_of.items() if isinstance(label, str)}
    has_output_head = any(tensor.name == OUTPUT for table in (*tables, copied) for tensor in table)
    reads_all_embeddings = is_output_in_memory and not has_output_head
    is_scattered = READ_BY_ROW if reads_all_embeddings else READ_BY_ROW | {EMBEDDINGS}
    return Layout(
        stages=tuple(pages_of.get(stage, ()) for stage in range(stages.num_stages)),
        layers=stages.layers,
        pinned=MappingProxyType({name: pages for name, pages in others.items() if name not in is_scattered}),
        scattered=MappingProxyType({name: pages for name, pages in others.items() if name in is_scattered}),
        edges=tuple(_edges(runs, page_bytes)),
    )


def _labels(
    stages: Stages, in_memory: Collection[int], copied_names: Collection[str], *, is_output_in_memory: bool
) -> Callable[[TensorExtent], Label | None]:
    """Labels the tensors of the model's own files; None where a tensor is not needed from there."""
    elsewhere = frozenset(copied_names) - {EMBEDDINGS}

    def is_needed(tensor: TensorExtent, layer: int | None) -> bool:
        if tensor.name in elsewhere:
            return False
        if layer is None:
            return is_output_in_memory or not _is_of_head(tensor)
        return layer in in_memory

    def label_of(tensor: TensorExtent) -> Label | None:
        layer = layer_of(tensor.name)
        if not is_needed(tensor, layer):
            return None
        # With a copy of the large ones, small tensors are not worth reading again.
        is_kept = layer is None or (copied_names and tensor.num_bytes < SMALL_BYTES)
        return tensor.name if is_kept else stages.of(tensor.name)

    return label_of


def _pages_by_label(runs: Sequence[_Run], page_bytes: int) -> dict[Label, tuple[Pages, ...]]:
    """The whole pages of all runs, by what lies in them; empty where a run fills no page."""
    found: dict[Label, tuple[Pages, ...]] = {}
    for run in runs:
        pages = _whole_pages(run, page_bytes)
        found[run.label] = (*found.get(run.label, ()), *([pages] if pages.num_bytes > 0 else []))
    return found


def copied_table(
    tables: Sequence[Sequence[TensorExtent]], addresses: Mapping[str, int], start: int, end: int
) -> tuple[TensorExtent, ...]:
    """The tensors between two addresses, in bytes from the first of them; one that lies across a boundary is cut.

    A range without a name is taken for something else that a pass reads: embeddings that are also the output head have
    one name and lie in two places.

    Args:
        tables: The tensors of each file.
        addresses: The addresses of tensors, by their names.
        start: The first address that counts.
        end: The first address after it that does not.
    """
    found = []
    sizes = {tensor.name: tensor.num_bytes for table in tables for tensor in table}
    for tensor in (tensor for table in tables for tensor in table if tensor.name in addresses):
        first = max(start, addresses[tensor.name])
        num_bytes = min(end, addresses[tensor.name] + tensor.num_bytes) - first
        if num_bytes > 0:
            name = OUTPUT if tensor.name == EMBEDDINGS else tensor.name
            found.append(TensorExtent(name, first - start, num_bytes))
    at = 0
    for tensor in (*_in_order(found), TensorExtent("", end - start, 0)):
        if (gap := tensor.offset - at) >= mmap.PAGESIZE:
            is_head = OUTPUT not in sizes and gap > sizes.get(EMBEDDINGS, 0) - 2 * mmap.PAGESIZE
            found.append(TensorExtent(OUTPUT if is_head else UNNAMED, at, gap))
        at = tensor.offset + tensor.num_bytes
    return tuple(_in_order(found))


def _is_of_head(tensor: TensorExtent) -> bool:
    return tensor.name.startswith("output")


def _runs(part: int, table: Sequence[TensorExtent], label_of: Callable[[TensorExtent], Label | None]) -> Iterator[_Run]:
    in_order = _in_order(table)
    for before, behind in pairwise(in_order):
        if before.offset + before.num_bytes > behind.offset:
            raise NotStreamable(f"The tensors {before.name} and {behind.name} of this model share bytes.")
    for label, group in groupby(in_order, key=label_of):
        tensors = list(group)
        if label is not None:
            yield _Run(label, part, tensors[0].offset, tensors[-1].offset + tensors[-1].num_bytes)


def _in_order(table: Sequence[TensorExtent]) -> list[TensorExtent]:
    return sorted((tensor for tensor in table if tensor.num_bytes), key=lambda tensor: tensor.offset)


def _require_apart(table: Sequence[TensorExtent]) -> None:
    """A layer may be cut by the end of a file, or have a few tensors elsewhere, but not in a place of its own each."""
    stretches = Counter(layer for layer, _ in groupby(layer_of(tensor.name) for tensor in _in_order(table)))
    if any(layer is not None and count > MOST_STRETCHES for layer, count in stretches.items()):
        raise NotStreamable("The layers of this model lie between each other in its file.")


def _whole_pages(run: _Run, page_bytes: int) -> Pages:
    start = -(-run.start // page_bytes) * page_bytes
    return Pages(run.part, start, max(start, run.end // page_bytes * page_bytes))


def _edges(runs: Sequence[_Run], page_bytes: int) -> Iterator[Pages]:
    cut = {(run.part, at // page_bytes) for run in runs for at in (run.start, run.end) if at % page_bytes}
    for part, page in sorted(cut):
        yield Pages(part, page * page_bytes, (page + 1) * page_bytes)
