"""From the characters of a PDF page to text in paragraphs; pure, and the same each time for the same page.

The text of a page must not depend on other pages: to mark a citation, its page is laid out again, and the characters
of a span are looked up (`PageLayout.characters`).
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.core import BlockKind
from engine.library.parsers.shapes import Box
from engine.library.parsers.text import LIST_MARK

_HYPHEN = "\x02"
_LINE_END = re.compile(r"[\n\r\x02]")
_LIGATURES = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
_UNSHOWN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u200b-\u200f\ud800-\udfff\ufffe\uffff]")
_SPECIAL = re.compile(rf"{_UNSHOWN.pattern}|[\ufb00-\ufb06]")
_SPACE = re.compile(r"\s")
_IDEOGRAPH = re.compile(r"[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
_SENTENCE_END = re.compile(r"[.!?:;。！？…][\"'”’)\]]*$")
# After these the hyphen is part of the word, even at the end of a line.
_COMPOUND_STARTS = {"well", "self", "non", "quasi"}
_SAME_SIZE = 1.15
_SHORT_LINE = 0.75
_MAX_BOLD_LINES = 2
_SIZE_SAMPLE = 8
# Exponents and indices are shifted by less than this, in multiples of the letters' size.
_SAME_LINE_STEP = 0.6


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a page, in letters of `size` points; `indices[i]` is the index of the character of `text[i]`."""

    text: str
    indices: Sequence[int]
    box: Box
    size: float
    is_hyphenated: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph, `text[start:end]` of the page, in letters of `size` points; `is_bold` is set for short ones only."""

    start: int
    end: int
    kind: BlockKind
    size: float
    num_lines: int
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class PageLayout:
    """A page's text with its paragraphs; `indices[i]` is the character of `text[i]`, -1 for white space we added."""

    text: str
    indices: tuple[int, ...]
    paragraphs: tuple[Paragraph, ...]

    def characters(self, start: int, end: int) -> tuple[int, int] | None:
        """Returns the first of PDFium's characters in `text[start:end]` and their number; None if there are none."""
        behind = [index for index in self.indices[start:end] if index >= 0]
        return (behind[0], behind[-1] - behind[0] + 1) if behind else None


def lines(signs: str, box: Callable[[int], Box]) -> Iterator[TextLine]:
    """Yields the lines of a page that have text; `signs` has one sign for each of PDFium's characters."""
    start = 0
    for end in (*(match.start() for match in _LINE_END.finditer(signs)), len(signs)):
        text, indices = _shown(signs, start, end)
        if text:
            yield _line(text, indices, box, is_hyphenated=signs[end : end + 1] == _HYPHEN)
        start = end + 1


def layout(text_lines: Sequence[TextLine], is_bold: Callable[[int], bool] | None = None) -> PageLayout:
    """Joins lines to paragraphs, with a blank line between two paragraphs.

    `is_bold` returns whether one of PDFium's characters is bold.
    """
    return joined([*_groups(text_lines)], is_bold)


def joined(groups: Sequence[Sequence[TextLine]], is_bold: Callable[[int], bool] | None = None) -> PageLayout:
    """Lays out a page whose paragraphs are known, as groups of lines."""
    builder = _Builder(_hyphenated_words([line for group in groups for line in group]), is_bold)
    for group in groups:
        builder.add(group)
    return PageLayout("".join(builder.characters), tuple(builder.indices), tuple(builder.paragraphs))


def with_notes(page: PageLayout, notes: Sequence[str]) -> PageLayout:
    """Appends paragraphs that are not among the page's characters."""
    text, indices, paragraphs = page.text, [*page.indices], [*page.paragraphs]
    for note in notes:
        text += "\n\n" if text else ""
        paragraphs.append(Paragraph(len(text), len(text) + len(note), "paragraph", 0.0, 1))
        text += note
    indices += [-1] * (len(text) - len(indices))
    return PageLayout(text, tuple(indices), tuple(paragraphs))


def one_below(above: PageLayout, below: PageLayout) -> PageLayout:
    """Joins two texts of a page; the indices of both stay as they are."""
    if not above.text or not below.text:
        return below if not above.text else above
    at = len(above.text) + len("\n\n")
    moved = (replace(paragraph, start=at + paragraph.start, end=at + paragraph.end) for paragraph in below.paragraphs)
    return PageLayout(
        f"{above.text}\n\n{below.text}", (*above.indices, -1, -1, *below.indices), (*above.paragraphs, *moved)
    )


def _shown(signs: str, start: int, end: int) -> tuple[str, Sequence[int]]:
    """Returns the readable text of `signs[start:end]`, and the index of the character of each letter."""
    part = signs[start:end]
    if not _SPECIAL.search(part):
        text = part.strip()
        first = start + len(part) - len(part.lstrip())
        return _SPACE.sub(" ", text), range(first, first + len(text))
    pairs = [(letter, index) for index in range(start, end) for letter in _letters(signs, index)]
    text = "".join(letter for letter, _ in pairs)
    lead = len(text) - len(text.lstrip())
    return _SPACE.sub(" ", text.strip()), [index for _, index in pairs[lead : len(text.rstrip())]]


