"""A tier of memory as tiles: pure arithmetic from a snapshot to fractions of a lane."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.widgets.memory_scale import Scale, scale_for

if TYPE_CHECKING:
    from app.models.cell_use import CellUse
    from engine.protocol import Span, TierSnapshot

# A span's state, or "reserved" for room that is not used yet.
TileState = Literal["resident", "streaming", "loading", "evicting", "reserved"]

_LAYERS = re.compile(r"(?i)layers?\s+(\d+)\s*(?:[–-]|to)\s*(\d+)")
_LAYER = re.compile(r"(?i)\blayer\s+(\d+)")
_CELLS = re.compile(r"[\d,]+ cells$")
_NUMBERED = re.compile(r"(?i)\b(?:layer|partition|shard)\s+(\d+)")
# Narrower neighbours of one kind are merged, because a library has hundreds of shards.
TINY_PIXELS = 4

MODEL, KV, INDEX, EMBEDDER, KEPT, WAITING, SELF, OTHER = range(8)
KIND_NAMES: tuple[str, ...] = (
    str(QT_TRANSLATE_NOOP("memory", "Model layers")),
    str(QT_TRANSLATE_NOOP("memory", "Context (KV cells)")),
    str(QT_TRANSLATE_NOOP("memory", "Index")),
    str(QT_TRANSLATE_NOOP("memory", "Embedder")),
    str(QT_TRANSLATE_NOOP("memory", "Prompt cache")),
    str(QT_TRANSLATE_NOOP("memory", "Waiting models")),
    str(QT_TRANSLATE_NOOP("memory", "Ragdoll and buffers")),
    str(QT_TRANSLATE_NOOP("memory", "Everything else")),
)
# Ten snapshots a second hold the same hundreds of spans, of which only a few change.
_MAX_KNOWN = 4096
NUM_KINDS = len(KIND_NAMES)
# An owner belongs to the first kind that has one of these words in its name.
_WORDS = (
    (WAITING, ("pool", "spare")),
    (KV, ("kv", "cell", "sequence")),
    (KEPT, ("kept", "knowledge", "tree")),
    (EMBEDDER, ("embed", "reader", "rerank")),
    (INDEX, ("index", "partition", "shard", "lance", "library")),
    (MODEL, ("model", "weight", "layer", "compute", "generation", "ring", "stream")),
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A stretch of a lane: from `start` to `end` as fractions of it.

    `label` is what a wide tile shows ("12" for layer 12); `is_moving` covers streaming, loading and evicting.
    `num_parts` counts the spans or layers in it.
    """

    kind: int
    owner: str
    what: str
    label: str
    num_bytes: int
    state: TileState
    start: float = 0.0
    end: float = 0.0
    num_parts: int = 1

    @property
    def is_moving(self) -> bool:
        return self.state not in ("resident", "reserved")


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """Layers `first` to `last` of a model, as a span names them."""

    first: int
    last: int

    @property
    def num_layers(self) -> int:
        return self.last - self.first + 1


def tiles(tier: TierSnapshot, cells: CellUse | None = None, scale: Scale | None = None) -> tuple[Tile, ...]:
    """Returns the tier's spans as tiles from left to right, ordered by kind; what others hold ends the lane.

    Each layer of a run becomes a tile; cells are split by chat, and into those in use and the rest.
    """
    pieces = [tile for span in tier.spans for tile in _cells(_split(span), cells)]
    pieces.sort(key=_order)
    scale = scale or lane_scale(tier)
    placed = list(_placed(pieces, scale))
    if tier.other_bytes:
        start = max(scale.fraction(scale.capacity_bytes - tier.other_bytes), placed[-1].end if placed else 0.0)
        placed.append(Tile(OTHER, "", "", "", tier.other_bytes, "resident", start, 1.0))
    return tuple(placed)


def lane_scale(tier: TierSnapshot, previous: Scale | None = None) -> Scale:
    """Returns the scale of a tier's lane; it reaches further than the tier if more is held than there is."""
    held = sum(span.num_bytes for span in tier.spans)
    return scale_for(held, max(tier.capacity_bytes, held + tier.other_bytes), previous)


