"""What a second search adds to an answer: passages that are neither in evidence already nor off the subject.

A passage that is in evidence says that its text is still what the answer is about, so the chunk that follows it in the
document is taken along instead (the continuation that RETRO's neighbours carry). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.core import Passage

# A passage that fits less than this in relation to the best one that was found adds nothing.
RELEVANT_SHARE = 0.7
# Passages of one document share a few words at their seams; more than this share of the shorter one is the same.
_MAX_SHARED = 0.5

Following = Callable[[Passage], Sequence[Passage]]


def new_passages(
    found: Sequence[Passage], evidence: Sequence[Passage], following: Following, limit: int
) -> tuple[Passage, ...]:
    """At most `limit` passages that are not in evidence, best first.

    Args:
        found: What fits the text that was written last, best first.
        evidence: What the answer rests on already.
        following: The next chunks of a passage's document, in their order.
        limit: At most so many.
    """
    new: list[Passage] = []
    least = RELEVANT_SHARE * max((passage.score for passage in found), default=0.0)
    for passage in found:
        if len(new) >= limit or passage.score < least:
            break
        known = [*evidence, *new]
        if not is_among(passage, known):
            new.append(passage)
        elif (next_one := _first_unknown(following(passage), known)) is not None:
            new.append(replace(next_one, score=passage.score))
    return tuple(new)


def is_among(passage: Passage, known: Sequence[Passage]) -> bool:
    """Whether one of these says mostly the same."""
    return any(_is_same(passage, other) for other in known)


def _first_unknown(passages: Sequence[Passage], known: Sequence[Passage]) -> Passage | None:
    return next((passage for passage in passages if not is_among(passage, known)), None)


def _is_same(passage: Passage, other: Passage) -> bool:
    if passage.row_id == other.row_id or passage.text == other.text:
        return True
    if (passage.document_id, passage.page) != (other.document_id, other.page):
        return False
    shared = min(passage.end, other.end) - max(passage.start, other.start)
    return shared > _MAX_SHARED * min(passage.end - passage.start, other.end - other.start)
