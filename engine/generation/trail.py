"""How far a prompt's beginning is kept, segment by segment: what many orders of passages share is walked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.generation.knowledge_tree import MIN_PIECE_TOKENS, Node, Piece, walk
from engine.generation.segment import Segment


class Trail(Protocol):
    """A prompt's beginning that is kept, except for a short end unless it `is_whole`."""

    @property
    def is_whole(self) -> bool: ...

    def then(self, segment: Segment) -> Trail | None:
        """The trail with one segment more; None where that is not kept."""
        ...


def after(trail: Trail | None, segments: Iterable[Segment]) -> Trail | None:
    """The trail with these segments more."""
    for segment in segments:
        trail = trail and trail.then(segment)
    return trail


def whole(trail: Trail | None) -> Trail | None:
    """The same trail, or None where its end is not found."""
    return trail if trail and trail.is_whole else None


@dataclass(frozen=True, slots=True)
class KeptTrail:
    """Ends at `node`, followed by `short` segments that become a piece with the one that follows them.

    To be followed at once: it does not see what leaves the tree meanwhile. `cut` makes pieces of segments.
    """

    node: Node
    cut: Callable[[Sequence[Segment]], Sequence[Piece]]
    short: tuple[Segment, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of the beginning is found."""
        return not self.short

    def then(self, segment: Segment) -> KeptTrail | None:
        """The beginning extended by this segment, as `pieces_of` cuts it; None where that is not kept."""
        group = (*self.short, segment)
        if sum(len(each.tokens) for each in group) < MIN_PIECE_TOKENS:
            return replace(self, short=group)
        pieces = self.cut(group)
        path = walk(self.node, pieces)
        return KeptTrail(path[-1], self.cut) if len(path) == len(pieces) else None
