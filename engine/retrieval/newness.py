"""What a second search adds to an answer: passages that are neither in evidence already nor off the subject.

If a found passage is already in the evidence, the answer is still about its text, so the next chunk of the document is
added instead (like the continuations of RETRO's neighbours). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.core import Passage

# The least score of a passage relative to the best one that was found.
RELEVANT_SHARE = 0.7
# Adjacent passages overlap a little; an overlap of more than this share of the shorter one is a repetition.
_MAX_SHARED = 0.5

Following = Callable[[Passage], Sequence[Passage]]


def new_passages(
    found: Sequence[Passage], evidence: Sequence[Passage], following: Following, limit: int
) -> tuple[Passage, ...]:
    """Returns at most `limit` passages that are not in the evidence, best first.

    Args:
        found: Passages that fit the latest text of the answer, best first.
        evidence: The passages that the answer already has.
        following: Returns the next chunks after a passage in its document, in order.
        limit: The most passages to return.
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
    """Returns whether one of `known` has mostly the same text."""
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
