"""Documents inside documents: what is attached to a mail or packed in an archive is read by the same families."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath

from engine.core import ParsedDocument, ParsedPage
from engine.errors import (
    DocumentEncrypted,
    DocumentNeedsOcr,
    DocumentUnreadable,
    DocumentUnsupported,
    is_disk_full,
)
from engine.library.parsers import families
from engine.library.parsers.limits import Limits
from engine.library.parsers.ocr import WAY_OUT


def parse(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Parses the document in `data`; `name` was its name.

    Raises:
        DocumentUnreadable: Or a subclass, as for a file; also if documents are nested too deeply, and for any other
            failure, so that the outer document can still be read.
        OSError: The disk is full.
        MemoryError: It needs too much memory; so does the outer document.
    """
    inner = deeper(limits)
    with own_faults(), _on_disk(data, name) as path:
        return families.parse(path, inner, PurePath(name).name)


@contextmanager
def own_faults() -> Iterator[None]:
    """Turns any failure with one document of several into its own error, so that the others can still be read.

    Raises:
        DocumentUnreadable: Or a subclass.
        OSError: The disk is full, for the others as well.
        MemoryError: Likewise.
    """
    try:
        yield
    except (DocumentUnreadable, MemoryError):
        raise
    except RecursionError as error:
        raise DocumentUnreadable("It is nested too deeply.") from error
    except Exception as error:
        if is_disk_full(error):
            raise
        raise DocumentUnreadable(f"It seems to be damaged ({type(error).__name__}: {error}).") from error


def deeper(limits: Limits) -> Limits:
    """Returns the limits for a nested document; each level may unpack to half of the one around it.

    Raises:
        DocumentUnsupported: It would be nested too deeply.
    """
    if limits.max_depth < 1:
        raise DocumentUnsupported("It lies in too many archives or mails, one in another.")
    return replace(limits, max_depth=limits.max_depth - 1, max_unpacked_bytes=limits.max_unpacked_bytes // 2)


def placed(document: ParsedDocument, where: str) -> Iterator[ParsedPage]:
    """Yields the document's pages with their places in the outer document: "attachment “a.pdf”, page 3"."""
    for page in document.pages:
        own = page.place or ("" if page.number is None else f"page {page.number}")
        place = ", ".join(filter(None, (where, own)))
        yield replace(page, place=place, line_word=page.line_word or document.line_word)


def as_error(document: ParsedDocument) -> DocumentUnreadable:
    """Returns the remark of a document that was read in part, as an error."""
    kinds = {"password": DocumentEncrypted, "ocr": DocumentNeedsOcr, "": DocumentUnreadable}
    return kinds[document.needs](document.remark.removesuffix(f" {WAY_OUT}"))


@contextmanager
def _on_disk(data: bytes, name: str) -> Iterator[Path]:
    """Yields the path of a temporary file with these bytes."""
    if sys.platform == "linux":
        # A file without a name, so that nothing is left when the process is killed.
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.TemporaryDirectory(prefix="ragdoll-") as folder:
            path = Path(folder) / f"inner{PurePath(name).suffix[:10]}"
            path.write_bytes(data)
            yield path
