"""Markers such as "[2]" or "[1, 3]" in an answer, which passages they point to, and by which numbers people know those.

A model numbers the passages as it read them; people see them numbered as they were found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engine.core import Citation, Quote

# "[1]", "[1, 2]", "[1][2]", "【1】", also right after a word, as models write it; not the Markdown link "[1](…)".
_MARKER = re.compile(r"(?<![0-9_`])(?:\[|【)\s*\d{1,3}(?:\s*[,;]\s*\d{1,3})*\s*(?:\]|】)(?!\()")
# A marker, or the beginning of one, that what comes next could still change.
_OPEN_MARKER = re.compile(r"(?:\[|【)[\d\s,;]*(?:\]|】)?\Z")
_NUMBER = re.compile(r"\d+")
# Looked at again for each token that follows.
_LINES_CHARACTERS = 2000
_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def parse_citations(text: str, num_passages: int) -> tuple[Citation, ...]:
    """The citations in `text`, in order; numbers without a passage and anything in code are no citations."""
    citations = []
    for match in _markers(text):
        numbers = [int(number) for number in _NUMBER.findall(match[0])]
        citations += [
            Citation(match[0], number - 1, match.start()) for number in numbers if 1 <= number <= num_passages
        ]
    return tuple(citations)


def citations_of_quotes(quotes: Sequence[Quote], offset: int) -> tuple[Citation, ...]:
    """What stands in when the model cited nothing: the passages the reader quoted, best first, at the answer's end."""
    passages = dict.fromkeys(quote.passage for quote in quotes)
    return tuple(Citation(f"[{passage + 1}]", passage, offset) for passage in passages)


def renumbered(text: str, order: Sequence[int]) -> str:
    """The text with "[n]" for the passage that is the n-th of the evidence, where it said where that was read.

    `order[k]` is the place in the evidence of passage k + 1 as it was read.
    """
    pieces, at = [], 0
    for match in _markers(text):
        pieces += [text[at : match.start()], _NUMBER.sub(lambda number: _renumbered(number[0], order), match[0])]
        at = match.end()
    return "".join((*pieces, text[at:]))


class Renumbering:
    """`renumbered` for a text that is still being written; holds back what could still become a marker, or code."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = order
        self._changes = tuple(order) != tuple(range(len(order)))
        # Behind the last line that is told for good, and how much of it is told as well.
        self._text = ""
        self._told = 0

    def feed(self, text: str) -> str:
        """What can be told after `text`."""
        if not self._changes:
            return text
        self._text += text
        told = self._tell(renumbered(self._text[: _settled(self._text)], self._order))
        self._leave_lines()
        return told

    def finish(self) -> str:
        """What was held back."""
        return self._tell(renumbered(self._text, self._order))

    def _tell(self, whole: str) -> str:
        told, self._told = self._told, len(whole)
        return whole[told:]

    def _leave_lines(self) -> None:
        """Whole lines outside of code are not looked at again at each token."""
        end = self._text.rfind("\n") + 1
        is_settled = end <= _settled(self._text) and _settled(self._text[:end]) == end
        if end >= _LINES_CHARACTERS and is_settled and "```" not in self._text:
            self._told -= len(renumbered(self._text[:end], self._order))
            self._text = self._text[end:]


def _markers(text: str) -> Iterator[re.Match[str]]:
    """Markers outside code."""
    code = _FENCE.finditer(text)
    span = next(code, None)
    for match in _MARKER.finditer(text):
        while span is not None and span.end() <= match.start():
            span = next(code, None)
        if span is None or match.start() < span.start():
            yield match


def _renumbered(number: str, order: Sequence[int]) -> str:
    place = int(number) - 1
    if 0 <= place < len(order):
        return str(order[place] + 1)
    # Whatever was invented must not come to point to a passage that people know by that number.
    return "0" if place in order else number


def _settled(text: str) -> int:
    """How much of the text means what it will mean at the end, whatever follows."""
    line = text.rfind("\n") + 1
    if text.count("`", line) % 2:
        return text.rfind("`")
    last = max(text.rfind("["), text.rfind("【"))
    return last if last >= 0 and _OPEN_MARKER.match(text, last) else len(text)
