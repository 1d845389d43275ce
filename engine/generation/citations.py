"""Markers such as "[2]" or "[1, 3]" in an answer: the passages they point to, and their numbers as the user sees them.

A model numbers passages as it read them, continuing from those of earlier turns. Users see them numbered as they were
found for this question, followed by what the answer cites of earlier turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from engine.core import Citation, Passage, Quote

# "[1]", "[1, 2]", "[1][2]", "【1】", also right after a word or a number, as models write it; not the Markdown link
# "[1](…)", nor an index into a variable: "x_2[1]".
_MARKER = re.compile(
    r"(?<![_`])(?<![^\W\d]\d)(?<![^\W\d]\d\d)(?:\[|【)\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*(?:\]|】)(?!\()"
)
# A marker, or the beginning of one, that the following text could still change.
_OPEN_MARKER = re.compile(r"(?:\[|【)[\d\s,;]*(?:\]|】)?\Z")
_NUMBER = re.compile(r"\d+")
# Text before the last line is scanned again for each token, up to this length.
_LINES_CHARACTERS = 2000
_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def parse_citations(text: str, num_passages: int) -> tuple[Citation, ...]:
    """Returns the citations in `text`, in order; numbers without a passage and anything in code are none."""
    citations = []
    for match in _markers(text):
        numbers = [int(number) for number in _NUMBER.findall(match[0])]
        citations += [
            Citation(match[0], number - 1, match.start()) for number in numbers if 1 <= number <= num_passages
        ]
    return tuple(citations)


def citations_of_quotes(quotes: Sequence[Quote], offset: int) -> tuple[Citation, ...]:
    """Returns citations for an answer without any: the passages the reader quoted, best first, at the answer's end."""
    passages = dict.fromkeys(quote.passage for quote in quotes)
    return tuple(Citation(f"[{passage + 1}]", passage, offset) for passage in passages)


def citations_among(text: str, places: Collection[int], offset: int = 0) -> tuple[Citation, ...]:
    """Returns the citations of passages at these places of the evidence; the text begins at `offset` of the whole."""
    found = parse_citations(text, max(places, default=-1) + 1)
    return tuple(Citation(one.marker, one.passage, one.offset + offset) for one in found if one.passage in places)


class Recalled:
    """Passages of earlier turns that an answer cites although they were not found for it again.

    `places` maps numbers that the model knows to places among all passages that the user sees; a passage gets its place
    when it is cited, and keeps it. `highest` is the last number that has a meaning in either numbering.
    """

    def __init__(self, standing: Mapping[int, Passage], num_known: int, give_place: Callable[[Passage], int]) -> None:
        """Starts with none cited; `standing` has the passages by number, and the user knows `num_known` others."""
        self._standing, self._give_place = standing, give_place
        self.places: dict[int, int] = {}
        self.highest = max(*standing, num_known + len(standing)) if standing else 0

    def place(self, number: int) -> int | None:
        """Returns the place of the passage with this number, which gets one if need be; None if there is none."""
        if number not in self.places and number in self._standing:
            self.places[number] = self._give_place(self._standing[number])
        return self.places.get(number)

    def citable(self, numbers: Mapping[int, int]) -> frozenset[int]:
        """Returns the places that may have been cited: of what was found for the question, and of what was recalled."""
        return frozenset((*numbers.values(), *self.places.values()))


NOTHING = Recalled({}, 0, lambda passage: 0)


def renumbered(text: str, numbers: Mapping[int, int], recalled: Recalled = NOTHING) -> str:
    """Returns the text with the passage numbers that the user knows, in place of those that the model knows.

    `numbers` maps the model's numbers to places in the evidence. Any other number that it cites is recalled from an
    earlier turn, or made up: a made-up one must not point to what the user knows by that number.
    """
    pieces, at = [], 0
    for match in _markers(text):
        before, marker = text[at : match.start()], _renumbered(match[0], numbers, recalled)
        pieces += [before if marker else before.removesuffix(" "), marker]
        at = match.end()
    return "".join((*pieces, text[at:]))


def differ(numbers: Mapping[int, int]) -> bool:
    """Returns whether the model knows any passage by another number than the user does."""
    return any(number != place + 1 for number, place in numbers.items())


def without_markers(text: str) -> str:
    """Returns the text without its citations."""
    pieces, at = [], 0
    for match in _markers(text):
        pieces.append(text[at : match.start()].removesuffix(" "))
        at = match.end()
    return "".join((*pieces, text[at:]))


class Renumbering:
    """`renumbered` for a text that is still being written; holds back what could still become a marker, or code."""

    def __init__(self, numbers: Mapping[int, int], recalled: Recalled = NOTHING) -> None:
        self._numbers, self._recalled = numbers, recalled
        self._changes = differ(numbers) or recalled.highest > 0
        # The text after the last line that is final, and how much of it, renumbered, was already returned.
        self._text = ""
        self._told = 0

    def feed(self, text: str) -> str:
        """Takes more text; returns what can be shown after it."""
        if not self._changes:
            return text
        self._text += text
        told = self._tell(self._renumbered(self._text[: _settled(self._text)]))
        self._leave_lines()
        return told

    def finish(self) -> str:
        """Returns what was held back."""
        return self._tell(self._renumbered(self._text))

    def _renumbered(self, text: str) -> str:
        return renumbered(text, self._numbers, self._recalled)

    def _tell(self, whole: str) -> str:
        told, self._told = self._told, len(whole)
        return whole[told:]

    def _leave_lines(self) -> None:
        """Drops whole lines outside of code, so that they are not scanned again at each token."""
        end = self._text.rfind("\n") + 1
        is_settled = end <= _settled(self._text) and _settled(self._text[:end]) == end
        if end >= _LINES_CHARACTERS and is_settled and "```" not in self._text:
            self._told -= len(self._renumbered(self._text[:end]))
            self._text = self._text[end:]


def _markers(text: str) -> Iterator[re.Match[str]]:
    """Yields markers outside code."""
    code = _FENCE.finditer(text)
    span = next(code, None)
    for match in _MARKER.finditer(text):
        while span is not None and span.end() <= match.start():
            span = next(code, None)
        if span is None or match.start() < span.start():
            yield match


def _renumbered(marker: str, numbers: Mapping[int, int], recalled: Recalled) -> str:
    """Returns the marker with the user's numbers, without those that would mean something else to the user."""
    cited = [int(number) for number in _NUMBER.findall(marker)]
    places = {number: place for number in cited if (place := _place(number, numbers, recalled)) is not None}

    def known(number: re.Match[str]) -> str:
        return str(places[int(number[0])] + 1) if int(number[0]) in places else number[0]

    highest = max(recalled.highest, *numbers, 0)
    misleading = {*range(1, highest + 1), *(place + 1 for place in numbers.values())} - places.keys()
    if misleading.isdisjoint(cited):
        return _NUMBER.sub(known, marker)
    left = [str(places.get(number, number - 1) + 1) for number in cited if number not in misleading]
    return f"{marker[0]}{', '.join(left)}{marker[-1]}" if left else ""


def _place(number: int, numbers: Mapping[int, int], recalled: Recalled) -> int | None:
    return numbers[number] if number in numbers else recalled.place(number)


def _settled(text: str) -> int:
    """Returns how much of the text is final, whatever follows; a space before a removed marker is removed with it."""
    line = text.rfind("\n") + 1
    if text.count("`", line) % 2:
        return text.rfind("`")
    last = max(text.rfind("["), text.rfind("【"))
    settled = last if last >= 0 and _OPEN_MARKER.match(text, last) else len(text)
    return len(text[:settled].rstrip(" "))
