"""Shared prefill: a prompt waits for one with the same beginning that is being read, and orders its passages along it.

KV is kept when a prompt has been read to its end. Without waiting, each of several simultaneous questions would compute
what it shares with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.generation.segment import Segment
from engine.generation.trail import KeptTrail


def shared_segments_tokens(left: Sequence[Segment], right: Sequence[Segment]) -> int:
    """Returns how many tokens two prompts have in common from the start, counting only whole segments."""
    num_tokens = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        num_tokens += len(one.tokens)
    return num_tokens


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """The first `num_tokens` of a prompt, which may end within one of its segments."""

    segments: tuple[Segment, ...] = ()
    num_tokens: int = 0

    def shared_tokens(self, other: Sequence[Segment]) -> int:
        """Returns how many of these tokens another prompt begins with."""
        return min(self.num_tokens, shared_segments_tokens(self.segments, other))

    def is_of_use_to(self, other: Sequence[Segment]) -> bool:
        """Returns whether another prompt begins with all of these tokens."""
        return self.shared_tokens(other) == self.num_tokens

    def along(self, kept: KeptTrail) -> ReadingTrail:
        """Returns a trail through kept KV and these segments; the last of them may not be read to its end yet."""
        start, begun = 0, list[Segment]()
        for segment in self.segments:
            if start >= self.num_tokens:
                break
            begun.append(segment)
            start += len(segment.tokens)
        return ReadingTrail(kept, (tuple(begun),))


@dataclass(frozen=True, slots=True)
class ReadingTrail:
    """A prompt's beginning that is kept, or will be when one of the prompts that share it has been read.

    `being_read` are prompts that are being read or will be before; all share `depth` segments with the beginning.
    """

    kept: KeptTrail | None
    being_read: tuple[tuple[Segment, ...], ...]
    depth: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all of the beginning is kept, or will be."""
        return bool(self.being_read) or (self.kept is not None and self.kept.is_whole)

    def then(self, segment: Segment) -> ReadingTrail | None:
        """Returns the beginning extended by this segment; None if that is neither kept nor being read."""
        kept, depth = self.kept and self.kept.then(segment), self.depth
        being_read = tuple(each for each in self.being_read if each[depth : depth + 1] == (segment,))
        return ReadingTrail(kept, being_read, depth + 1) if kept is not None or being_read else None
