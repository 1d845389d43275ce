"""Pasted content can be saved as a file below our data folder, so that it is indexed and cited like any other file."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from PySide6.QtCore import QCoreApplication

from app.private import private_folder

_LONGEST_NAME_CHARS = 48
# Characters that every file system accepts, in any script.
_KEPT_SIGNS = frozenset(" -_.,'()&+")


def keep_text(folder: Path, text: str, day: date) -> Path:
    """Writes a text under its first words and the day. Raises OSError; then there is no file."""
    first = next((name for line in text.splitlines() if (name := _name(line))), _tr("Pasted text"))
    return _written(folder, f"{first} {day.isoformat()}", ".txt", text.encode("utf-8", "replace"))


def keep_picture(folder: Path, png: bytes, day: date) -> Path:
    """Writes a picture, named by the day. Raises OSError; then there is no file."""
    return _written(folder, _tr("Pasted picture %1").replace("%1", day.isoformat()), ".png", png)


def _name(line: str) -> str:
    """Returns the first words of a line, limited to what a file name can hold."""
    kept = "".join(sign if sign.isalnum() or sign in _KEPT_SIGNS else " " for sign in line)
    words, name = kept.split(), ""
    for word in words:
        if len(longer := f"{name} {word}".strip()) > _LONGEST_NAME_CHARS:
            break
        name = longer
    # One that begins with a dot is hidden.
    return (name or kept.strip()[:_LONGEST_NAME_CHARS]).strip(" .")


def _written(folder: Path, name: str, suffix: str, content: bytes) -> Path:
    """Writes a new file; an earlier one with the same name stays as it is."""
    private_folder(folder)
    file, number = folder / f"{name}{suffix}", 1
    while True:
        try:
            stream = file.open("xb")
            break
        except FileExistsError:
            number += 1
            file = folder / f"{name} ({number}){suffix}"
    try:
        with stream:
            stream.write(content)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _tr(text: str) -> str:
    return QCoreApplication.translate("pasted", text)
