"""Where each layer of the model lives: pure, from a snapshot's spans to one home per layer by index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QCoreApplication

from app.sentences import listed
from app.widgets.figures import bytes_text, count_text
from app.widgets.memory_tiles import TileState, layers_of

if TYPE_CHECKING:
    from engine.protocol import Span, Tier, TierSnapshot

Home = Literal["gpu", "pinned", "mapped", "streamed", "loading", "evicting"]
HOMES: tuple[Home, ...] = ("gpu", "pinned", "mapped", "streamed", "loading", "evicting")
# The most telling first: a transfer before a place, and a place in a faster tier before the source on the disk.
_RANKS: tuple[Home, ...] = ("loading", "evicting", "streamed", "gpu", "pinned", "mapped")
_BY_STATE: dict[TileState, Home] = {"loading": "loading", "evicting": "evicting", "streaming": "streamed"}
# As for tiles: most spans are the same as in the previous snapshot.
_MAX_KNOWN = 1024
_STATES = {home: state for state, home in _BY_STATE.items()}
_BY_TIER: dict[Tier, Home] = {"gpu": "gpu", "ram": "pinned", "disk": "streamed"}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the model: its index, where it is, and its bytes there."""

    index: int
    home: Home
    num_bytes: int


def layers(tiers: Sequence[TierSnapshot]) -> tuple[Layer, ...]:
    """Returns all layers that any span names, by index; for one that is in several tiers, the most telling home.

    A streamed layer's file is on the disk all the time; in memory it takes a slot of the ring while it is computed.
    """
    found: dict[int, tuple[int, Layer]] = {}
    for tier in tiers:
        for span in tier.spans:
            for layer in _of_span(span):
                rank = _rank(span, layer.home)
                if layer.index not in found or rank < found[layer.index][0]:
                    found[layer.index] = (rank, layer)
    return tuple(found[index][1] for index in sorted(found))


def home_name(home: Home) -> str:
    names = {
        "gpu": QCoreApplication.translate("memory", "on the GPU"),
        "pinned": QCoreApplication.translate("memory", "pinned in memory"),
        "mapped": QCoreApplication.translate("memory", "memory-mapped"),
        "streamed": QCoreApplication.translate("memory", "streamed from disk"),
        "loading": QCoreApplication.translate("memory", "being read"),
        "evicting": QCoreApplication.translate("memory", "leaving"),
    }
    return names[home]


def letter_of(home: Home) -> str:
    """Returns the letter on a layer, in addition to its colour and pattern."""
    letters = {"gpu": "G", "pinned": "P", "mapped": "M", "streamed": "S", "loading": "↓", "evicting": "↑"}
    return letters[home]


def state_of(home: Home) -> TileState:
    """Returns the state whose pattern a home has."""
    return _STATES.get(home, "resident")


def layer_sentence(layer: Layer) -> str:
    """Returns `Layer 12: streamed from disk, 61 MiB`."""
    words = QCoreApplication.translate("memory", "Layer %1: %2").replace("%1", str(layer.index))
    told = (home_name(layer.home), bytes_text(layer.num_bytes) if layer.num_bytes else "")
    return words.replace("%2", listed(told))


def homes_sentence(all_layers: Sequence[Layer]) -> str:
    """Returns `12 on the GPU · 10 pinned in memory · 6 streamed from disk`."""
    counts = Counter(layer.home for layer in all_layers)
    words = QCoreApplication.translate("memory", "%1 %2")
    told = ((count_text(counts[home]), home_name(home)) for home in HOMES if counts[home])
    return " · ".join(words.replace("%1", number).replace("%2", name) for number, name in told)


def _rank(span: Span, home: Home) -> int:
    """Returns the rank of a home, the most telling first; the model file comes last, as it holds every layer."""
    return len(_RANKS) if span.tier == "disk" and span.state == "resident" else _RANKS.index(home)


def _is_file(span: Span) -> bool:
    """Returns whether a span is mapped pages of the model file, which the system may drop and read again."""
    return span.tier == "ram" and span.is_mapped


@lru_cache(_MAX_KNOWN)
def _of_span(span: Span) -> tuple[Layer, ...]:
    run = layers_of(span)
    if run is None:
        return ()
    home = _BY_STATE.get(span.state) or ("mapped" if _is_file(span) else _BY_TIER[span.tier])
    each = span.num_bytes // run.num_layers
    return tuple(Layer(index, home, each) for index in range(run.first, run.last + 1))
