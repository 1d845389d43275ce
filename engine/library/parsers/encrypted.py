"""Office files with a password: opened with one that the user gave, and then read like any other."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import msoffcrypto  # type: ignore[import-untyped]
from msoffcrypto.exceptions import (  # type: ignore[import-untyped]
    DecryptionError,
    FileFormatError,
    InvalidKeyError,
    ParseError,
)
from olefile.olefile import OleFileError  # type: ignore[import-untyped]

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import nested
from engine.library.parsers.limits import Limits, needs_password

# Excel encrypts write-protected workbooks with this password, and tries it by itself.
_EVERYONES = "VelvetSweatshop"
_DAMAGE = (FileFormatError, ParseError, OleFileError, ExpatError, struct.error, ValueError, LookupError, TypeError)


def parse(path: Path, limits: Limits) -> ParsedDocument:
    """Opens the document and parses what is inside.

    Raises:
        DocumentEncrypted: None of the passwords opens it.
        DocumentUnsupported: It is protected in an unknown way.
    """
    return nested.parse(_opened(path, limits), "", limits)


def _opened(path: Path, limits: Limits) -> bytes:
    with open(path, "rb") as stream:
        try:
            file = msoffcrypto.OfficeFile(stream)
            for password in (_EVERYONES, *limits.passwords):
                if (data := _decrypted(file, password)) is not None:
                    return data
        except _DAMAGE as error:
            raise DocumentUnreadable("The document is damaged: what says how to open it cannot be read.") from error
        except DecryptionError as error:
            raise DocumentUnsupported("The document is protected in a way that cannot be opened here.") from error
    raise needs_password("The document", limits)


def _decrypted(file: Any, password: str) -> bytes | None:
    """Decrypts the file; None if that is not its password."""
    opened = io.BytesIO()
    # The old formats always verify.
    verify = {"verify_password": True} if file.format == "ooxml" else {}
    try:
        file.load_key(password=password, **verify)
        file.decrypt(opened)
    except InvalidKeyError:
        return None
    return opened.getvalue()
