"""PDF: text with page numbers, paragraphs from lines, headings by the size of their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core import Block, Need, ParsedDocument, ParsedPage
from engine.errors import DocumentEmpty, DocumentUnreadable
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title
from engine.library.parsers.ocr import WAY_OUT, Word, given_up, is_bare, laid_out, needs_ocr
from engine.library.parsers.pdf_layout import PageLayout, Paragraph, layout, lines
from engine.library.parsers.pdfium import PdfFile, PdfPage, opened
from engine.library.parsers.shapes import Mark

# 300 dots an inch is what Tesseract is made for; larger pages than A2 are read with fewer.
_OCR_SCALE = 300 / 72
_MAX_OCR_PX = 7000
_HEADING_SIZE = 1.15
_MAX_HEADING_CHARACTERS = 150
_MAX_HEADING_LINES = 3
# Formulas are often set larger than the text around them.
_MAX_SIGNS = 0.2
_MAX_LEVEL = 6


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits) as file:
        readings = _readings(file, limits)
        title = sane_title(file.title)
    layouts = [reading.layout for reading in readings]
    levels = _heading_levels(layouts)
    pages = tuple(_page(number, page, levels) for number, page in enumerate(layouts, start=1))
    left_out = sum(reading.is_left_out for reading in readings)
    remark, needs = _remark(left_out, len(pages), limits)
    return ParsedDocument("pdf", title, pages, remark=remark, needs=needs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a page: PDFium's own text, or the `words` in its picture; `is_left_out`: neither could."""

    layout: PageLayout
    words: tuple[Word, ...] | None = None
    is_left_out: bool = False

    def marks(self, page: PdfPage, start: int, end: int) -> list[Mark]:
        """Where `layout.text[start:end]` stands on the page's picture."""
        span = self.layout.characters(start, end) if end > start else None
        if span is None:
            return []
        if self.words is None:
            return page.rectangles(*span)
        return [word.box for word in self.words[span[0] : span[0] + span[1]]]


def read_page(page: PdfPage, limits: Limits) -> Reading:
    """The page's text, the same whenever it is asked for; by OCR where the page is a picture and somebody can."""
    own = layout(list(lines(page.signs(), page.box)))
    if not is_bare(own.text) or not page.has_pictures():
        return Reading(own)
    if limits.ocr is None or not limits.ocr.is_ready:
        return Reading(own, is_left_out=True)
    words = limits.ocr.words(page.picture(page.width * _OCR_SCALE, _MAX_OCR_PX, is_grey=True))
    if words is None:
        return Reading(own, is_left_out=True)
    recognised = laid_out(words)
    # What is set as text beside a picture without writing, a page number say, is all there is.
    return Reading(recognised, words) if len(recognised.text) > len(own.text) else Reading(own)


def _readings(file: PdfFile, limits: Limits) -> list[Reading]:
    """All pages' texts, empty ones for pages that cannot be read.

    Raises:
        DocumentNeedsOcr: What is to be read are pictures.
        DocumentEmpty: There is nothing to read.
        DocumentUnreadable: No page can be read.
    """
    readings: list[Reading] = []
    num_broken = 0
    for index in range(len(file)):
        with file.page(index) as page:
            num_broken += page is None
            readings.append(read_page(page, limits) if page else Reading(layout([])))
    if num_broken == len(file):
        raise DocumentUnreadable("The PDF is damaged: none of its pages can be read.")
    is_worthless = all(is_bare(reading.layout.text) for reading in readings)
    if is_worthless and any(reading.is_left_out for reading in readings):
        if limits.can_ocr:
            raise DocumentUnreadable("OCR gave up on the pages, which are pictures without text.")
        raise needs_ocr("The pages are pictures without text.")
    if not any(reading.layout.text for reading in readings):
        raise DocumentEmpty("There is no text on the pages of the PDF.")
    return readings


def _remark(left_out: int, num_pages: int, limits: Limits) -> tuple[str, Need]:
    """What is said of a document of which so many pages could not be read, and what would help."""
    if not left_out:
        return "", ""
    if limits.can_ocr:
        return given_up(left_out, num_pages), ""
    are = "is a picture and was" if left_out == 1 else "are pictures and were"
    return f"{left_out} of its {num_pages} pages {are} left out. {WAY_OUT}", "ocr"


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
            # Of recognised text nobody knows the size.
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
    """Whole points: fonts of one size differ by tenths in height."""
    return float(round(size))
