"""PDF: text with page numbers, paragraphs from lines, headings by the size of their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.core import Block, ParsedDocument, ParsedPage
from engine.errors import DocumentEmpty, DocumentNeedsOcr, DocumentUnreadable
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title
from engine.library.parsers.pdf_layout import PageLayout, Paragraph, layout, lines
from engine.library.parsers.pdfium import PdfFile, PdfPage, opened

# A scanned page may carry a stamp or a page number as text.
_SCANNED_CHARACTERS = 20
_HEADING_SIZE = 1.15
_MAX_HEADING_CHARACTERS = 150
_MAX_HEADING_LINES = 3
# Formulas are often set larger than the text around them.
_MAX_SIGNS = 0.2
_MAX_LEVEL = 6


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits) as file:
        layouts = _layouts(file)
        title = sane_title(file.title)
    levels = _heading_levels(layouts)
    pages = tuple(_page(number, page, levels) for number, page in enumerate(layouts, start=1))
    return ParsedDocument("pdf", title, pages)


def laid_out(page: PdfPage) -> PageLayout:
    """The page's text, the same whenever it is asked for."""
    return layout(list(lines(page.signs(), page.box)))


def _layouts(file: PdfFile) -> list[PageLayout]:
    """All pages' texts, empty ones for pages that cannot be read.

    Raises:
        DocumentNeedsOcr: What is to be read are pictures.
        DocumentEmpty: There is nothing to read.
        DocumentUnreadable: No page can be read.
    """
    layouts: list[PageLayout] = []
    num_broken, has_pictures = 0, False
    for index in range(len(file)):
        with file.page(index) as page:
            num_broken += page is None
            layouts.append(laid_out(page) if page else layout([]))
            if page and _is_bare(layouts[-1]):
                has_pictures = has_pictures or page.has_pictures()
    if num_broken == len(file):
        raise DocumentUnreadable("The PDF is damaged: none of its pages can be read.")
    if has_pictures and all(map(_is_bare, layouts)):
        raise DocumentNeedsOcr("The pages are pictures without text.", "They need OCR to become searchable.")
    if not any(page.text for page in layouts):
        raise DocumentEmpty("There is no text on the pages of the PDF.")
    return layouts


def _is_bare(page: PageLayout) -> bool:
    return len("".join(page.text.split())) < _SCANNED_CHARACTERS


def _page(number: int, page: PageLayout, levels: dict[float, int]) -> ParsedPage:
    blocks = (_block(page.text, paragraph, levels) for paragraph in page.paragraphs)
    return ParsedPage(number, page.text, tuple(blocks))


def _block(text: str, paragraph: Paragraph, levels: dict[float, int]) -> Block:
    level = levels.get(_rounded(paragraph.size), 0)
    if level and _may_be_heading(text, paragraph):
        return Block("heading", paragraph.start, paragraph.end, level)
    return Block(paragraph.kind, paragraph.start, paragraph.end)


def _heading_levels(layouts: Sequence[PageLayout]) -> dict[float, int]:
    """Sizes of letters that mark headings, with their levels: those larger than the body's, the largest first."""
    letters: Counter[float] = Counter()
    for page in layouts:
        for paragraph in page.paragraphs:
            letters[_rounded(paragraph.size)] += paragraph.end - paragraph.start
    body = letters.most_common(1)[0][0] if letters else 0.0
    sizes = {size for size in _sizes_of_headings(layouts) if size >= body * _HEADING_SIZE}
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
    """Whole points: fonts of one size differ by tenths in height."""
    return float(round(size))
