"""PDFium with types: the only module that touches pypdfium2, its untyped helpers and its raw functions."""

from __future__ import annotations

import ctypes
import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import remarks
from engine.library.parsers.encoding import clean
from engine.library.parsers.limits import Limits, needs_password
from engine.library.parsers.shapes import Box, Mark, Picture

# Coordinates are mapped through integers; this many steps across a page is finer than any screen.
_STEPS = 100_000
_DEPTH = 4
# The strokes of about twenty letters.
_MIN_STROKES = 200
# A scan may have white edges.
_COVERED = 0.7
# Points beyond any page's edge.
_FAR = 1e6
_WHOLE: Mark = (0.0, 0.0, 1.0, 1.0)
_BOLD_WEIGHT = 600
_MAX_FONT_NAME_BYTES = 256
_BOLD_NAME = re.compile(rb"bold|black|heavy|demi|CMBX|CMSSBX|SFBX|-Bd", re.I)
_WRITTEN_FIELDS = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_TICKED_FIELDS = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
# Not highlights: some programs repeat the highlighted words in them, which would be read twice.
_COMMENTS = (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_TEXT)
_HIDDEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW


@dataclass(frozen=True, slots=True)
class Note:
    """Something added to a page, and where it is: a field as "name: value", a comment, or typed text."""

    text: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture on a page: where it is, and the text on it; `digest` is the same wherever the picture is shown."""

    mark: Mark
    text: str
    digest: bytes


class PdfRefused(DocumentUnreadable):
    """PDFium cannot read the file; another reader may."""


class PdfFile:
    """An open PDF."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def __len__(self) -> int:
        return len(self._document)

    @property
    def title(self) -> str:
        return str(self._document.get_metadata_value("Title"))

    def show_forms(self) -> None:
        """Shows filled-in fields on pages that are loaded from now on."""
        self._document.init_forms()

    @contextmanager
    def page(self, index: int) -> Iterator[PdfPage | None]:
        """Yields a page by its 0-based index, None if it is broken; valid inside the `with` block."""
        try:
            page = self._document[index]
            text = page.get_textpage()
        except pypdfium2.PdfiumError:
            yield None
            return
        try:
            yield PdfPage(page, text)
        finally:
            text.close()
            page.close()


