"""The ZIP archives inside which office formats keep their XML: opened without falling for bombs and entities."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lxml import etree

from engine.errors import DocumentEncrypted, DocumentUnreadable
from engine.library.parsers.limits import Limits, check_unpacked

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, etree.XMLSyntaxError, ValueError)


class Package:
    """An Open Packaging archive: parts found by their content type, as the standard has it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._names = {name.lower(): name for name in archive.namelist()}
        self._types = self._content_types()

    def part(self, content_type: str, fallback: str) -> etree._Element | None:
        """The root of the first part whose content type ends so, or of the one named `fallback`; None without it."""
        return self.xml(self._types.get(content_type, fallback))

    def xml(self, name: str) -> etree._Element | None:
        member = self._names.get(name.lstrip("/").lower())
        if member is None:
            return None
        # Entities stay unresolved, and libxml2's own limits on depth and amplification stay on.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
        return etree.fromstring(self._archive.read(member), parser)

    def _content_types(self) -> dict[str, str]:
        root = self.xml("[Content_Types].xml")
        parts: dict[str, str] = {}
        for element in root if root is not None else ():
            content_type, name = element.get("ContentType"), element.get("PartName")
            if content_type and name:
                parts.setdefault(content_type.rpartition(".")[2], posixpath.normpath(name))
        return parts


@contextmanager
def opened(path: Path, limits: Limits, what: str) -> Iterator[Package]:
    """The archive, and every way in which it can be broken as one sentence.

    Raises:
        DocumentTooLarge: It would unpack to more than the limit.
        DocumentEncrypted: Its members are encrypted.
        DocumentUnreadable: It is damaged; `what` names the kind of file in the sentence.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_unpacked(path.stat().st_size, sum(member.file_size for member in members), limits)
            if any(member.flag_bits & 0x1 for member in members):
                raise DocumentEncrypted("The document is protected by a password.")
            yield Package(archive)
    except _DAMAGE as error:
        raise DocumentUnreadable(f"{what} is damaged: {_plainly(error)}.") from error


def _plainly(error: Exception) -> str:
    return str(error).strip().rstrip(".") or "it ends too early"
