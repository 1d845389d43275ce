"""How a cited page is shown: a PDF page as a picture with marks, everything else as the text around the span."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import PageView, ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers import families, pdf, pdf_pictures, pictures
from engine.library.parsers.limits import Limits
from engine.library.parsers.pdfium import PdfFile, PdfPage, PdfRefused, Shown, opened
from engine.library.parsers.shapes import Mark, Picture

MAX_PICTURE_PX = 4000
WINDOW_CHARACTERS = 20_000
# A cited passage of a PDF is searched for on so many pages before and after its own: reading each takes time.
NEAR_PAGES = 5
# At most so many characters may be between two parts of a passage.
MOST_BETWEEN = 200

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_COMPRESSION_LEVEL = 3
# Two marks on one line whose gap is narrower than this (in fractions of the page) become one.
_JOINED_GAP = 0.02
# This share of a passage's words is found again if another OCR version reads the same picture.
_ALIKE = 0.5


def view(
    path: Path, page: int | None, start: int, end: int, width_px: int, limits: Limits, cited: str = ""
) -> PageView:
    """Returns the page with `start..end` of its text marked, or with the `cited` text marked where it is now.

    The file may have changed since, so the text at the old position may not be what an answer cited. For pictures only
    the position counts.

    Raises:
        DocumentUnreadable: The file cannot be read any more, or has no such page.
    """
    family = families.recognise(path, limits).family
    if family == "pdf" and not limits.avoids_pdfium:
        # If PDFium refuses the file, the fallback's text is shown.
        with suppress(PdfRefused):
            return _pdf_view(path, page or 1, start, end, width_px, limits, cited)
    if families.FAMILIES.get(family) == pictures.__name__:
        picture, marks, num_pages = pictures.view(path, page, start, end, limits)
        return PageView(page, num_pages, image_png=png(picture), marks=merged(marks))
    if limits.ocr is not None and limits.can_ocr and (cited or end <= start):
        # If the passage is found without new OCR, the user does not have to wait for that.
        recalling = replace(limits, ocr=limits.ocr.recalling())
        with suppress(DocumentUnreadable):
            seen = text_view(families.parse(path, recalling), page, start, end, cited)
            if not seen.is_changed:
                return seen
    return text_view(families.parse(path, limits), page, start, end, cited)


def text_view(document: ParsedDocument, page: int | None, start: int, end: int, cited: str = "") -> PageView:
    """Returns a window of the page's text with at most 20,000 characters on each side of the span."""
    pages = sorted(document.pages, key=lambda parsed: parsed.number != page)
    if cited:
        places = ((parsed, span) for parsed in pages if (span := place_of(cited, parsed.text, start, end)))
        found, (start, end) = next(places, (pages[0], (0, 0)))
    else:
        found = pages[0]
        start, end = min(start, len(found.text)), min(end, len(found.text))
    first, last = max(0, start - WINDOW_CHARACTERS), end + WINDOW_CHARACTERS
    num_pages = sum(parsed.number is not None for parsed in document.pages)
    return PageView(
        found.number,
        num_pages,
        text=found.text[first:last],
        text_start=first,
        mark_start=start,
        mark_end=end,
        place=found.place,
        is_changed=bool(cited) and start == end,
    )


