"""Texts longer than an embedding model reads at a time: their parts are embedded, and stand for the whole.

Truncated text could not be found. Chunks are made for models that read 256 tokens, but several multilingual models read
128. The vector of a text is the mean of its parts' vectors, weighted by length (like the mean over tokens in
sentence-transformers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Reserved in each part for special tokens, and because tokens are not distributed evenly.
_SLACK_TOKENS = 8
# A cut is moved to a space between words if there is one within this fraction (1/4) of a part.
_REACH = 4
# The most parts that are embedded of a question with a long pasted text; each takes milliseconds.
_MOST_PARTS = 8
# In a question that is too long, the weight of the sentences that ask, relative to the whole.
_ASKED_SHARE = 2 / 3
# Longer paragraphs, in characters, are assumed to be pasted. "Kind regards" is a greeting.
_MOST_TYPED = 300
_GREETING_WORDS, _GREETING_BYTES = 3, 30

_PARAGRAPH_END = re.compile(r"\n\s*\n")
# Not after "Mr." and "e.g."; Chinese and Japanese have no space after their marks.
_SENTENCE_END = re.compile(r"(?<=[!?])\s+|(?<=\w{3}\.)\s+|(?<=[。！？؟])\s*")
_QUESTION_MARKS = ("?", "？", "؟")
_CLOSING = "\"'”’»)]」』*_ "


@dataclass(frozen=True, slots=True)
class Parts:
    """`texts` to be embedded; the n-th is a part of text `owners[n]`, and has the share `shares[n]` of its tokens."""

    texts: tuple[str, ...]
    owners: tuple[int, ...]
    shares: tuple[float, ...]

    def joined(self, vectors: NDArray[np.float32], num_texts: int) -> NDArray[np.float32]:
        """Returns unit vectors (num_texts, d) of the texts, from those of the parts."""
        whole = np.zeros((num_texts, vectors.shape[1]), np.float32)
        np.add.at(whole, list(self.owners), vectors * np.array(self.shares, np.float32)[:, None])
        norms = np.linalg.norm(whole, axis=1, keepdims=True)
        unit: NDArray[np.float32] = whole / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit


def parts_of(texts: Sequence[str], lengths_of: Callable[[Sequence[str]], list[int]], max_tokens: int) -> Parts:
    """Splits texts into parts that a model can read, between words if possible.

    Args:
        texts: Some may be too long.
        lengths_of: Returns the length of each text in tokens.
        max_tokens: The longest text that the model reads.
    """
    found = [(text, owner) for owner, text in enumerate(texts)]
    lengths = lengths_of(texts) if texts else []
    # Tokens are not distributed evenly, so a part may still be too long.
    while any(length > max_tokens and len(text) > 1 for (text, _), length in zip(found, lengths, strict=True)):
        found = [
            (piece, owner)
            for (text, owner), length in zip(found, lengths, strict=True)
            for piece in _cut(text, length, max_tokens)
        ]
        lengths = lengths_of([text for text, _ in found])
    totals = [0] * len(texts)
    for (_, owner), length in zip(found, lengths, strict=True):
        totals[owner] += max(1, length)
    shares = (max(1, length) / totals[owner] for (_, owner), length in zip(found, lengths, strict=True))
    return Parts(tuple(text for text, _ in found), tuple(owner for _, owner in found), tuple(shares))


def parts_of_questions(
    texts: Sequence[str], lengths_of: Callable[[Sequence[str]], list[int]], max_tokens: int
) -> Parts:
    """Like `parts_of`, but the sentences that ask have the most weight: a long question has a pasted mail or page.

    Measured on SQuAD (120 questions, each after four unrelated paragraphs), R@5 by meaning alone: .91 without the
    paragraphs, .01 if the text is truncated, .03 by the mean of all parts, .86 with this weighting.
    """
    parts = parts_of(texts, lengths_of, max_tokens)
    found: list[tuple[str, int, float]] = []
    for owner, text in enumerate(texts):
        pieces = [
            (piece, share)
            for piece, one, share in zip(parts.texts, parts.owners, parts.shares, strict=True)
            if one == owner
        ]
        if len(pieces) > 1:
            asked = [parts_of([sentence], lengths_of, max_tokens).texts[-1] for sentence in _asked_in(text)]
            # If no sentence asks, the request is probably at the beginning.
            some = pieces[:: -(-len(pieces) // _MOST_PARTS)] if asked else pieces[:1]
            rest = (1.0 - _ASKED_SHARE if asked else 1.0) / sum(share for _, share in some)
            pieces = [(piece, rest * share) for piece, share in some]
            pieces += [(sentence, _ASKED_SHARE / len(asked)) for sentence in asked]
        found += [(piece, owner, share) for piece, share in pieces]
    return Parts(*(tuple(column) for column in zip(*found, strict=True))) if found else parts


def _asked_in(text: str) -> list[str]:
    """Returns the last question at the beginning and at the end; without questions, short paragraphs there.

    The result may be empty: the end of a pasted mail ("This e-mail is confidential.") asks nothing.
    """
    paragraphs = [part.strip() for part in _PARAGRAPH_END.split(text) if part.strip()]
    # The question may follow "Hello" or precede "Thanks".
    sides = (paragraphs[:2], paragraphs[::-1][:2])
    near = [[*side[:1], *filter(_may_be_typed, side[1:])] for side in sides]
    questions = [next(filter(None, map(_last_question, side)), "") for side in near]
    requests = [next((part for part in side if not _is_greeting(part)), "") for side in sides]
    found = [one for one in questions if one] or [one for one in requests if one and _may_be_typed(one)]
    return list(dict.fromkeys(found))


def _last_question(paragraph: str) -> str:
    sentences = [one for one in _SENTENCE_END.split(paragraph) if one.rstrip(_CLOSING).endswith(_QUESTION_MARKS)]
    return sentences[-1] if sentences else ""


def _may_be_typed(paragraph: str) -> bool:
    return len(paragraph) <= _MOST_TYPED


def _is_greeting(paragraph: str) -> bool:
    """Returns whether it is too short to ask anything; measured in bytes as well, for scripts without spaces."""
    return len(paragraph.split()) <= _GREETING_WORDS and len(paragraph.encode()) <= _GREETING_BYTES


def _cut(text: str, num_tokens: int, max_tokens: int) -> list[str]:
    """Splits a text that is too long into as many parts as necessary; returns any other unchanged."""
    if num_tokens <= max_tokens or len(text) < 2:
        return [text]
    room = max(max_tokens // 2, max_tokens - _SLACK_TOKENS, 1)
    count = min(len(text), max(2, -(-num_tokens // room)))
    reach = len(text) // (_REACH * count)
    places = [0, *(_near(text, len(text) * part // count, reach) for part in range(1, count)), len(text)]
    return [piece for start, end in pairwise(places) if (piece := text[start:end].strip())] or [text[:1]]


def _near(text: str, place: int, reach: int) -> int:
    """Returns the nearest space within `reach`, or the place itself: some scripts have no spaces."""
    for distance in range(reach + 1):
        for at in (place - distance, place + distance):
            if 0 < at < len(text) and text[at].isspace():
                return at
    return place
