"""Prompts that were cut into pieces of late: one that waits is looked for at every step, and cut and hashed only once.

Hashing the tokens of a long prompt takes longer than all else that a look does. Where orders of the same passages are
tried one after another, each is a new prompt, but of pieces that are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.knowledge_tree import Piece, cut, pieces_of
from engine.generation.of_late import MadeOfLate
from engine.generation.segment import Segment

# More than wait near the front of the queue at a time.
MAX_REMEMBERED = 32
# As many as several questions are chosen passages from.
MAX_PIECES = 256


class CutPrompts:
    """Knows a prompt by which tuple it is, for as long as that is among the last ones; on the generation thread."""

    def __init__(self) -> None:
        self._cut = MadeOfLate[int, Sequence[Piece]](MAX_REMEMBERED)
        self._pieces = MadeOfLate[tuple[int, ...], Sequence[Piece]](MAX_PIECES)

    def __len__(self) -> int:
        return len(self._cut)

    def pieces_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """As `knowledge_tree.pieces_of`; what is no tuple may change, and is cut anew."""
        if not isinstance(segments, tuple):
            return pieces_of(segments, self.cut)
        return self._cut.of(id(segments), segments, lambda: pieces_of(segments, self.cut))

    def pieces_to_keep(self, segments: Sequence[Segment], end: int, computed_tokens: int) -> Sequence[Piece]:
        """The same: each piece is of use by itself, wherever the sequence stands."""
        return self.pieces_of(segments)

    def cut(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """As `knowledge_tree.cut`."""
        return self._pieces.of(tuple(map(id, segments)), tuple(segments), lambda: cut(segments))