def place_of(cited: str, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Returns where `cited` is in a text: at its old position, else nearest to it; None if it is not found.

    A passage is as long as its span, but it has white space in place of text that is not indexed, such as a rule or a
    comment.
    """
    if len(cited) == len(there := text[start:end]) == end - start and all(map(_may_be, cited, there)):
        return start, end
    found = (match.span() for match in re.finditer(_pattern_of(cited), text))
    return min(found, key=lambda at: abs(at[0] - start), default=None)


def _may_be(ours: str, theirs: str) -> bool:
    # Lone surrogates are stored as replacement characters (well_formed.py).
    return ours == theirs or ours.isspace() or ours == "\N{REPLACEMENT CHARACTER}"


def _pattern_of(cited: str) -> str:
    # Atomic groups look for each part only where it comes first; otherwise a text that lacks the last word would cause
    # exponential backtracking.
    first, *others = (r"\s+".join(map(re.escape, part.split())) for part in re.split(r"\s{3,}", cited.strip()))
    return first + "".join(rf"(?>[\s\S]{{1,{MOST_BETWEEN}}}?{part})" for part in others)


def _pdf_view(path: Path, number: int, start: int, end: int, width_px: int, limits: Limits, cited: str) -> PageView:
    with opened(path, limits) as file:
        # Otherwise filled-in fields are not read.
        file.show_forms()
        place: _Place | None = _Place(number, start, end, is_recognised=True)
        if cited:
            place = _place_in_pdf(file, cited, number, start, end, limits)
        elif not 1 <= number <= len(file):
            raise DocumentUnreadable(f"The PDF has no page {number} any more.")
        shown = place or _Place(max(1, min(number, len(file))), 0, 0)
        with file.page(shown.page - 1) as page:
            if page is None:
                raise DocumentUnreadable(f"Page {shown.page} of the PDF is damaged.")
            image = png(page.picture(max(1, width_px), MAX_PICTURE_PX))
            marks = merged(_marks_in_pdf(file, page, shown, limits)) if shown.end > shown.start else ()
            return PageView(shown.page, len(file), image_png=image, marks=marks, is_changed=place is None)


@dataclass(frozen=True, slots=True)
class _Place:
    """A span of a page's text; `is_recognised`: of the text that includes what OCR reads on the page."""

    page: int
    start: int
    end: int
    is_recognised: bool = False


def _marks_in_pdf(file: PdfFile, page: PdfPage, place: _Place, limits: Limits) -> list[Mark]:
    own = pdf.read_page(page, replace(limits, ocr=None))
    if not place.is_recognised or (not own.is_left_out and place.end <= own.num_own):
        return own.marks(page, place.start, place.end)
    pictures = () if own.is_left_out else pdf_pictures.to_read(file, place.page - 1, limits)
    return pdf.read_page(page, limits, pictures).marks(page, place.start, place.end)


def _place_in_pdf(file: PdfFile, cited: str, number: int, start: int, end: int, limits: Limits) -> _Place | None:
    """Finds the cited text on its page, or a few pages before or after it.

    For a page that is a picture only the position counts, because recognised text depends on the OCR version. For a
    picture on a page it counts if the text read in it now is much the same.
    """
    holds_picture = False
    near = sorted(range(number - NEAR_PAGES, number + NEAR_PAGES + 1), key=lambda other: abs(other - number))
    for other in near:
        if not 1 <= other <= len(file):
            continue
        with file.page(other - 1) as page:
            reading = pdf.read_page(page, replace(limits, ocr=None)) if page is not None else None
        if reading is None:
            continue
        if reading.is_left_out and other == number:
            return _Place(number, start, end, is_recognised=True)
        if span := place_of(cited, reading.layout.text, start, end):
            return _Place(other, *span)
        holds_picture |= other == number and end > reading.num_own
    pictures = pdf_pictures.to_read(file, number - 1, limits) if holds_picture else ()
    return _place_in_pictures(file, cited, number, start, end, limits, pictures) if pictures else None


def _place_in_pictures(
    file: PdfFile, cited: str, number: int, start: int, end: int, limits: Limits, pictures: Sequence[Shown]
) -> _Place | None:
    with file.page(number - 1) as page:
        reading = pdf.read_page(page, limits, pictures) if page is not None else None
    if reading is None:
        return None
    if span := place_of(cited, reading.layout.text, start, end):
        return _Place(number, *span, is_recognised=True)
    words, there = cited.split(), set(reading.layout.text[reading.num_own :].split())
    is_alike = sum(word in there for word in words) >= _ALIKE * len(words)
    return _Place(number, start, end, is_recognised=True) if is_alike else None


def merged(marks: list[Mark]) -> tuple[Mark, ...]:
    """Joins marks that are side by side on one line (PDFium returns one for each change of font)."""
    lines: list[Mark] = []
    for mark in marks:
        if lines and _on_one_line(lines[-1], mark):
            last = lines.pop()
            mark = (min(last[0], mark[0]), min(last[1], mark[1]), max(last[2], mark[2]), max(last[3], mark[3]))
        lines.append(mark)
    return tuple(lines)


def _on_one_line(first: Mark, second: Mark) -> bool:
    overlap = min(first[3], second[3]) - max(first[1], second[1])
    lower = min(first[3] - first[1], second[3] - second[1])
    return overlap > 0.5 * lower and -_JOINED_GAP < second[0] - first[2] < _JOINED_GAP


def png(picture: Picture) -> bytes:
    """Encodes the picture as PNG, without filters: pages are mostly white, and this is fast."""
    colour = _COLOUR_TYPES[picture.num_channels]
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in picture.rows), _COMPRESSION_LEVEL)
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
