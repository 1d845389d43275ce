"""How a cited page is shown: a PDF page as a picture with marks, everything else as the text around the span."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path

from engine.core import PageView, ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers import families, pdf, pictures
from engine.library.parsers.limits import Limits
from engine.library.parsers.pdfium import PdfRefused, opened
from engine.library.parsers.shapes import Mark, Picture

MAX_PICTURE_PX = 4000
WINDOW_CHARACTERS = 20_000

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_COMPRESSION_LEVEL = 3
# Two marks on one line whose gap is narrower than this (in fractions of the page) become one.
_JOINED_GAP = 0.02


def view(path: Path, page: int | None, start: int, end: int, width_px: int, limits: Limits) -> PageView:
    """The page with `text[start:end]` marked.

    Raises:
        DocumentUnreadable: The file cannot be read any more, or has no such page.
    """
    family = families.recognise(path, limits).family
    if family == "pdf" and not limits.avoids_pdfium:
        # Where PDFium refuses, the text is that of another reader, and can be shown as such.
        with suppress(PdfRefused):
            return _pdf_view(path, page or 1, start, end, width_px, limits)
    if families.FAMILIES.get(family) == pictures.__name__:
        picture, marks, num_pages = pictures.view(path, page, start, end, limits)
        return PageView(page, num_pages, image_png=png(picture), marks=merged(marks))
    return text_view(families.parse(path, limits), page, start, end)


def text_view(document: ParsedDocument, page: int | None, start: int, end: int) -> PageView:
    """A window of the page's text with at most 20,000 characters on each side of the span."""
    found = next((parsed for parsed in document.pages if parsed.number == page), document.pages[0])
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
    )


def _pdf_view(path: Path, number: int, start: int, end: int, width_px: int, limits: Limits) -> PageView:
    with opened(path, limits) as file:
        if not 1 <= number <= len(file):
            raise DocumentUnreadable(f"The PDF has no page {number} any more.")
        file.show_forms()
        with file.page(number - 1) as page:
            if page is None:
                raise DocumentUnreadable(f"Page {number} of the PDF is damaged.")
            image = png(page.picture(max(1, width_px), MAX_PICTURE_PX))
            marks = pdf.read_page(page, limits).marks(page, start, end) if end > start else []
            return PageView(number, len(file), image_png=image, marks=merged(marks))


def merged(marks: list[Mark]) -> tuple[Mark, ...]:
    """Marks that stand side by side on one line as one (PDFium gives one for each change of font)."""
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
    """The picture as a PNG file, unfiltered: pages are mostly white, and this is fast."""
    colour = _COLOUR_TYPES[picture.num_channels]
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in picture.rows), _COMPRESSION_LEVEL)
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
