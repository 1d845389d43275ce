"""Which pages of a model's files belong to which layer: arithmetic over the tensor tables, before anything is mapped.

A layer is the list of its tensors' bytes, not the span from the first to the last. Pages that it shares with its
neighbours are its edges; the rest can be moved without touching anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from types import MappingProxyType

from engine.errors import NotStreamable
from engine.models.fit import MOST_STRETCHES, picks_experts
from engine.models.gguf import TensorExtent, layer_of

EMBEDDINGS, OUTPUT = "token_embd.weight", "output.weight"
# A layer's number, or the name of a tensor that belongs to none.
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
    """Pages by what lies in them; `edges` are single pages with bytes of several, or with an end of one.

    `layers` has an entry for every layer, empty where it lies on a device. `pinned` are tensors of no layer that each
    pass reads as a whole, `scattered` those of which it reads a few rows.
    """

    layers: tuple[tuple[Pages, ...], ...]
    pinned: Mapping[str, tuple[Pages, ...]]
    scattered: Mapping[str, tuple[Pages, ...]]
    edges: tuple[Pages, ...]

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    def layer_bytes(self, layer: int) -> int:
        return sum(pages.num_bytes for pages in self.layers[layer])


@dataclass(frozen=True, slots=True)
class _Run:
    """Tensors of one layer, or of none, side by side in a file."""

    label: Label
    part: int
    start: int
    end: int


def layout_of(
    tables: Sequence[Sequence[TensorExtent]],
    num_layers: int,
    in_memory: Collection[int],
    is_output_in_memory: bool,
    page_bytes: int,
) -> Layout:
    """Divides the files of a model into pages.

    Args:
        tables: The tensors of each file.
        num_layers: Of the model.
        in_memory: Layers whose weights the processor reads; the others lie on a device.
        is_output_in_memory: Whether the output head does as well.
        page_bytes: What the system maps at a time.

    Raises:
        NotStreamable: The tensors of layers lie between each other in a file, or some over others; or most of a layer
            is not needed at each pass.
    """
    if picks_experts(tables):
        raise NotStreamable(
            "Of each layer of this model a token needs a few experts, which the system reads by itself."
        )
    runs = [run for part, table in enumerate(tables) for run in _runs(part, table)]
    _require_apart(runs)
    names = {run.label for run in runs}
    reads_all_embeddings = OUTPUT not in names and is_output_in_memory

    def is_needed(run: _Run) -> bool:
        if isinstance(run.label, int):
            return run.label in in_memory
        return is_output_in_memory or not run.label.startswith("output")

    runs = [run for run in runs if is_needed(run)]
    inner: dict[Label, list[Pages]] = {}
    for run in runs:
        pages = _whole_pages(run, page_bytes)
        inner.setdefault(run.label, []).extend([pages] if pages.num_bytes > 0 else [])
    others = {label: tuple(pages) for label, pages in inner.items() if isinstance(label, str)}
    is_scattered = {EMBEDDINGS} if not reads_all_embeddings else set[str]()
    return Layout(
        layers=tuple(tuple(inner.get(layer, ())) for layer in range(num_layers)),
        pinned=MappingProxyType({name: pages for name, pages in others.items() if name not in is_scattered}),
        scattered=MappingProxyType({name: pages for name, pages in others.items() if name in is_scattered}),
        edges=tuple(_edges(runs, page_bytes)),
    )


def _label(name: str) -> Label:
    layer = layer_of(name)
    return name if layer is None else layer


def _runs(part: int, table: Sequence[TensorExtent]) -> Iterator[_Run]:
    in_order = sorted((tensor for tensor in table if tensor.num_bytes), key=lambda tensor: tensor.offset)
    for before, behind in pairwise(in_order):
        if before.offset + before.num_bytes > behind.offset:
            raise NotStreamable(f"The tensors {before.name} and {behind.name} of this model share bytes.")
    for label, group in groupby(in_order, key=lambda tensor: _label(tensor.name)):
        tensors = list(group)
        yield _Run(label, part, tensors[0].offset, tensors[-1].offset + tensors[-1].num_bytes)


def _require_apart(runs: Sequence[_Run]) -> None:
    """A layer may be cut by the end of a file, or have a few tensors elsewhere; not each of its own."""
    for (_, label), count in Counter((run.part, run.label) for run in runs).items():
        if isinstance(label, int) and count > MOST_STRETCHES:
            raise NotStreamable("The layers of this model lie between each other in its file.")


def _whole_pages(run: _Run, page_bytes: int) -> Pages:
    start = -(-run.start // page_bytes) * page_bytes
    return Pages(run.part, start, max(start, run.end // page_bytes * page_bytes))


def _edges(runs: Sequence[_Run], page_bytes: int) -> Iterator[Pages]:
    cut = {(run.part, at // page_bytes) for run in runs for at in (run.start, run.end) if at % page_bytes}
    for part, page in sorted(cut):
        yield Pages(part, page * page_bytes, (page + 1) * page_bytes)
