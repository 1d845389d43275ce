"""PDF: the text of each page, by PDFium, by OCR where it is or holds a picture, by pypdf where PDFium cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import Need, ParsedDocument
from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentUnreadable
from engine.library.parsers import pdf_fallback
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title
from engine.library.parsers.ocr import (
    MAX_GIVEN_UP,
    OTHER_LANGUAGE,
    WAY_OUT,
    Word,
    given_up,
    given_up_on,
    is_bare,
    is_stamp,
    laid_out,
    needs_ocr,
)
from engine.library.parsers.pdf_layout import PageLayout, layout, lines, one_below, with_notes
from engine.library.parsers.pdf_pictures import chosen, large_pictures
from engine.library.parsers.pdf_structure import structured
from engine.library.parsers.pdfium import Note, PdfFile, PdfPage, PdfRefused, Shown, opened
from engine.library.parsers.shapes import Mark

# Tesseract is made for 300 dots per inch; pages larger than A2 are read with fewer.
_OCR_SCALE = 300 / 72
_MAX_OCR_PX = 7000
# More paragraphs than any picture has, so that those of several pictures have different numbers.
_PARAGRAPHS_PER_PICTURE = 10**9


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
            # PDFium's sentence about an unreadable file is better.
            raise error from None


def _parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits) as file:
        file.show_forms()
        readings = _readings(file, limits)
        title = sane_title(file.title)
    pages = structured([reading.layout for reading in readings])
    left_out = sum(reading.is_left_out for reading in readings)
    remark, needs = _remark(left_out, len(pages), limits)
    remark = " ".join(filter(None, (remark, given_up_on(sum(reading.num_given_up for reading in readings)))))
    return ParsedDocument("pdf", title, pages, remark=remark, needs=needs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a page: PDFium's text, then the `words` that OCR read in the page or in pictures on it.

    `is_left_out`: the page is a picture that could not be read. `is_picture`: OCR has read the page. `num_given_up`
    counts pictures on it on which OCR gave up. The `notes` are at the end of the text.
    """

    layout: PageLayout
    num_own: int = 0
    words: tuple[Word, ...] = ()
    is_left_out: bool = False
    is_picture: bool = False
    num_given_up: int = 0
    notes: tuple[Note, ...] = ()

    def marks(self, page: PdfPage, start: int, end: int) -> list[Mark]:
        """Returns where `layout.text[start:end]` is on the page's picture."""
        own = self.layout.characters(start, min(end, self.num_own))
        read = self.layout.characters(max(start, self.num_own), end)
        return [
            *(page.rectangles(*own) if own else ()),
            *(word.box for word in (self.words[read[0] : read[0] + read[1]] if read else ())),
            *(note.mark for note, at in self._placed_notes() if at < end and start < at + len(note.text)),
        ]

    def _placed_notes(self) -> Iterator[tuple[Note, int]]:
        at = len(self.layout.text)
        for note in reversed(self.notes):
            at -= len(note.text)
            yield note, at
            at -= 2


def read_page(page: PdfPage, limits: Limits, pictures: Sequence[Shown] = ()) -> Reading:
    """Reads a page's text, always with the same result; by OCR if the page is a picture and OCR is set up.

    `pictures` are those to read on a page of text, as from `pdf_pictures.to_read`.
    """
    notes = page.notes()
    reading = _printed(page, [note.mark for note in notes], limits, pictures)
    if not notes:
        return reading
    return replace(reading, layout=with_notes(reading.layout, [note.text for note in notes]), notes=notes)


def _printed(page: PdfPage, noted: Sequence[Mark], limits: Limits, pictures: Sequence[Shown]) -> Reading:
    """Reads the page without its notes."""
    own = layout(list(lines(page.signs(), page.box)), page.is_bold)
    reading = Reading(own, len(own.text))
    if not (page.has_pictures() if is_bare(own.text) else is_stamp(own, page.height) and page.is_covered()):
        return _with_pictures(page, reading, noted, limits, pictures) if pictures else reading
    if limits.ocr is None or not limits.ocr.is_ready:
        return replace(reading, is_left_out=True)
    words = limits.ocr.words(page.picture(page.width * _OCR_SCALE, _MAX_OCR_PX, is_grey=True))
    if words is None:
        return replace(reading, is_left_out=True)
    words = _unknown(words, page, own, noted)
    return Reading(one_below(own, laid_out(words)), len(own.text), words, is_picture=True)


def _with_pictures(
    page: PdfPage, reading: Reading, noted: Sequence[Mark], limits: Limits, pictures: Sequence[Shown]
) -> Reading:
    """Returns the reading with the text of these pictures below the page's own text."""
    words: list[Word] = []
    num_given_up = 0
    for number, shown in enumerate(pictures, start=1):
        picture = page.picture(page.width * _OCR_SCALE, _MAX_OCR_PX, is_grey=True, part=shown.mark)
        found = limits.ocr.words(picture) if limits.ocr is not None else ()
        if found is None:
            num_given_up += 1
            continue
        placed = [_placed(word, shown.mark, number * _PARAGRAPHS_PER_PICTURE) for word in found]
        said = _unknown(placed, page, reading.layout, noted)
        words += () if is_bare(laid_out(said).text) else said
    below = one_below(reading.layout, laid_out(words))
    return replace(reading, layout=below, words=tuple(words), num_given_up=num_given_up)


