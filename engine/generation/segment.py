"""Segments: a prompt is a sequence of pieces whose keys and values are kept, found again and shared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

# The kinds of pieces: instructions and markup that all prompts begin with, a passage of a document, or a part of one
# conversation (a question, an answer).
SegmentKind = Literal["instructions", "passage", "turn"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of a prompt that depend only on the segment's own text.

    `documents` are those whose text the tokens hold: if one is removed, so is every kept path through the segment.
    """

    tokens: tuple[int, ...]
    kind: SegmentKind = "turn"
    documents: frozenset[int] = frozenset()


def tokens_of(segments: Iterable[Segment]) -> list[int]:
    """Returns all tokens in order."""
    return [token for segment in segments for token in segment.tokens]


def shared_tokens(left: Sequence[int], right: Sequence[int]) -> int:
    """Returns how many tokens two sequences have in common from the start."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
