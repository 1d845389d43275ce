"""What a tier of memory looks like as tiles: pure arithmetic from a snapshot to fractions and to a row of colours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from PySide6.QtCore import QT_TRANSLATE_NOOP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.protocol import Span, TierSnapshot

_LAYERS = re.compile(r"(?i)layers?\s+(\d+)\s*(?:[–-]|to)\s*(\d+)")
_LAYER = re.compile(r"(?i)layers?\s+(\d+)")
# Narrower tiles have no gap after them: they would be nothing but gap.
_MIN_GAPPED_PIXELS = 5
_STRIPE_PIXELS = 3
# Neighbours of one kind that are narrower say nothing one by one: a library has hundreds of shards.
TINY_PIXELS = 4

MODEL, KV, INDEX, EMBEDDER, KEPT, SELF, OTHER = range(7)
KIND_NAMES: tuple[str, ...] = (
    str(QT_TRANSLATE_NOOP("memory", "Model layers")),
    str(QT_TRANSLATE_NOOP("memory", "Context (KV cells)")),
    str(QT_TRANSLATE_NOOP("memory", "Index")),
    str(QT_TRANSLATE_NOOP("memory", "Embedder")),
    str(QT_TRANSLATE_NOOP("memory", "Read before, kept")),
    str(QT_TRANSLATE_NOOP("memory", "Ragdoll and work space")),
    str(QT_TRANSLATE_NOOP("memory", "Everything else")),
)
# An owner belongs to the first kind that has one of these words in its name.
_WORDS = (
    (KV, ("kv", "cell", "sequence")),
    (KEPT, ("kept", "knowledge")),
    (EMBEDDER, ("embed", "reader", "rerank")),
    (INDEX, ("index", "partition", "shard", "lance", "library")),
    (MODEL, ("model", "weight", "layer", "compute", "generation")),
)

GAP = 0
FREE = 1
_FIRST_KIND = 2
NUM_KINDS = len(KIND_NAMES)
# Two shades of each kind alternate from tile to tile, so that neighbours can be told apart.
NUM_COLOURS = _FIRST_KIND + 2 * NUM_KINDS


@dataclass(frozen=True, slots=True)
class Tile:
    """A stretch of a lane: from `start` to `end` as fractions of the tier's capacity.

    `label` is what a wide tile shows ("12" for layer 12); `is_moving` covers streaming, loading and evicting.
    `num_parts` counts the spans or layers in it.
    """

    kind: int
    owner: str
    what: str
    label: str
    num_bytes: int
    state: str
    start: float = 0.0
    end: float = 0.0
    num_parts: int = 1

    @property
    def is_moving(self) -> bool:
        return self.state != "resident"


def tiles(tier: TierSnapshot) -> tuple[Tile, ...]:
    """The tier's spans as tiles from left to right, ordered by kind; a run of model layers becomes a tile each."""
    pieces = [tile for span in tier.spans for tile in _split(span)]
    if tier.other_bytes:
        pieces.append(Tile(OTHER, "", "", "", tier.other_bytes, "resident"))
    pieces.sort(key=lambda tile: tile.kind)
    capacity = max(tier.capacity_bytes, sum(tile.num_bytes for tile in pieces), 1)
    return tuple(_placed(pieces, capacity))


def merged(lane: Sequence[Tile], is_tiny: Callable[[Tile], bool], fewest: int = 2) -> tuple[Tile, ...]:
    """The lane with neighbours of one kind and state that are all tiny as one tile, if they are at least `fewest`."""
    return tuple(_merged(lane, is_tiny, fewest))


def kind_of(owner: str, what: str = "") -> int:
    """The kind an owner's name tells of; whatever has no word for itself is Ragdoll itself.

    Of KV, `what` it holds tells apart what lies in the cells and what is kept outside them.
    """
    name = owner.lower()
    kind = next((kind for kind, words in _WORDS if any(word in name for word in words)), SELF)
    return KEPT if kind == KV and "kept" in what else kind


def kinds_shown(lanes: Sequence[Sequence[Tile]]) -> tuple[int, ...]:
    """The kinds that occur, in the order of the legend."""
    return tuple(sorted({tile.kind for lane in lanes for tile in lane}))


def colour_row(lane: Sequence[Tile], width: int) -> NDArray[np.uint8]:
    """A colour index per pixel, shape (width,): see GAP, FREE and `colour_index`; moving tiles are striped."""
    import numpy as np  # after the first paint: importing it takes longer than painting the window

    row = np.full(width, FREE, dtype=np.uint8)
    for _, run in groupby(lane, key=lambda tile: tile.kind):
        for position, tile in enumerate(run):
            left, right = round(tile.start * width), round(tile.end * width)
            row[left:right] = colour_index(tile.kind, position % 2)
            if tile.is_moving:
                stripes = (np.arange(left, right) // _STRIPE_PIXELS) % 2 == 1
                row[left:right][stripes] = FREE
            if right - left >= _MIN_GAPPED_PIXELS:
                row[right - 1] = GAP
    return row


def colour_index(kind: int, shade: int) -> int:
    return _FIRST_KIND + 2 * kind + shade


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


def _split(span: Span) -> Iterator[Tile]:
    kind = kind_of(span.owner, span.what)
    whole = Tile(kind, span.owner, span.what, "", span.num_bytes, span.state)
    run = _LAYERS.search(span.what) if kind == MODEL else None
    if run is None:
        one = _LAYER.search(span.what) if kind == MODEL else None
        yield replace(whole, label=one[1] if one else span.what)
        return
    first, last = int(run[1]), int(run[2])
    num_layers = max(1, last - first + 1)
    for layer in range(first, first + num_layers):
        yield replace(whole, label=str(layer), num_bytes=span.num_bytes // num_layers)


def _placed(pieces: Sequence[Tile], capacity: int) -> Iterator[Tile]:
    start = 0
    for tile in pieces:
        yield replace(tile, start=start / capacity, end=(start + tile.num_bytes) / capacity)
        start += tile.num_bytes