def merged(lane: Sequence[Tile], is_tiny: Callable[[Tile], bool], fewest: int = 2) -> tuple[Tile, ...]:
    """Returns the lane with at least `fewest` tiny neighbours of one kind and state merged into one tile."""
    return tuple(_merged(lane, is_tiny, fewest))


@lru_cache(_MAX_KNOWN)
def kind_of(owner: str, what: str = "") -> int:
    """Returns the kind of an owner by the words in its name; Ragdoll itself if there is none.

    For KV, `what` tells cells from what is kept outside them.
    """
    name = owner.lower()
    kind = next((kind for kind, words in _WORDS if any(word in name for word in words)), SELF)
    return KEPT if kind == KV and "kept" in what else kind


def kinds_shown(lanes: Sequence[Sequence[Tile]]) -> tuple[int, ...]:
    """Returns the kinds that occur, in the order of the legend."""
    return tuple(sorted({tile.kind for lane in lanes for tile in lane}))


@lru_cache(_MAX_KNOWN)
def layers_of(span: Span) -> LayerSpan | None:
    """Returns the model layers that a span holds; None for everything else."""
    if kind_of(span.owner, span.what) != MODEL:
        return None
    if run := _LAYERS.search(span.what):
        first, last = int(run[1]), int(run[2])
        return LayerSpan(first, max(first, last))
    one = _LAYER.search(span.what)
    return LayerSpan(int(one[1]), int(one[1])) if one else None


def _merged(lane: Sequence[Tile], is_tiny: Callable[[Tile], bool], fewest: int) -> Iterator[Tile]:
    for (_, _, are_tiny), run in groupby(lane, key=lambda tile: (tile.kind, tile.state, is_tiny(tile))):
        together = list(run)
        if not are_tiny or len(together) < fewest:
            yield from together
            continue
        first, last = together[0], together[-1]
        num_bytes = sum(tile.num_bytes for tile in together)
        yield replace(
            first, what="", label="", num_bytes=num_bytes, end=last.end, num_parts=sum(t.num_parts for t in together)
        )


@lru_cache(_MAX_KNOWN)
def _split(span: Span) -> tuple[Tile, ...]:
    whole = Tile(kind_of(span.owner, span.what), span.owner, span.what, span.what, span.num_bytes, span.state)
    if (layers := layers_of(span)) is None:
        return (whole,)
    each = span.num_bytes // layers.num_layers
    return tuple(
        replace(whole, label=str(layer), num_bytes=each) for layer in range(layers.first, layers.last + 1)
    )  # fmt: skip


def _cells(pieces: tuple[Tile, ...], use: CellUse | None) -> tuple[Tile, ...]:
    """Splits cells by chat, into other cells in use, and free ones; returns other tiles as they are."""
    whole = pieces[0]
    if whole.kind != KV or use is None or not _CELLS.search(whole.what):
        return pieces
    each = whole.num_bytes / use.num_cells
    chats = tuple(replace(whole, label=name, what=name, num_bytes=round(n * each)) for name, n in use.by_chat)
    left_bytes = round(use.used * each) - sum(tile.num_bytes for tile in chats)
    shared = replace(whole, label="" if chats else whole.label, num_bytes=max(0, left_bytes))
    rest = whole.num_bytes - shared.num_bytes - sum(tile.num_bytes for tile in chats)
    return (*chats, shared, replace(whole, label="", num_bytes=max(0, rest), state="reserved"))


@lru_cache(_MAX_KNOWN)
def _order(tile: Tile) -> tuple[int, int]:
    """Returns a sort key: kinds as in the legend, then numbers, so that a returning part gets its old place."""
    if tile.kind == MODEL and tile.label.isdigit():
        return (tile.kind, int(tile.label))
    numbered = _NUMBERED.search(tile.what)
    return (tile.kind, int(numbered[1]) if numbered else 1 << 30)


def _placed(pieces: Sequence[Tile], scale: Scale) -> Iterator[Tile]:
    start, left = 0, 0.0
    for tile in pieces:
        if not tile.num_bytes:
            continue
        start += tile.num_bytes
        right = scale.fraction(start)
        # Not with `replace`, which takes as long as everything else here together.
        yield Tile(tile.kind, tile.owner, tile.what, tile.label, tile.num_bytes, tile.state, left, right)
        left = right
