"""Exports: files that people name, written whole or not at all, so that a full disk costs nobody an earlier one."""

from __future__ import annotations

import os
from pathlib import Path


def write_export(file: Path, content: bytes) -> None:
    """Writes beside `file` and renames. Raises OSError; then the file is what it was before."""
    unfinished = file.with_name(f".{file.name}.part")
    try:
        # As any file of the user's: others may read it where that is the custom.
        unfinished.write_bytes(content)
        os.replace(unfinished, file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
