"""Packs archives of XML parts, as office formats and books are."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def packed(parts: Mapping[str, str | bytes], mimetype: str = "") -> bytes:
    """A ZIP of these parts; `mimetype` goes first and unpacked, as OpenDocument and EPUB have it."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        if mimetype:
            file.writestr("mimetype", mimetype, zipfile.ZIP_STORED)
        for name, content in parts.items():
            file.writestr(name, content)
    return target.getvalue()