class PdfPage:
    """One page: its characters in reading order, where they are, and how it looks."""

    def __init__(self, page: Any, text: Any) -> None:
        self._page = page
        self._text = text

    def signs(self) -> str:
        """Returns one sign per character of the page; line ends are PDFium's, U+0002 is a hyphen that ends a line."""
        count = self._text.count_chars()
        whole = self._whole_text(count)
        if len(whole) == count and not self._has_supplementary():
            return whole.replace("\ufffe", "\x02")
        # The whole text leaves out some characters, or cuts them to 16 bits; single calls are correct.
        handle, unicode = self._text.raw, raw.FPDFText_GetUnicode
        return "".join(chr(min(unicode(handle, index), sys.maxunicode)) for index in range(count))

    def box(self, index: int) -> Box:
        """Returns the character's cell, as high as its font."""
        rectangle = raw.FS_RECTF()
        raw.FPDFText_GetLooseCharBox(self._text.raw, index, rectangle)
        return Box(rectangle.left, rectangle.bottom, rectangle.right, rectangle.top)

    def is_bold(self, index: int) -> bool:
        """Returns whether the character's font is bold, by its weight or its name."""
        if raw.FPDFText_GetFontWeight(self._text.raw, index) >= _BOLD_WEIGHT:
            return True
        flags = ctypes.c_int()
        name = ctypes.create_string_buffer(_MAX_FONT_NAME_BYTES)
        raw.FPDFText_GetFontInfo(self._text.raw, index, name, _MAX_FONT_NAME_BYTES, flags)
        return _BOLD_NAME.search(name.value) is not None

    def notes(self) -> tuple[Note, ...]:
        """Returns filled-in fields (only after `PdfFile.show_forms`) and comments on the page."""
        found = (self._note(index) for index in range(raw.FPDFPage_GetAnnotCount(self._page.raw)))
        return tuple(note for note in found if note is not None)

    def _note(self, index: int) -> Note | None:
        annotation = raw.FPDFPage_GetAnnot(self._page.raw, index)
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            text = _field(self._page.pdf.formenv, annotation) if kind == raw.FPDF_ANNOT_WIDGET else ""
            if kind in _COMMENTS and not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                text = _comment(annotation, is_typed=kind == raw.FPDF_ANNOT_FREETEXT)
            if not text:
                return None
            rectangle = raw.FS_RECTF()
            raw.FPDFAnnot_GetRect(annotation, rectangle)
            return Note(text, self._fractions(rectangle.left, rectangle.bottom, rectangle.right, rectangle.top))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)

    def has_pictures(self) -> bool:
        """Returns whether the page has a picture, or so many strokes that they may be letters drawn as paths."""
        num_strokes = 0
        for shown in self._page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH], max_depth=_DEPTH):
            if shown.type == raw.FPDF_PAGEOBJ_PATH:
                num_strokes += max(0, raw.FPDFPath_CountSegments(shown.raw))
            if shown.type == raw.FPDF_PAGEOBJ_IMAGE or num_strokes >= _MIN_STROKES:
                return True
        return False

    def pictures(self, least_share: float, least_width: int, least_height: int) -> Iterator[Shown]:
        """Yields the pictures that cover at least this share of the page and have at least so many pixels."""
        for shown in self._page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=_DEPTH):
            left, bottom, right, top = _bounds(shown)
            x0, y0, x1, y1 = mark = self._fractions(left, bottom, right, top)
            if (x1 - x0) * (y1 - y0) < least_share:
                continue
            try:
                width, height = shown.get_px_size()
            except pypdfium2.PdfiumError:
                continue
            if width >= least_width and height >= least_height:
                text = self._text.get_text_bounded(left, bottom, right, top)
                yield Shown(mark, text, hashlib.sha1(b"%d %d " % (width, height) + bytes(shown.get_data())).digest())

    def is_covered(self) -> bool:
        """Returns whether pictures cover the page, and its text is printed on them.

        Text below them or invisible text comes from a program that has recognised them.
        """
        covered = 0.0
        for shown in self._page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_TEXT], max_depth=_DEPTH):
            if shown.type == raw.FPDF_PAGEOBJ_IMAGE:
                x0, y0, x1, y1 = self._fractions(*_bounds(shown))
                covered += (x1 - x0) * (y1 - y0)
            elif (
                covered < _COVERED or raw.FPDFTextObj_GetTextRenderMode(shown.raw) == raw.FPDF_TEXTRENDERMODE_INVISIBLE
            ):
                return False
        return covered >= _COVERED

    @property
    def width(self) -> float:
        """The width in points, as it is shown."""
        return float(self._page.get_width())

    @property
    def height(self) -> float:
        """The height in points, as it is shown."""
        return float(self._page.get_height())

    def rectangles(self, first: int, count: int) -> list[Mark]:
        """Returns where characters are, as (x0, y0, x1, y1) in fractions of the page's picture, from its top left."""
        boxes = [self._text.get_rect(index) for index in range(self._text.count_rects(first, count))]
        return [self._fractions(*box) for box in boxes]

    def picture(self, width_px: float, max_px: int, *, is_grey: bool = False, part: Mark = _WHOLE) -> Picture:
        """Renders the page, or a part of it, `width_px` wide, or less if it would exceed `max_px` in a direction."""
        width, height = self._page.get_size()
        scale = min(width_px / width, max_px / width, max_px / height)
        crop = (part[0] * width, (1 - part[3]) * height, (1 - part[2]) * width, part[1] * height)
        bitmap = self._page.render(scale=scale, rev_byteorder=True, grayscale=is_grey, crop=crop)
        row_bytes = bitmap.width * bitmap.n_channels
        pixels = bytes(bitmap.buffer)
        rows = tuple(pixels[start : start + row_bytes] for start in range(0, len(pixels), bitmap.stride))
        return Picture(bitmap.width, bitmap.height, bitmap.n_channels, rows[: bitmap.height])

    def _whole_text(self, count: int) -> str:
        buffer = (ctypes.c_ushort * (count + 1))()
        length = raw.FPDFText_GetText(self._text.raw, 0, count, buffer)
        return bytes(buffer)[: max(0, length - 1) * 2].decode("utf-16-le", errors="surrogatepass")

    def _has_supplementary(self) -> bool:
        """Returns whether there are characters beyond the basic plane, by the only function that keeps them."""
        everything = -_FAR, _FAR, _FAR, -_FAR
        length = raw.FPDFText_GetBoundedText(self._text.raw, *everything, None, 0)
        buffer = (ctypes.c_ushort * max(1, length))()
        raw.FPDFText_GetBoundedText(self._text.raw, *everything, buffer, length)
        return len(bytes(buffer).decode("utf-16-le", errors="surrogatepass")) < len(buffer)

    def _fractions(self, left: float, bottom: float, right: float, top: float) -> Mark:
        (x0, y0), (x1, y1) = self._on_picture(left, top), self._on_picture(right, bottom)
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)

    def _on_picture(self, x: float, y: float) -> tuple[float, float]:
        across, down = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(self._page.raw, 0, 0, _STEPS, _STEPS, 0, x, y, across, down)
        return tuple(min(1.0, max(0.0, value.value / _STEPS)) for value in (across, down))  # type: ignore[return-value]


