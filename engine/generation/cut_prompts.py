"""Prompts that were recently cut into pieces: one that waits is looked at in every step, but cut and hashed only once.

Hashing the tokens of a long prompt takes longer than the rest of that look. Where orders of the same passages are tried
one after another, each is a new prompt, but of known pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.knowledge_tree import Piece, cut, pieces_of
from engine.generation.lru_cache import LruCache
from engine.generation.segment import Segment

# More than the number of prompts that wait near the front of the queue at a time.
MAX_REMEMBERED = 32
# As many as several questions choose passages from.
MAX_PIECES = 256


class CutPrompts:
    """Recognises a recent prompt by the identity of its tuple; on the generation thread."""

    def __init__(self) -> None:
        self._cut = LruCache[int, Sequence[Piece]](MAX_REMEMBERED)
        self._pieces = LruCache[tuple[int, ...], Sequence[Piece]](MAX_PIECES)

    def __len__(self) -> int:
        return len(self._cut)

    def pieces_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """Like `knowledge_tree.pieces_of`; a sequence that is no tuple may change, and is cut again."""
        if not isinstance(segments, tuple):
            return pieces_of(segments, self.cut)
        return self._cut.of(id(segments), segments, lambda: pieces_of(segments, self.cut))

    def pieces_to_keep(self, segments: Sequence[Segment], end: int, computed_tokens: int) -> Sequence[Piece]:
        """The same: each piece is of use by itself, wherever the sequence stands."""
        return self.pieces_of(segments)

    def cut(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """Like `knowledge_tree.cut`."""
        return self._pieces.of(tuple(map(id, segments)), tuple(segments), lambda: cut(segments))
