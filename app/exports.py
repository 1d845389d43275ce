"""Exports: files that the user names, written whole or not at all, so that a full disk costs no earlier export."""

from __future__ import annotations

import os
from pathlib import Path


def write_export(file: Path, content: bytes) -> None:
    """Writes alongside `file` and renames. Raises OSError; the file is then unchanged."""
    unfinished = file.with_name(f".{file.name}.part")
    try:
        # Permissions as of any other file of the user: others may read it where that is the custom.
        unfinished.write_bytes(content)
        os.replace(unfinished, file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
