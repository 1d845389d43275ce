"""PDF: the text of each page, by PDFium, by OCR where a page is a picture, by pypdf where PDFium cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import Need, ParsedDocument
from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentUnreadable
from engine.library.parsers import pdf_fallback
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title
from engine.library.parsers.ocr import OTHER_LANGUAGE, WAY_OUT, Word, given_up, is_bare, laid_out, needs_ocr
from engine.library.parsers.pdf_layout import PageLayout, layout, lines, with_notes
from engine.library.parsers.pdf_structure import structured
from engine.library.parsers.pdfium import FormField, PdfFile, PdfPage, PdfRefused, opened
from engine.library.parsers.shapes import Mark

# 300 dots an inch is what Tesseract is made for; larger pages than A2 are read with fewer.
_OCR_SCALE = 300 / 72
_MAX_OCR_PX = 7000


def parse(path: Path, limits: Limits) -> ParsedDocument:
    if limits.avoids_pdfium:
        return pdf_fallback.parse(path, limits)
    try:
        return _parse(path, limits)
    except PdfRefused as error:
        try:
            return pdf_fallback.parse(path, limits)
        except DocumentEncrypted:
            raise
        except DocumentUnreadable:
            # What PDFium says of a file that nobody can read is the better sentence.
            raise error from None


def _parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits) as file:
        file.show_forms()
        readings = _readings(file, limits)
        title = sane_title(file.title)
    pages = structured([reading.layout for reading in readings])
    left_out = sum(reading.is_left_out for reading in readings)
    remark, needs = _remark(left_out, len(pages), limits)
    return ParsedDocument("pdf", title, pages, remark=remark, needs=needs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a page: PDFium's own text, or the `words` in its picture; `is_left_out`: neither could.

    `is_picture`: OCR has looked at it. What is filled into `fields` stands at the end of the text.
    """

    layout: PageLayout
    words: tuple[Word, ...] | None = None
    is_left_out: bool = False
    is_picture: bool = False
    fields: tuple[FormField, ...] = ()

    def marks(self, page: PdfPage, start: int, end: int) -> list[Mark]:
        """Where `layout.text[start:end]` stands on the page's picture."""
        span = self.layout.characters(start, end) if end > start else None
        marks: list[Mark] = []
        if span is not None and self.words is None:
            marks = page.rectangles(*span)
        elif span is not None and self.words is not None:
            marks = [word.box for word in self.words[span[0] : span[0] + span[1]]]
        return [
            *marks,
            *(field.mark for field, at in self._placed_fields() if at < end and start < at + len(field.text)),
        ]

    def _placed_fields(self) -> Iterator[tuple[FormField, int]]:
        at = len(self.layout.text)
        for field in reversed(self.fields):
            at -= len(field.text)
            yield field, at
            at -= 2


def read_page(page: PdfPage, limits: Limits) -> Reading:
    """The page's text, the same whenever it is asked for; by OCR where the page is a picture and somebody can."""
    reading = _printed(page, limits)
    fields = page.fields()
    if not fields:
        return reading
    return replace(reading, layout=with_notes(reading.layout, [field.text for field in fields]), fields=fields)


def _printed(page: PdfPage, limits: Limits) -> Reading:
    """What stands on the page without what has been filled in."""
    own = layout(list(lines(page.signs(), page.box)), page.is_bold)
    if not is_bare(own.text) or not page.has_pictures():
        return Reading(own)
    if limits.ocr is None or not limits.ocr.is_ready:
        return Reading(own, is_left_out=True)
    words = limits.ocr.words(page.picture(page.width * _OCR_SCALE, _MAX_OCR_PX, is_grey=True))
    if words is None:
        return Reading(own, is_left_out=True)
    recognised = laid_out(words)
    # What is set as text beside a picture without writing, a page number say, is all there is.
    is_worth_more = len(recognised.text) > len(own.text)
    return Reading(recognised, words, is_picture=True) if is_worth_more else Reading(own, is_picture=True)


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
        raise PdfRefused("The PDF is damaged: none of its pages can be read.")
    is_worthless = all(is_bare(reading.layout.text) for reading in readings)
    if is_worthless and any(reading.is_left_out for reading in readings):
        if limits.can_ocr:
            raise DocumentUnreadable("OCR gave up on the pages, which are pictures without text.")
        raise needs_ocr("The pages are pictures, which only OCR can read, and it is not set up.")
    if not any(reading.layout.text for reading in readings):
        raise _empty(sum(reading.is_picture for reading in readings), len(readings))
    return readings


def _empty(num_pictures: int, num_pages: int) -> DocumentEmpty:
    """What is said of a PDF in which nothing was found, though OCR looked at so many of its pages."""
    if not num_pictures:
        return DocumentEmpty("There is no text on the pages of the PDF.")
    sentence = "The pages are pictures, and OCR found no text in them."
    if num_pictures < num_pages:
        sentence = (
            f"OCR found no text in the pictures on {num_pictures} of its {num_pages} pages; the others hold none."
        )
    return DocumentEmpty(sentence, OTHER_LANGUAGE)


def _remark(left_out: int, num_pages: int, limits: Limits) -> tuple[str, Need]:
    """What is said of a document of which so many pages could not be read, and what would help."""
    if not left_out:
        return "", ""
    if limits.can_ocr:
        return given_up(left_out, num_pages), ""
    are = "is a picture and was" if left_out == 1 else "are pictures and were"
    return f"{left_out} of its {num_pages} pages {are} left out. {WAY_OUT}", "ocr"