def _bounds(shown: Any) -> Any:
    """Returns where an object is on its page; objects inside others are positioned relative to them."""
    bounds = shown.get_bounds()
    while (shown := shown.container) is not None:
        bounds = shown.get_matrix().on_rect(*bounds)
    return bounds


def _field(form: Any, annotation: Any) -> str:
    """Returns what was filled into a field; "" if nothing was, or forms were not initialised."""
    if form is None:
        return ""
    kind = raw.FPDFAnnot_GetFormFieldType(form.raw, annotation)
    value = ""
    if kind in _WRITTEN_FIELDS:
        value = _wide(raw.FPDFAnnot_GetFormFieldValue, form.raw, annotation)
    elif kind in _TICKED_FIELDS and raw.FPDFAnnot_IsChecked(form.raw, annotation):
        value = "yes"
    value = clean(value).strip()
    if not value:
        return ""
    # Users see the alternate name; the other one is internal.
    name = _wide(raw.FPDFAnnot_GetFormFieldAlternateName, form.raw, annotation)
    name = " ".join(clean(name or _wide(raw.FPDFAnnot_GetFormFieldName, form.raw, annotation)).split())
    return f"{name}: {value}" if name else value


def _comment(annotation: Any, *, is_typed: bool) -> str:
    """Returns a comment on a page, or text that was typed on it."""
    said = clean(_wide(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")).strip()
    return said if is_typed else remarks.comment(clean(_wide(raw.FPDFAnnot_GetStringValue, annotation, b"T")), said)


def _wide(ask: Callable[..., int], *of: Any) -> str:
    """Reads a text from PDFium, first asking for its length."""
    length = ask(*of, None, 0)
    buffer = (ctypes.c_ushort * max(1, (length + 1) // 2))()
    ask(*of, buffer, length)
    return bytes(buffer)[: max(0, length - 2)].decode("utf-16-le", errors="replace")


@contextmanager
def opened(path: Path, limits: Limits) -> Iterator[PdfFile]:
    """Opens the PDF, with one of the known passwords if it needs one.

    Raises:
        DocumentEncrypted: None of the passwords opens it.
        DocumentUnsupported: It is protected in a way that PDFium does not know.
        DocumentUnreadable: It is broken.
    """
    # A stream, because PDFium cannot open names that are not UTF-8.
    with open(path, "rb") as stream:
        document = _unlocked(stream, limits)
        try:
            yield PdfFile(document)
        finally:
            document.close()


def _unlocked(stream: BinaryIO, limits: Limits) -> Any:
    """Returns PDFium's document; both the user's and the owner's password open it."""
    for password in (None, *limits.passwords):
        stream.seek(0)
        try:
            return pypdfium2.PdfDocument(stream, password=password)
        except pypdfium2.PdfiumError as error:
            if error.err_code != raw.FPDF_ERR_PASSWORD:
                raise _refusal(error) from error
    raise needs_password("The PDF", limits)


def _refusal(error: Any) -> DocumentUnreadable:
    if error.err_code == raw.FPDF_ERR_SECURITY:
        return DocumentUnsupported("The PDF is protected in a way that cannot be opened here.")
    return PdfRefused("The PDF is damaged: its structure cannot be read.")
