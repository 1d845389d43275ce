"""The register of families: which module reads what `sniff` recognises, and what to report for other files."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from engine.core import ParsedDocument
from engine.errors import DocumentEmpty, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.limits import Limits, check_file
from engine.library.parsers.sniff import HEAD_BYTES, TAIL_BYTES, Kind, sniff, tail_bytes

Parse = Callable[..., ParsedDocument]

# These parsers also get the file's name: it names the packed file, and a nested archive has no path with its name.
_ARCHIVES = ("zip", "tar", "gzip", "bzip2", "xz")

# A module, and its function where that is not `parse`.
# Imported when the first file of the family comes: a child that reads Markdown never loads PDFium.
FAMILIES = {
    "pdf": "engine.library.parsers.pdf",
    "docx": "engine.library.parsers.docx",
    "doc": "engine.library.parsers.doc",
    "encrypted_office": "engine.library.parsers.encrypted",
    "pptx": "engine.library.parsers.pptx",
    "ppt": "engine.library.parsers.ppt",
    "xlsx": "engine.library.parsers.xlsx",
    "xls": "engine.library.parsers.xls",
    "excel_xml": "engine.library.parsers.excel_xml",
    "odt": "engine.library.parsers.opendocument",
    "odp": "engine.library.parsers.opendocument",
    "ods": "engine.library.parsers.opendocument",
    "odg": "engine.library.parsers.opendocument",
    "epub": "engine.library.parsers.epub",
    "rtf": "engine.library.parsers.rtf",
    "mail": "engine.library.parsers.mail",
    "mbox": "engine.library.parsers.mail",
    "msg": "engine.library.parsers.msg",
    **dict.fromkeys(("png", "jpeg", "tiff", "gif", "webp", "bmp", "avif", "jp2"), "engine.library.parsers.pictures"),
    "svg": "engine.library.parsers.svg",
    "iwork": "engine.library.parsers.iwork",
    **dict.fromkeys(_ARCHIVES, "engine.library.parsers.archives"),
    "markdown": "engine.library.parsers.markdown",
    "rst": "engine.library.parsers.rst",
    "org": "engine.library.parsers.org",
    "tex": "engine.library.parsers.tex",
    "html": "engine.library.parsers.html",
    "xml": "engine.library.parsers.xml",
    "json": "engine.library.parsers.data:parse_json",
    "json_lines": "engine.library.parsers.data:parse_json_lines",
    "yaml": "engine.library.parsers.data:parse_yaml",
    "table": "engine.library.parsers.table",
    "ipynb": "engine.library.parsers.notebook",
    "text": "engine.library.parsers.text",
    "lines": "engine.library.parsers.lines",
    "code": "engine.library.parsers.code",
}

# Packages with pictures in files of their own; the one in `docProps` is a thumbnail of the first page.
_PACKED = ("docx", "pptx", "xlsx", "odt", "odp", "ods", "odg", "epub")
_PICTURE = re.compile(r"(?!docProps/|Thumbnails/).*\.(?:png|jpe?g|gif|bmp|tiff?|webp|avif|jp2|emf|wmf|svg)", re.I)
# For drawings, and pictures in workbooks, which are not read there.
_PICTURES_WAY_OUT = "Save it as a PDF: what is written in its pictures is read there, where Tesseract is installed."


def parse(path: Path, limits: Limits, name: str = "") -> ParsedDocument:
    """Parses a file; `name` is its name if that is not the end of the path.

    Raises:
        DocumentUnreadable: Or a subclass; the sentence says why the file cannot be read.
    """
    kind = recognise(path, limits, name)
    parser = _parser(kind)
    document = parser(path, limits, name) if kind.family in _ARCHIVES else parser(path, limits)
    if not any(page.blocks for page in document.pages):
        raise _empty(path, kind)
    return document


def recognise(path: Path, limits: Limits, name: str = "") -> Kind:
    """Returns what the file is, by its content; `name` as for `parse`.

    Raises:
        DocumentUnreadable: It is missing, empty, too large, no ordinary file, or we may not read it.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise DocumentUnreadable("This is no ordinary file.")
        check_file(status.st_size, limits)
        if status.st_size == 0:
            raise DocumentEmpty("The file is empty.")
        return sniff(*_ends(path, status.st_size), name or path.name)
    except FileNotFoundError as error:
        raise DocumentUnreadable("The file is no longer there.") from error
    except PermissionError as error:
        raise DocumentUnreadable("Ragdoll is not allowed to read the file.", "Check its permissions.") from error
    except OSError as error:
        raise DocumentUnreadable(f"The file cannot be read from the disk: {error.strerror or error}.") from error


def _empty(path: Path, kind: Kind) -> DocumentEmpty:
    """Returns the error for a file without text; its pictures may show some."""
    if kind.family in _PACKED:
        with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            if any(_PICTURE.fullmatch(name) for name in archive.namelist()):
                return DocumentEmpty("There are pictures in the file but no text.", _PICTURES_WAY_OUT)
    return DocumentEmpty("There is no text in the file.")


def _ends(path: Path, num_bytes: int) -> tuple[bytes, bytes]:
    with open(path, "rb") as stream:
        head = stream.read(HEAD_BYTES)
        tail = _last(stream, num_bytes, TAIL_BYTES)
        wanted = tail_bytes(head, tail)
        return head, _last(stream, num_bytes, wanted) if wanted > len(tail) else tail


def _last(stream: BinaryIO, num_bytes: int, wanted: int) -> bytes:
    stream.seek(max(0, num_bytes - wanted))
    return stream.read(wanted)


def _parser(kind: Kind) -> Parse:
    if kind.family == "gguf":
        raise DocumentUnsupported("This is a language model: open it on the Models page.")
    module, _, function = FAMILIES.get(kind.family, "").partition(":")
    if not module:
        raise DocumentUnsupported(f"This is {kind.what}, which Ragdoll does not read yet.", kind.way_out)
    parser: Parse = getattr(importlib.import_module(module), function or "parse")
    return parser
