"""Pictures that stand in documents: what is written in them, read by OCR, follows the place where they are shown.

Each is read once; pictures that are shown many times, as logos are, are not read. Only a document that consists of
pictures needs OCR; any other is complete without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from engine.core import BlockKind, ParsedDocument
from engine.errors import DocumentEmpty, DocumentUnreadable
from engine.library.parsers import ocr, pictures
from engine.library.parsers.archive import DAMAGE, Package
from engine.library.parsers.limits import MIB, Limits

_MAX_BYTES = 64 * MIB


class EmbeddedPictures:
    """The pictures of one package; `shown` are the names of their parts, as often as they are shown."""

    def __init__(self, package: Package, limits: Limits, shown: Iterable[str]) -> None:
        self._package, self._limits = package, limits
        self._shown = shown
        self._seen: set[tuple[int, int]] = set()
        self._left_out: list[str] = []
        self._num_read = self._num_given_up = 0

    def blocks(self, name: str) -> tuple[tuple[BlockKind, str], ...]:
        """Returns the paragraphs written in a picture; none if it was read before, or is no picture."""
        fingerprint = self._package.fingerprint(name)
        if fingerprint is None or fingerprint in self._seen:
            return ()
        self._seen.add(fingerprint)
        if not self._limits.can_ocr:
            self._left_out.append(name)
            return ()
        if self._num_shown[fingerprint] >= ocr.MANY_TIMES or self._num_given_up >= ocr.MAX_GIVEN_UP:
            return ()
        return self._read(name) if pictures.has_pillow() else ()

    def told(self, document: ParsedDocument) -> ParsedDocument:
        """Returns the document with a remark on its pictures, if there is something to say.

        Raises:
            DocumentNeedsOcr: It consists of pictures, and OCR is not set up.
            DocumentEmpty: It consists of pictures in which OCR found no text.
            DocumentUnreadable: It consists of pictures on which OCR gave up.
        """
        if any(page.blocks for page in document.pages):
            return replace(document, remark=ocr.given_up_on(self._num_given_up))
        if any(map(self._may_hold_text, self._left_out)):
            raise ocr.needs_ocr("There are pictures in the file but no text; only OCR reads them, and is not set up.")
        if self._num_given_up:
            raise DocumentUnreadable("OCR gave up on the pictures in the file, and there is no other text in it.")
        if self._num_read:
            raise DocumentEmpty("There is no text in the file, and OCR found none in its pictures.", ocr.OTHER_LANGUAGE)
        return document

    @cached_property
    def _num_shown(self) -> Counter[tuple[int, int]]:
        """How often each picture is shown; counted when the first one is to be read."""
        return Counter(filter(None, map(self._package.fingerprint, self._shown)))

    def _read(self, name: str) -> tuple[tuple[BlockKind, str], ...]:
        picture = pictures.embedded(self._data(name))
        if picture is None or self._limits.ocr is None:
            return ()
        words = self._limits.ocr.words(picture)
        if words is None:
            self._num_given_up += 1
            return ()
        self._num_read += 1
        layout = ocr.laid_out(words)
        if ocr.is_bare(layout.text):
            return ()
        return tuple((part.kind, layout.text[part.start : part.end]) for part in layout.paragraphs)

    def _may_hold_text(self, name: str) -> bool:
        return pictures.has_pillow() and pictures.may_hold_text(self._data(name))

    def _data(self, name: str) -> bytes:
        """Returns the picture's file; b"" if it is damaged or too large, which must not fail the document."""
        if self._package.num_bytes(name) > _MAX_BYTES:
            return b""
        try:
            return self._package.data(name) or b""
        except (*DAMAGE, DocumentUnreadable):
            return b""
