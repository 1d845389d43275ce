"""Markers such as "[2]" or "[1, 3]" in an answer, and which passages they point to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.core import Citation, Quote

# "[1]", "[1, 2]", "[1][2]", "【1】", also right after a word, as models write it; not the Markdown link "[1](…)".
_MARKER = re.compile(r"(?<![0-9_`])(?:\[|【)\s*\d{1,3}(?:\s*[,;]\s*\d{1,3})*\s*(?:\]|】)(?!\()")
_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def parse_citations(text: str, num_passages: int) -> tuple[Citation, ...]:
    """The citations in `text`, in order; numbers without a passage and anything in code are no citations."""
    code = [match.span() for match in _FENCE.finditer(text)]
    citations = []
    for match in _MARKER.finditer(text):
        if any(start <= match.start() < end for start, end in code):
            continue
        numbers = [int(number) for number in re.findall(r"\d+", match[0])]
        citations += [
            Citation(match[0], number - 1, match.start()) for number in numbers if 1 <= number <= num_passages
        ]
    return tuple(citations)


def citations_of_quotes(quotes: Sequence[Quote], offset: int) -> tuple[Citation, ...]:
    """What stands in when the model cited nothing: the passages the reader quoted, best first, at the answer's end."""
    passages = dict.fromkeys(quote.passage for quote in quotes)
    return tuple(Citation(f"[{passage + 1}]", passage, offset) for passage in passages)
