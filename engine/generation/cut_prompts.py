"""Prompts that were cut into pieces of late: one that waits is looked for at every step, and cut and hashed only once.

Hashing the tokens of a long prompt takes longer than all else that a look does. Where orders of the same passages are
tried one after another, each is a new prompt, but of pieces that are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.knowledge_tree import Piece, cut, pieces_of
from engine.generation.segment import Segment

# More than wait near the front of the queue at a time.
MAX_REMEMBERED = 32
# As many as several questions are chosen passages from.
MAX_PIECES = 256


class CutPrompts:
    """Knows a prompt by which tuple it is, for as long as that is among the last ones; on the generation thread."""

    def __init__(self) -> None:
        # By its id, which is nobody else's while the tuple is held here; the longest unused first.
        self._cut: dict[int, tuple[tuple[Segment, ...], Sequence[Piece]]] = {}
        # By the ids of their segments, likewise.
        self._pieces: dict[tuple[int, ...], tuple[tuple[Segment, ...], Sequence[Piece]]] = {}

    def __len__(self) -> int:
        return len(self._cut)

    def pieces_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """As `knowledge_tree.pieces_of`; what is no tuple may change, and is cut anew."""
        if not isinstance(segments, tuple):
            return pieces_of(segments, self._cut_of)
        known = self._cut.pop(id(segments), None) or (segments, pieces_of(segments, self._cut_of))
        self._cut[id(segments)] = known
        if len(self._cut) > MAX_REMEMBERED:
            del self._cut[next(iter(self._cut))]
        return known[1]

    def pieces_to_keep(self, segments: Sequence[Segment], end: int, computed_tokens: int) -> Sequence[Piece]:
        """The same: each piece is of use by itself, wherever the sequence stands."""
        return self.pieces_of(segments)

    def _cut_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        key = tuple(map(id, segments))
        known = self._pieces.pop(key, None) or (tuple(segments), cut(segments))
        self._pieces[key] = known
        if len(self._pieces) > MAX_PIECES:
            del self._pieces[next(iter(self._pieces))]
        return known[1]
