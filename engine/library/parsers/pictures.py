"""Pictures as documents: what is written in a photograph, a screenshot or a fax, read by OCR. The only user of Pillow.

Without Tesseract a picture "needs OCR". For pictures in documents, this module tells whether they may hold text.
"""

from __future__ import annotations

import importlib.util
import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from engine.core import Block, ParsedDocument, ParsedPage
from engine.errors import DocumentEmpty, DocumentNeedsOcr, DocumentTooLarge, DocumentUnreadable
from engine.library.parsers import ocr
from engine.library.parsers.limits import MAX_OCR_PAGES, Limits
from engine.library.parsers.pdf_layout import PageLayout
from engine.library.parsers.shapes import Mark, Picture

if TYPE_CHECKING:
    from PIL import Image

# More than any scanner makes; memory holds 4 bytes per pixel.
_MAX_PIXELS = 120_000_000
# Lower for pictures in documents: there may be many, and several documents are read at once.
_MAX_EMBEDDED_PIXELS = 40_000_000
# The letters of a page are about 30 pixels high at this size; a larger picture makes Tesseract slower but not better.
_MAX_SIDE_PX = 3500
# Smaller ones are icons and thumbnails.
_MIN_SIDE_PX = 64
# Documents also hold signatures, rules and bullets; a line of text is larger.
_MIN_EMBEDDED_PX = (200, 60)
# The formats that `sniff` recognises; for some others Pillow runs external programs.
_FORMATS = ("PNG", "JPEG", "TIFF", "GIF", "WEBP", "BMP", "AVIF", "JPEG2000")
# In other formats frames are an animation.
_PAGED_FORMATS = ("TIFF", "MPO")
_PILLOW = "A part of Ragdoll is missing: install it again."


def parse(path: Path, limits: Limits) -> ParsedDocument:
    if not has_pillow():
        raise DocumentNeedsOcr("This is a picture, which cannot be read without Pillow.", _PILLOW)
    if limits.ocr is None or not limits.ocr.is_ready:
        raise ocr.needs_ocr("This is a picture; what is written in it only OCR can read, and it is not set up.")
    recognised = [limits.ocr.words(picture) for picture in frames(path)]
    if all(words is None for words in recognised):
        raise DocumentUnreadable("OCR gave up on the picture.")
    layouts = [ocr.laid_out(words or ()) for words in recognised]
    if all(ocr.is_bare(layout.text) for layout in layouts):
        raise DocumentEmpty("OCR found no text in the picture.", ocr.OTHER_LANGUAGE)
    numbers = range(1, len(layouts) + 1) if len(layouts) > 1 else (None,)
    pages = (_page(number, layout) for number, layout in zip(numbers, layouts, strict=True))
    remark = ocr.given_up(recognised.count(None), len(layouts))
    return ParsedDocument("picture", "", tuple(pages), remark=remark)


def view(path: Path, number: int | None, start: int, end: int, limits: Limits) -> tuple[Picture, list[Mark], int]:
    """Returns a page's picture, the boxes of the words of a span on it, and the number of pages (0: only one).

    Raises:
        DocumentUnreadable: It cannot be shown any more.
    """
    if not has_pillow():
        raise DocumentUnreadable("The picture cannot be shown without Pillow.", _PILLOW)
    index = (number or 1) - 1
    looks = [*frames(path, "RGB", only=index)]
    if not looks:
        raise DocumentUnreadable(f"The picture has no page {number} any more.")
    marks: list[Mark] = []
    if end > start and limits.ocr is not None and limits.ocr.is_ready:
        marks = ocr.marks(limits.ocr.words(next(frames(path, only=index))) or (), start, end)
    return looks[0], marks, 0 if number is None else _count(path)


