"""How far a prompt's beginning is kept, segment by segment: what many orders of passages share is walked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.generation.knowledge_tree import MIN_PIECE_TOKENS, Node, Piece, walk
from engine.generation.segment import Segment


@dataclass(frozen=True, slots=True)
class KeptTrail:
    """Ends at `node`, and after it in `short` segments that become a piece with the one that follows them.

    It is followed at once: of what leaves the tree meanwhile it knows nothing. `cut` makes pieces of segments.
    """

    node: Node
    cut: Callable[[Sequence[Segment]], Sequence[Piece]]
    short: tuple[Segment, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of the beginning is found."""
        return not self.short

    def then(self, segment: Segment) -> KeptTrail | None:
        """The beginning that goes on with this segment; None where that is not kept. As `pieces_of` cuts it."""
        group = (*self.short, segment)
        if sum(len(each.tokens) for each in group) < MIN_PIECE_TOKENS:
            return replace(self, short=group)
        pieces = self.cut(group)
        path = walk(self.node, pieces)
        return KeptTrail(path[-1], self.cut) if len(path) == len(pieces) else None
