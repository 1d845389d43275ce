"""What the paragraphs of a PDF's pages are, judged over all pages: headings, running heads, text. Pure.

Headings are larger than the body, or bold and on their own; a running head repeats on most pages, and is kept only
where it first appears.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.core import Block, ParsedPage
from engine.library.parsers.pdf_layout import PageLayout, Paragraph

_HEADING_SIZE = 1.15
_MAX_HEADING_CHARACTERS = 150
_MAX_HEADING_LINES = 3
# Formulas are often set larger than the text around them.
_MAX_SIGNS = 0.2
_MAX_LEVEL = 6
# Where most short paragraphs are bold, bold means nothing.
_MAX_BOLD_SHARE = 0.5
_MAX_BOLD_CHARACTERS = 100
# Running heads: how near to the edge, how long, on how many pages and on which share of them. Left and right pages may
# have different ones.
_RUNNING_DEPTH = 2
_MAX_RUNNING_CHARACTERS = 150
_MIN_RUNNING_PAGES = 4
_RUNNING_SHARE = 0.4
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_WORD = re.compile(r"\w+|[#№]")
# Words before the number of a page, and before a number that identifies something else.
_PAGE_WORDS = {
    "page", "pages", "p", "pp", "pg", "slide", "sheet", "seite", "s", "folie", "blatt", "sida", "side", "pagina",
    "página", "pág", "hoja", "diapositiva", "strona",
}  # fmt: skip
_BARS = tuple("|–—·•")
_NUMBER_WORDS = {"no", "nr", "number", "nummer", "num", "numero", "número", "n", "id", "#", "№", "invoice", "rechnung"}
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def structured(layouts: Sequence[PageLayout]) -> tuple[ParsedPage, ...]:
    """Returns the pages with their blocks."""
    levels = _heading_levels(layouts)
    bold_level = _bold_level(layouts, levels)
    running, seen = _running(layouts, levels), set[str]()
    pages: list[ParsedPage] = []
    for number, page in enumerate(layouts, start=1):
        kept = _without_running(page, running, seen)
        blocks = (_block(page.text, paragraph, levels, bold_level) for paragraph in kept)
        pages.append(ParsedPage(number, page.text, tuple(blocks)))
    return tuple(pages)


def _block(text: str, paragraph: Paragraph, levels: dict[float, int], bold_level: int) -> Block:
    level = levels.get(_rounded(paragraph.size), 0)
    if not level and bold_level and _is_bold_heading(text, paragraph):
        level = bold_level
    if level and _may_be_heading(text, paragraph):
        return Block("heading", paragraph.start, paragraph.end, level)
    return Block(paragraph.kind, paragraph.start, paragraph.end)


# --- running heads ---


def _running(layouts: Sequence[PageLayout], levels: dict[float, int]) -> set[str]:
    """Returns the keys of lines at the edges of many pages, or of neighbouring ones, that differ only in numbers."""
    pages: dict[str, list[_Edge]] = {}
    for number, page in enumerate(layouts):
        # Titles of slides may be numbered as well, but are large.
        small = [paragraph for paragraph in _at_edges(page) if _rounded(paragraph.size) not in levels]
        edges = {_key(page, paragraph): _Edge(number, *_numbers(page, paragraph)) for paragraph in small}
        for key in edges.keys() - {""}:
            pages.setdefault(key, []).append(edges[key])
    least = max(_MIN_RUNNING_PAGES, _RUNNING_SHARE * sum(bool(page.paragraphs) for page in layouts))
    return {
        key
        for key, edges in pages.items()
        if (len(edges) >= least or _is_row([edge.page for edge in edges])) and _counts_pages(edges)
    }


@dataclass(frozen=True, slots=True)
class _Edge:
    """The numbers in a line at the edge of a page, and for each whether it may be the page number."""

    page: int
    numbers: tuple[int, ...]
    may_count: tuple[bool, ...]


def _counts_pages(edges: Sequence[_Edge]) -> bool:
    """Returns whether the numbers mostly stay the same from page to page, or grow with the pages.

    Numbers in bills and payslips, one per page, differ in other ways, and are content.
    """
    pairs = list(itertools.pairwise(edges))
    return 2 * sum(_goes_on(before, after) for before, after in pairs) >= len(pairs)


def _goes_on(before: _Edge, after: _Edge) -> bool:
    passed = after.page - before.page
    numbers = zip(before.numbers, after.numbers, after.may_count, strict=True)
    return all(0 <= new - old <= (passed if may_count else 0) for old, new, may_count in numbers)


def _is_row(numbers: Sequence[int]) -> bool:
    """Returns whether these pages follow each other, as a chapter's do; left and right pages may differ."""
    gaps = [after - before for before, after in itertools.pairwise(numbers)]
    return len(numbers) >= _MIN_RUNNING_PAGES and max(gaps) <= 2