def frames(path: Path, mode: str = "L", only: int | None = None) -> Iterator[Picture]:
    """Yields the pages of a picture file, upright, in grey (L) or colour (RGB), reduced to a size that suits OCR.

    `only` yields just the page at this 0-based index. Of an animation, only the first frame is used.

    Raises:
        DocumentTooLarge: It has too many pixels.
        DocumentEmpty: It is an icon.
        DocumentUnreadable: It is damaged.
    """
    with _opened(path) as image:
        for index in range(_num_pages(image)) if only is None else range(only, min(only + 1, _num_pages(image))):
            image.seek(index)
            _check(*image.size)
            yield _picture(image, mode)


def embedded(data: bytes) -> Picture | None:
    """Returns a picture of a document in grey, as `frames` does.

    None if it cannot hold text, is damaged or needs too much memory: it must not fail the document.
    """
    try:
        with _opened(io.BytesIO(data)) as image:
            if not _may_hold_text(image):
                return None
            # A JPEG can be decoded at a reduced size.
            image.draft("L", (_MAX_SIDE_PX, _MAX_SIDE_PX))
            if image.width * image.height > _MAX_EMBEDDED_PIXELS:
                return None
            return _picture(image, "L")
    except (DocumentUnreadable, MemoryError):
        return None


def may_hold_text(data: bytes) -> bool:
    """Returns whether the data is a picture that is large enough to hold text, by its header."""
    try:
        with _opened(io.BytesIO(data)) as image:
            return _may_hold_text(image)
    except (DocumentUnreadable, MemoryError):
        return False


def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _may_hold_text(image: Image.Image) -> bool:
    least_width, least_height = _MIN_EMBEDDED_PX
    return image.width >= least_width and image.height >= least_height and image.width * image.height <= _MAX_PIXELS


@contextmanager
def _opened(source: Path | IO[bytes]) -> Iterator[Image.Image]:
    """Opens a picture with Pillow, and turns Pillow's errors into ours."""
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        # Odd tags are no reason to refuse a picture, and the number of pixels is checked here.
        warnings.simplefilter("ignore")
        try:
            with Image.open(source, formats=_FORMATS) as image:
                yield image
        except Image.DecompressionBombError as error:
            raise DocumentTooLarge("The picture has too many pixels to be read.") from error
        except UnidentifiedImageError as error:
            raise DocumentUnreadable("The picture is damaged: its structure cannot be read.") from error
        except (OSError, SyntaxError, ValueError, EOFError, struct.error) as error:
            raise DocumentUnreadable(f"The picture is damaged: {str(error).rstrip('.')}.") from error


def _num_pages(image: Image.Image) -> int:
    return min(getattr(image, "n_frames", 1), MAX_OCR_PAGES) if image.format in _PAGED_FORMATS else 1


def _count(path: Path) -> int:
    with _opened(path) as image:
        return _num_pages(image)


def _picture(image: Image.Image, mode: str) -> Picture:
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("LA", "PA", "RGBA") or "transparency" in upright.info:
        # Black letters on a transparent ground would become black on black.
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    flat = _eight_bit(upright).convert(mode)
    flat.thumbnail((_MAX_SIDE_PX, _MAX_SIDE_PX))
    pixels, row_bytes = flat.tobytes(), flat.width * len(mode)
    rows = tuple(pixels[start : start + row_bytes] for start in range(0, len(pixels), row_bytes))
    return Picture(flat.width, flat.height, len(mode), rows)


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scales 16 bits to 8: Pillow would clip values at 255."""
    return image.point(lambda value: value / 256).convert("L") if image.mode.startswith("I;16") else image


def _check(width: int, height: int) -> None:
    if width * height > _MAX_PIXELS:
        raise DocumentTooLarge(f"The picture has {width * height / 1e6:,.0f} million pixels, too many to be read.")
    if min(width, height) < _MIN_SIDE_PX:
        raise DocumentEmpty("The picture is too small to hold text.")


def _page(number: int | None, layout: PageLayout) -> ParsedPage:
    blocks = (Block(paragraph.kind, paragraph.start, paragraph.end) for paragraph in layout.paragraphs)
    return ParsedPage(number, layout.text, tuple(blocks))
