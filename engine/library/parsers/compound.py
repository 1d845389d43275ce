"""Compound files: the containers of Office documents before 2007, which Outlook still uses for messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import olefile  # type: ignore[import-untyped]
from olefile.olefile import OleFileError  # type: ignore[import-untyped]

from engine.errors import DocumentUnreadable
from engine.library.parsers.encoding import codepage, decode
from engine.library.parsers.markup import sane_title

Names = tuple[str, ...]


class Compound:
    """The streams of a compound file, by their path in it; a storage can be used like a file of its own."""

    def __init__(self, file: Any, root: Names = ()) -> None:
        self._file = file
        self._root = root

    def data(self, *names: str) -> bytes | None:
        """Returns the content of a stream, None if there is none."""
        path = [*self._root, *names]
        if not self._file.exists(path) or self._file.get_type(path) != olefile.STGTY_STREAM:
            return None
        with self._file.openstream(path) as stream:
            data: bytes = stream.read()
            return data

    def title(self) -> str:
        """Returns the title in the file's properties, "" if there is none."""
        if not self._file.exists("\x05SummaryInformation"):
            return ""
        about = self._file.get_metadata()
        title: object = about.title
        page: object = about.codepage
        # The code page is kept as a signed number of 16 bits.
        declared = codepage(page & 0xFFFF) if isinstance(page, int) else ""
        return sane_title(decode(title, declared)) if isinstance(title, bytes) and title else ""

    def storages(self) -> list[str]:
        """Returns the names of the storages directly below this one, sorted."""
        depth = len(self._root)
        below = (path for path in self._file.listdir(streams=False, storages=True) if len(path) == depth + 1)
        return sorted(path[-1] for path in below if tuple(path[:depth]) == self._root)

    def inside(self, name: str) -> Compound:
        return Compound(self._file, (*self._root, name))


@contextmanager
def opened(path: Path, what: str) -> Iterator[Compound]:
    """Opens the file; `what` names its kind in the sentence about damage.

    Raises:
        DocumentUnreadable: It is damaged.
    """
    try:
        # A stream, because olefile cannot open names that are not UTF-8.
        with open(path, "rb") as stream, olefile.OleFileIO(stream) as file:
            yield Compound(file)
    except (OleFileError, IndexError, ValueError) as error:
        raise DocumentUnreadable(f"{what} is damaged: {str(error).rstrip('.') or 'it ends too early'}.") from error
