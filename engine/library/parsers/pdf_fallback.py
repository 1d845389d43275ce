"""PDFs that PDFium refuses or crashes on, read by pypdf: slower, with less of the layout, and harder to discourage."""

from __future__ import annotations

import logging
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.encoding import clean
from engine.library.parsers.limits import Limits, needs_password
from engine.library.parsers.markup import sane_title
from engine.library.parsers.text import paragraphs

# It logs each fault that it skips.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)

_DAMAGE = (
    PyPdfError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    AssertionError,
    OSError,
    ArithmeticError,
)


def parse(path: Path, limits: Limits) -> ParsedDocument:
    """Parses the pages that can be read.

    Raises:
        DocumentEncrypted: None of the passwords opens it.
        DocumentUnsupported: It is encrypted in a way that cannot be opened here.
        DocumentUnreadable: No page can be read, or none has text.
    """
    with open(path, "rb") as stream:
        try:
            reader = PdfReader(stream, strict=False)
            if reader.is_encrypted and not any(map(reader.decrypt, ("", *limits.passwords))):
                raise needs_password("The PDF", limits)
            count = len(reader.pages)
            title = sane_title(str(reader.metadata.title or "")) if reader.metadata else ""
        except DependencyError as error:
            raise DocumentUnsupported("The PDF is protected in a way that cannot be opened here.") from error
        except _DAMAGE as error:
            raise DocumentUnreadable("The PDF is damaged: its structure cannot be read.") from error
        texts = [_text(reader, index) for index in range(count)]
    if not any(texts):
        raise DocumentUnreadable("The PDF is damaged: none of its pages can be read.")
    pages = (ParsedPage(number, text, tuple(paragraphs(text))) for number, text in enumerate(texts, start=1))
    return ParsedDocument("pdf", title, tuple(pages))


def _text(reader: PdfReader, index: int) -> str:
    """Returns a page's text; "" if it cannot be read."""
    try:
        return clean(reader.pages[index].extract_text()).strip()
    except (*_DAMAGE, RecursionError):
        return ""
