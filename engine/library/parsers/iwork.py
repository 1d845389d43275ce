"""Documents of Apple's Pages, Numbers and Keynote: the PDF that is kept in some of them to be looked at.

Their own format is not documented. Those of 2009 contain a PDF if the author chose so, later ones at most a picture of
the first page.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.core import ParsedDocument
from engine.errors import DocumentNeedsOcr, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import nested
from engine.library.parsers.archive import opened
from engine.library.parsers.limits import Limits

_PREVIEW = "QuickLook/Preview.pdf"
_WAY_OUT = "Export it as PDF, or from Pages as Word, from Numbers as Excel, from Keynote as PowerPoint, and add that."
_REMARK = "Only the preview that was saved with it was read, which may be shorter than the document."


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The document of Pages, Numbers or Keynote") as package:
        data = package.data(_PREVIEW)
    if data is None:
        raise DocumentUnsupported(
            "This is a document of Pages, Numbers or Keynote, which only these can read; it holds no PDF preview.",
            _WAY_OUT,
        )
    try:
        document = nested.parse(data, "Preview.pdf", limits)
    except DocumentNeedsOcr:
        raise
    except DocumentUnreadable as error:
        raise DocumentUnreadable(
            f"Of a document of Pages, Numbers or Keynote only the preview can be read. {error.sentence}", _WAY_OUT
        ) from error
    remark = " ".join(filter(None, (_REMARK, document.remark)))
    return replace(document, format="iwork", remark=remark)
