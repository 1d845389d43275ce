"""Texts longer than what an embedding model reads at a time: their parts are embedded, and stand for the whole.

What is cut off is found by nobody. Chunks are made for models that read 256 tokens; several multilingual ones read 128.
The mean of the parts' vectors, each by its length, is the text's (as sentence-transformers' own mean is over tokens).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Of each part, for the marks that models put around a text, and for what of it has more tokens than the mean.
_SLACK_TOKENS = 8
# A cut is made between two words where there is such a place within this share of a part.
_REACH = 4


@dataclass(frozen=True, slots=True)
class Parts:
    """`texts` to be embedded; the n-th is a part of text `owners[n]`, with this share of its tokens."""

    texts: tuple[str, ...]
    owners: tuple[int, ...]
    shares: tuple[float, ...]

    def joined(self, vectors: NDArray[np.float32], num_texts: int) -> NDArray[np.float32]:
        """Unit vectors (num_texts, d) of the texts, from those of the parts."""
        whole = np.zeros((num_texts, vectors.shape[1]), np.float32)
        np.add.at(whole, list(self.owners), vectors * np.array(self.shares, np.float32)[:, None])
        norms = np.linalg.norm(whole, axis=1, keepdims=True)
        unit: NDArray[np.float32] = whole / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit


def parts_of(texts: Sequence[str], lengths_of: Callable[[Sequence[str]], list[int]], max_tokens: int) -> Parts:
    """The texts in parts that a model reads whole, cut between words where there are any.

    Args:
        texts: Of which some may be too long.
        lengths_of: Of each text, in tokens.
        max_tokens: What the model reads.
    """
    found = [(text, owner) for owner, text in enumerate(texts)]
    lengths = lengths_of(texts) if texts else []
    # Tokens lie unevenly in a text: a part may be too long once more.
    while any(length > max_tokens and len(text) > 1 for (text, _), length in zip(found, lengths, strict=True)):
        found = [
            (piece, owner)
            for (text, owner), length in zip(found, lengths, strict=True)
            for piece in _cut(text, length, max_tokens)
        ]
        lengths = lengths_of([text for text, _ in found])
    totals = [0] * len(texts)
    for (_, owner), length in zip(found, lengths, strict=True):
        totals[owner] += max(1, length)
    shares = (max(1, length) / totals[owner] for (_, owner), length in zip(found, lengths, strict=True))
    return Parts(tuple(text for text, _ in found), tuple(owner for _, owner in found), tuple(shares))


def _cut(text: str, num_tokens: int, max_tokens: int) -> list[str]:
    """A text that is too long in two parts at least, as many as it takes; any other whole."""
    if num_tokens <= max_tokens or len(text) < 2:
        return [text]
    room = max(max_tokens // 2, max_tokens - _SLACK_TOKENS, 1)
    count = min(len(text), max(2, -(-num_tokens // room)))
    reach = len(text) // (_REACH * count)
    places = [0, *(_near(text, len(text) * part // count, reach) for part in range(1, count)), len(text)]
    return [piece for start, end in pairwise(places) if (piece := text[start:end].strip())] or [text[:1]]


def _near(text: str, place: int, reach: int) -> int:
    """Where there is a space next to that place, or the place itself: some scripts have none between words."""
    for distance in range(reach + 1):
        for at in (place - distance, place + distance):
            if 0 < at < len(text) and text[at].isspace():
                return at
    return place