def _letters(signs: str, index: int) -> str:
    """Returns a sign as text: ligatures spelled out, surrogate pairs joined, control characters left out."""
    sign, after = signs[index], signs[index + 1 : index + 2]
    if "\ud800" <= sign < "\udc00" and "\udc00" <= after < "\ue000":
        return chr(0x10000 + (ord(sign) - 0xD800) * 0x400 + ord(after) - 0xDC00)
    return _LIGATURES.get(sign, "" if _UNSHOWN.match(sign) else sign)


def _line(text: str, indices: Sequence[int], box: Callable[[int], Box], *, is_hyphenated: bool) -> TextLine:
    first, last = box(indices[0]), box(indices[-1])
    whole = Box(first.left, min(first.bottom, last.bottom), last.right, max(first.top, last.top))
    return TextLine(text, indices, whole, _size(text, indices, box), is_hyphenated)


def _size(text: str, indices: Sequence[int], box: Callable[[int], Box]) -> float:
    """Returns the usual height of the line's letters, without mathematical signs, whose fonts have odd proportions."""
    picked = range(0, len(text), max(1, len(text) // _SIZE_SAMPLE))
    sample = [indices[place] for place in picked if text[place].isalnum()] or [indices[place] for place in picked]
    return statistics.median(box(index).height for index in sample)


def _groups(text_lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    leading = _leading(text_lines)
    right = max((line.box.right for line in text_lines), default=0.0)
    group: list[TextLine] = []
    for line in text_lines:
        if group and _begins_paragraph(group[-1], line, leading, right):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _leading(text_lines: Sequence[TextLine]) -> float:
    """Returns the usual distance from one line to the next, in multiples of the letters' size."""
    steps = [_step(above, below) for above, below in itertools.pairwise(text_lines)]
    usual = [step for step in steps if 0.5 < step < 2.5]
    return statistics.median(usual) if usual else 1.2


def _step(above: TextLine, below: TextLine) -> float:
    return (above.box.bottom - below.box.bottom) / max(1.0, above.size, below.size)


def _begins_paragraph(above: TextLine, line: TextLine, leading: float, right: float) -> bool:
    step = _step(above, line)
    if above.is_hyphenated:
        return False
    if abs(step) < _SAME_LINE_STEP and line.box.left >= above.box.right - 1:
        return False
    if max(above.size, line.size) > _SAME_SIZE * max(1.0, min(above.size, line.size)):
        return True
    if step < 0 or step > 1.3 * leading:
        return True
    if LIST_MARK.match(line.text):
        return True
    ends = _SENTENCE_END.search(above.text) is not None
    is_indented = line.box.left - above.box.left > 0.8 * line.size
    is_short = above.box.right < right * _SHORT_LINE
    return ends and (is_indented or is_short)


class _Builder:
    """Joins lines into the page's text and keeps the indices of the characters."""

    def __init__(self, hyphenated_words: set[str], is_bold: Callable[[int], bool] | None) -> None:
        self._is_bold = is_bold
        self.characters: list[str] = []
        self.indices: list[int] = []
        self.paragraphs: list[Paragraph] = []
        self._hyphenated_words = hyphenated_words

    def add(self, group: Sequence[TextLine]) -> None:
        if self.characters:
            self._own("\n\n")
        start = len(self.characters)
        for above, line in zip((None, *group), group, strict=False):
            if above is not None:
                self._own(self._joint(above, line))
            self.characters += line.text
            self.indices += line.indices
        kind: BlockKind = "list_item" if LIST_MARK.match(group[0].text) else "paragraph"
        size = statistics.median(line.size for line in group)
        is_bold = self._is_all_bold(group)
        self.paragraphs.append(Paragraph(start, len(self.characters), kind, size, len(group), is_bold))

    def _is_all_bold(self, group: Sequence[TextLine]) -> bool:
        """Returns whether a short paragraph is all bold, judged by three letters of each line."""
        if self._is_bold is None or len(group) > _MAX_BOLD_LINES:
            return False
        return all(self._is_bold(line.indices[at]) for line in group for at in (0, len(line.indices) // 2, -1))

    def _own(self, text: str) -> None:
        self.characters += text
        self.indices += [-1] * len(text)

    def _joint(self, above: TextLine, line: TextLine) -> str:
        if above.is_hyphenated:
            return "" if self._is_one_word(above.text, line.text) else "-"
        return "" if _IDEOGRAPH.match(above.text[-1]) and _IDEOGRAPH.match(line.text[0]) else " "

    def _is_one_word(self, above: str, below: str) -> bool:
        first, second = _last_word(above), _first_word(below)
        if not second[:1].islower() or first.lower() in _COMPOUND_STARTS:
            return False
        return f"{first}-{second}".lower() not in self._hyphenated_words


def _hyphenated_words(text_lines: Sequence[TextLine]) -> set[str]:
    """Returns words that the page writes with a hyphen within a line: a hyphen at a line's end may be part of them."""
    return {word.lower() for line in text_lines for word in re.findall(r"(?<!\w)\w++-\w+", line.text)}


def _last_word(text: str) -> str:
    return re.split(r"\W", text)[-1]


def _first_word(text: str) -> str:
    return re.split(r"\W", text, maxsplit=1)[0]
