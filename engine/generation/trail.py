"""Follows how far a prompt's beginning is kept, segment by segment: orders of passages share their common beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.generation.knowledge_tree import MIN_PIECE_TOKENS, Node, Piece, walk
from engine.generation.segment import Segment


class Trail(Protocol):
    """A kept beginning of a prompt; unless it `is_whole`, a short end of it may not be kept."""

    @property
    def is_whole(self) -> bool: ...

    def then(self, segment: Segment) -> Trail | None:
        """Returns the trail extended by a segment; None if that is not kept."""
        ...


def after(trail: Trail | None, segments: Iterable[Segment]) -> Trail | None:
    """Returns the trail extended by these segments."""
    for segment in segments:
        trail = trail and trail.then(segment)
    return trail


def whole(trail: Trail | None) -> Trail | None:
    """Returns the trail, or None if its end is not found."""
    return trail if trail and trail.is_whole else None


@dataclass(frozen=True, slots=True)
class KeptTrail:
    """A trail that ends at `node`, followed by `short` segments that form a piece together with the next one.

    Use it at once, because it does not notice nodes that leave the tree. `cut` makes pieces of segments.
    """

    node: Node
    cut: Callable[[Sequence[Segment]], Sequence[Piece]]
    short: tuple[Segment, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of the beginning is kept."""
        return not self.short

    def then(self, segment: Segment) -> KeptTrail | None:
        """Returns the beginning extended by this segment, as `pieces_of` cuts it; None if that is not kept."""
        group = (*self.short, segment)
        if sum(len(each.tokens) for each in group) < MIN_PIECE_TOKENS:
            return replace(self, short=group)
        pieces = self.cut(group)
        path = walk(self.node, pieces)
        return KeptTrail(path[-1], self.cut) if len(path) == len(pieces) else None