def _at_edges(page: PageLayout) -> list[Paragraph]:
    # Recognised text comes after everything else, also after the footer of the page.
    printed = [paragraph for paragraph in page.paragraphs if paragraph.size]
    edges = {
        paragraph
        for paragraphs in (page.paragraphs, printed)
        for paragraph in (*paragraphs[:_RUNNING_DEPTH], *paragraphs[-_RUNNING_DEPTH:])
    }
    return [paragraph for paragraph in edges if paragraph.end - paragraph.start <= _MAX_RUNNING_CHARACTERS]


def _key(page: PageLayout, paragraph: Paragraph) -> str:
    # Numbers are replaced by a character that is in no text.
    return _DIGITS.sub("\0", _words(page, paragraph))


def _numbers(page: PageLayout, paragraph: Paragraph) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Returns the numbers in a line, and for each whether it may be the page number, by its position."""
    line = _words(page, paragraph)
    words = [match.span() for match in _WORD.finditer(line)]
    found = list(_DIGITS.finditer(line))
    return tuple(_value(match[0]) for match in found), tuple(_may_count(line, words, match) for match in found)


def _may_count(line: str, words: Sequence[tuple[int, int]], number: re.Match[str]) -> bool:
    before = [line[start:end] for start, end in words if end <= number.start()]
    if before and before[-1] in _NUMBER_WORDS:
        return False
    is_last = all(end <= number.end() for _, end in words)
    left, right = line[: number.start()].rstrip(), line[number.end() :].lstrip()
    stands_alone = left[-1:] in _BARS and right[:1] in _BARS
    return not before or is_last or stands_alone or before[-1] in _PAGE_WORDS


def _words(page: PageLayout, paragraph: Paragraph) -> str:
    return " ".join(page.text[paragraph.start : paragraph.end].casefold().split())


def _value(number: str) -> int:
    """Returns the value of a number in digits or Roman numerals: a smaller one before a larger one is subtracted."""
    if number[0] not in _ROMAN:
        return int(number)
    values = [_ROMAN[digit] for digit in number]
    return sum(-one if one < following else one for one, following in zip(values, [*values[1:], 0], strict=True))


def _without_running(page: PageLayout, running: set[str], seen: set[str]) -> Sequence[Paragraph]:
    """Returns the page's paragraphs without running heads that were seen before; all, if nothing else is left."""
    if not running:
        return page.paragraphs
    edges = {paragraph: _key(page, paragraph) for paragraph in _at_edges(page)}
    again = {paragraph for paragraph, key in edges.items() if key in running and key in seen}
    seen.update(edges.values())
    return [paragraph for paragraph in page.paragraphs if paragraph not in again] or page.paragraphs


# --- headings ---


def _heading_levels(layouts: Sequence[PageLayout]) -> dict[float, int]:
    """Returns the letter sizes of headings with their levels: those larger than the body's, the largest first."""
    letters: Counter[float] = Counter()
    for page in layouts:
        for paragraph in page.paragraphs:
            # The size of recognised text is unknown.
            letters[_rounded(paragraph.size)] += paragraph.end - paragraph.start if paragraph.size else 0
    body = letters.most_common(1)[0][0] if letters else 0.0
    sizes = {size for size in _sizes_of_headings(layouts) if size and size >= body * _HEADING_SIZE}
    return {size: min(level, _MAX_LEVEL) for level, size in enumerate(sorted(sizes, reverse=True), start=1)}


def _sizes_of_headings(layouts: Sequence[PageLayout]) -> Iterator[float]:
    for page in layouts:
        for paragraph in page.paragraphs:
            if _may_be_heading(page.text, paragraph):
                yield _rounded(paragraph.size)


def _may_be_heading(text: str, paragraph: Paragraph) -> bool:
    words = text[paragraph.start : paragraph.end]
    if len(words) > _MAX_HEADING_CHARACTERS or paragraph.num_lines > _MAX_HEADING_LINES:
        return False
    num_signs = sum(not (sign.isalnum() or sign.isspace()) for sign in words)
    if num_signs > _MAX_SIGNS * len(words):
        return False
    return sum(map(str.isalpha, words)) >= 2 and not words.endswith((".", ",", ";"))


def _rounded(size: float) -> float:
    """Rounds to whole points: fonts of the same size differ by tenths in height."""
    return float(round(size))


def _bold_level(layouts: Sequence[PageLayout], levels: dict[float, int]) -> int:
    """Returns the level of bold headings in the body's size: below all larger ones; 0 if bold means nothing."""
    short = [
        paragraph for page in layouts for paragraph in page.paragraphs if paragraph.num_lines <= _MAX_HEADING_LINES
    ]
    num_bold = sum(paragraph.is_bold for paragraph in short)
    if not num_bold or num_bold > _MAX_BOLD_SHARE * len(short):
        return 0
    return min(_MAX_LEVEL, max(levels.values(), default=0) + 1)


def _is_bold_heading(text: str, paragraph: Paragraph) -> bool:
    """Returns whether a bold paragraph is a heading; a label such as "Note:" is not."""
    words = text[paragraph.start : paragraph.end]
    return (
        paragraph.is_bold
        and len(words) <= _MAX_BOLD_CHARACTERS
        and (words[0].isupper() or words[0].isdigit() or not words[0].isascii())
        and not words.endswith(":")
        and text[paragraph.end :].strip() != ""
    )
