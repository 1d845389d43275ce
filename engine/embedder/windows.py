"""Texts longer than what an embedding model reads at a time: their parts are embedded, and stand for the whole.

What is cut off is found by nobody. Chunks are made for models that read 256 tokens; several multilingual ones read 128.
The mean of the parts' vectors, each by its length, is the text's (as sentence-transformers' own mean is over tokens).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Of each part, for the marks that models put around a text and what words are longer than the mean.
_SLACK_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """`texts` to be embedded; the n-th is a part of text `owners[n]`, with this share of its words."""

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


def parts_of(texts: Sequence[str], lengths: Sequence[int], max_tokens: int) -> Parts:
    """The texts in parts that a model reads whole, cut between words.

    Args:
        texts: Of which some may be too long.
        lengths: Of each, in tokens.
        max_tokens: What the model reads.
    """
    found: list[tuple[str, int, float]] = []
    room = max(1, max_tokens - _SLACK_TOKENS)
    for owner, (text, num_tokens) in enumerate(zip(texts, lengths, strict=True)):
        count = 1 if num_tokens <= max_tokens else -(-num_tokens // room)
        words = text.split() if count > 1 else []
        if len(words) < 2:
            found.append((text, owner, 1.0))
            continue
        ends = [round(part * len(words) / count) for part in range(count + 1)]
        spans = [(start, end) for start, end in pairwise(ends) if end > start]
        found += [(" ".join(words[start:end]), owner, (end - start) / len(words)) for start, end in spans]
    return Parts(*map(tuple, zip(*found, strict=True))) if found else Parts((), (), ())
