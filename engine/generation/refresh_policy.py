"""Decides when a long answer retrieves more passages, and what that may cost: PipeRAG's choices as pure functions.

PipeRAG (https://arxiv.org/abs/2403.05676, sections 4 and 5): retrieval runs alongside generation, with a query window
that is stale by the time it is done, and the interval m' between two retrievals is chosen so that both take equally
long. A model without chunked cross-attention must read what is appended, which on a processor takes as long as writing
many tokens; so here, an answer gets passages only after it has been written for a multiple of that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.core import SamplingParams

RefreshMode = Literal["none", "once", "synchronous", "periodic"]

# m' is one of these, in tokens.
INTERVALS = (8, 16, 32, 64, 128)
# The query is this much of the end of the text, about 128 tokens: with that length, a window that is 64 tokens old
# finds nearly the same as a fresh one (tests/bench/stale_queries.py).
WINDOW_CHARACTERS = 512

# Only this much of a text is searched for the end of a sentence, because the time is quadratic in its length.
_END_CHARACTERS = 120

_OPEN_CODE = re.compile(r"```|`")
_MARKERS = re.compile(r"(?:\s*[\[【][\d,;\s]+[\]】])+\Z")
_ENDS = re.compile(r"""(?P<word>[^\s.!?…。！？]*)(?P<end>[.!?…]+|[。！？]+)[)\]}"'”’»*_]*\Z""")
# After these words, a full stop rarely ends a sentence.
_SHORTENED = "e g i cf vs etc eg ie approx dr mr mrs ms prof st no nr fig eq sec ch pp p vol ed al z bzw ca usw bspw"
_ABBREVIATIONS = frozenset(_SHORTENED.split())


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """How answers are refreshed; None leaves `interval` and `breadth` to the performance model.

    "once" retrieves a single time, "periodic" repeatedly; "synchronous" does so at the end of a sentence, and pauses
    all answers meanwhile (as users would wait without PipeRAG). A refresh adds at most `passages`, and an answer gets
    at most `max_refreshes` from `max_looks` searches. Reading the passages and delays by searching may take
    `max_cost_share` of the time that the answer has been written for; None does not limit it. The same share is
    reserved for unpredictable costs: each later token attends to what was read (a fifth longer per token after 3,400
    and 500 more), and cells of other answers are in between.
    """

    mode: RefreshMode = "periodic"
    interval: int | None = None
    breadth: int | None = None
    passages: int = 2
    max_refreshes: int = 4
    max_looks: int = 16
    max_cost_share: float | None = 0.05

    @property
    def most_refreshes(self) -> int:
        return {"none": 0, "once": min(1, self.max_refreshes)}.get(self.mode, self.max_refreshes)


def suits(sampling: SamplingParams) -> bool:
    """Returns whether an answer with these parameters can be refreshed: a single one, without beams or a grammar."""
    is_free = not (sampling.grammar or sampling.json_schema)
    return is_free and sampling.num_answers == 1 and sampling.beam_width == 1 and sampling.max_tokens > INTERVALS[0]


def chosen_interval(retrieval_seconds: float, computing_seconds: Callable[[int], float]) -> int:
    """Returns the shortest interval m' in which computing takes at least as long as retrieval (T_ret ≈ T_C, hidden).

    Args:
        retrieval_seconds: T_ret, at the breadth of the latest search.
        computing_seconds: T_C, the time to write this many tokens and to read what is appended among them.
    """
    return next((interval for interval in INTERVALS if computing_seconds(interval) >= retrieval_seconds), INTERVALS[-1])


def affordable_tokens(seconds: float, reading_seconds: Callable[[int], float], most: int) -> int:
    """Returns the most tokens, up to `most`, whose reading is expected to take at most `seconds`."""
    if most <= 0 or reading_seconds(1) > seconds:
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reading_seconds(middle) <= seconds else (low, middle - 1)
    return low


def window_of(text: str) -> str:
    """Returns the end of a text, starting with a whole word."""
    if len(text) <= WINDOW_CHARACTERS:
        return text.strip()
    window = text[-WINDOW_CHARACTERS:]
    return window[window.find(" ") + 1 :].strip()


def is_sentence_end(text: str) -> bool:
    """Returns whether a text ends with a sentence, a line or a list item; never inside code or a marker."""
    if _is_in_code(text):
        return False
    if text.endswith("\n"):
        return bool(text.strip())
    end = text.rstrip(" ")[-_END_CHARACTERS:]
    match = _ENDS.search(_MARKERS.sub("", end))
    if match is None:
        return False
    word = match["word"].strip("([\"'“„«*_").lower()
    # "3." may be the beginning of "3.5" or of a list item, and after "e.g." the sentence goes on.
    is_open = match["end"] == "." and (len(word) < 2 or word[-1].isdigit() or word in _ABBREVIATIONS)
    return not is_open


def _is_in_code(text: str) -> bool:
    is_open, fence = False, ""
    for match in _OPEN_CODE.finditer(text):
        if not is_open:
            is_open, fence = True, match[0]
        elif match[0] == fence:
            is_open = False
    # A single back quote does not reach beyond its line.
    return is_open and (fence == "```" or "\n" not in text[text.rfind("`") :])
