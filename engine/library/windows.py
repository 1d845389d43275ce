"""Windows: which chunks are embedded next. Pure decisions: a huge document fills the time but blocks no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.library.seams import Embedder

# Batches of chunks of similar length waste little on padding. Sorted in windows of this size, 1 % of what is computed
# is padding; in windows of 64 it is 3.7 %, of 4 it is 20 %.
WINDOW_CHUNKS = 512
# Embedding can stop after this many, every second or two; two portions are embedded at once (embedding.py).
PORTION_CHUNKS = 32


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of a document's chunks that have no vector yet; `is_urgent`: a user waits for it."""

    num_chunks: int
    is_urgent: bool = False

    @property
    def is_large(self) -> bool:
        return self.num_chunks > WINDOW_CHUNKS


def shares(waiting: Sequence[Waiting]) -> list[int]:
    """Returns how many chunks the next window takes of each document, in the order in which they came.

    Urgent documents get a short window to themselves. Otherwise small ones go before large ones, but the first large
    one always gets a portion, so that neither waits until the other is done.
    """
    urgent = [index for index, one in enumerate(waiting) if one.is_urgent]
    if urgent:
        return _filled(waiting, urgent, [0] * len(waiting), PORTION_CHUNKS)
    small = [index for index, one in enumerate(waiting) if not one.is_large]
    large = [index for index, one in enumerate(waiting) if one.is_large]
    taken = [0] * len(waiting)
    if large:
        taken = _filled(waiting, large[:1], taken, PORTION_CHUNKS)
    return _filled(waiting, [*small, *large], taken, WINDOW_CHUNKS)


def _filled(waiting: Sequence[Waiting], order: Sequence[int], taken: Sequence[int], size: int) -> list[int]:
    """Takes more in `order`, until `size` are taken in all."""
    filled = list(taken)
    for index in order:
        room = size - sum(filled)
        filled[index] += min(room, waiting[index].num_chunks - filled[index])
    return filled


def longest_first(texts: Mapping[str, str], embedder: Embedder) -> list[str]:
    """Sorts the keys of texts by length in tokens, so that portions of them waste little padding."""
    lengths = dict(zip(texts, embedder.lengths(list(texts.values())), strict=True))
    return sorted(texts, key=lambda key: lengths[key], reverse=True)