def _placed(word: Word, part: Mark, first_paragraph: int) -> Word:
    """Converts a word's box from a part of the page to the whole page."""
    across, down = part[2] - part[0], part[3] - part[1]
    x0, y0, x1, y1 = word.box
    box = (part[0] + x0 * across, part[1] + y0 * down, part[0] + x1 * across, part[1] + y1 * down)
    return replace(word, box=box, paragraph=first_paragraph + word.paragraph)


def _unknown(words: Sequence[Word], page: PdfPage, own: PageLayout, noted: Sequence[Mark]) -> tuple[Word, ...]:
    """Drops recognised words that are also text or notes on the page: the rendered page shows these as well."""
    span = own.characters(0, len(own.text))
    known = [*noted, *(page.rectangles(*span) if span else ())]
    return tuple(word for word in words if not any(_lies_in(word.box, mark) for mark in known))


def _lies_in(box: Mark, mark: Mark) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return mark[0] <= x <= mark[2] and mark[1] <= y <= mark[3]


def _readings(file: PdfFile, limits: Limits) -> list[Reading]:
    """Reads all pages; those that cannot be read are empty.

    Raises:
        DocumentNeedsOcr: The pages are pictures.
        DocumentEmpty: There is nothing to read.
        DocumentUnreadable: No page can be read.
    """
    readings: list[Reading] = []
    pictures: list[tuple[Shown, ...]] = []
    num_broken = 0
    for index in range(len(file)):
        with file.page(index) as page:
            num_broken += page is None
            readings.append(read_page(page, limits) if page else Reading(layout([])))
            pictures.append(large_pictures(page) if page and limits.can_ocr else ())
    if num_broken == len(file):
        raise PdfRefused("The PDF is damaged: none of its pages can be read.")
    if any(reading.is_left_out for reading in readings) and _say_nothing(readings):
        if limits.can_ocr:
            raise DocumentUnreadable("OCR gave up on the pages, which are pictures without text.")
        raise needs_ocr("The pages are pictures, which only OCR can read, and it is not set up.")
    if not any(reading.layout.text for reading in readings):
        raise _empty(sum(reading.is_picture for reading in readings), len(readings))
    return _with_pictures_read(file, readings, chosen(pictures), limits)


def _with_pictures_read(
    file: PdfFile, readings: Sequence[Reading], pictures: Sequence[Sequence[Shown]], limits: Limits
) -> list[Reading]:
    """Returns the readings; those of text pages include the text of the pictures on them."""
    done: list[Reading] = []
    num_given_up = 0
    for index, reading in enumerate(readings):
        if pictures[index] and not (reading.is_picture or reading.is_left_out) and num_given_up < MAX_GIVEN_UP:
            with file.page(index) as page:
                reading = read_page(page, limits, pictures[index]) if page else reading
            num_given_up += reading.num_given_up
        done.append(reading)
    return done


def _say_nothing(readings: Sequence[Reading]) -> bool:
    """Returns whether the pages have no text but one stamp, which may differ in its numbers.

    Several lines on a single page are more than a stamp: a flyer, or a certificate, on a picture.
    """
    written = [reading for reading in readings if not is_bare(reading.layout.text)]
    stamps = {re.sub(r"[\W\d]+", "", reading.layout.text) for reading in written}
    num_lines = sum(paragraph.num_lines for reading in written for paragraph in reading.layout.paragraphs)
    return (
        len(stamps) <= 1 and all(reading.is_left_out for reading in written) and (len(written) != 1 or num_lines == 1)
    )


def _empty(num_pictures: int, num_pages: int) -> DocumentEmpty:
    """Returns the error for a PDF without text; OCR has read `num_pictures` of its pages."""
    if not num_pictures:
        return DocumentEmpty("There is no text on the pages of the PDF.")
    sentence = "The pages are pictures, and OCR found no text in them."
    if num_pictures < num_pages:
        sentence = (
            f"OCR found no text in the pictures on {num_pictures} of its {num_pages} pages; the others hold none."
        )
    return DocumentEmpty(sentence, OTHER_LANGUAGE)


def _remark(left_out: int, num_pages: int, limits: Limits) -> tuple[str, Need]:
    """Returns the remark on pages that could not be read, and what would help."""
    if not left_out:
        return "", ""
    if limits.can_ocr:
        return given_up(left_out, num_pages), ""
    are = "is a picture and was" if left_out == 1 else "are pictures and were"
    return f"{left_out} of its {num_pages} pages {are} left out. {WAY_OUT}", "ocr"
