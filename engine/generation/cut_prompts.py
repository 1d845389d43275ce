"""Caches prompts cut into pieces: one that waits is looked up in every step, but cut and hashed only once.

Hashing the tokens of a long prompt takes longer than the rest of the look-up. When several orders of the same passages
are tried, each is a new prompt, but of known pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.knowledge_tree import Piece, cut, pieces_of
from engine.generation.lru_cache import LruCache
from engine.generation.segment import Segment

# More than the number of prompts that wait near the front of the queue at a time.
MAX_REMEMBERED = 32
# Enough for the passages that several questions choose from.
MAX_PIECES = 256


class CutPrompts:
    """A cache by the identity of the prompt's tuple; on the generation thread."""

    def __init__(self) -> None:
        self._cut = LruCache[int, Sequence[Piece]](MAX_REMEMBERED)
        self._pieces = LruCache[tuple[int, ...], Sequence[Piece]](MAX_PIECES)

    def __len__(self) -> int:
        return len(self._cut)

    def pieces_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """Returns what `knowledge_tree.pieces_of` would; a sequence that is no tuple may change, and is cut again."""
        if not isinstance(segments, tuple):
            return pieces_of(segments, self.cut)
        return self._cut.of(id(segments), segments, lambda: pieces_of(segments, self.cut))

    def pieces_to_keep(self, segments: Sequence[Segment], end: int, computed_tokens: int) -> Sequence[Piece]:
        """Returns the same pieces, since each can be used by itself, wherever the sequence ends."""
        return self.pieces_of(segments)

    def cut(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """Returns what `knowledge_tree.cut` would."""
        return self._pieces.of(tuple(map(id, segments)), tuple(segments), lambda: cut(segments))
