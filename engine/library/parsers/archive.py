"""The ZIP archives inside which office formats keep their XML: opened without falling for bombs and entities."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lxml import etree

from engine.errors import DocumentEncrypted, DocumentUnreadable
from engine.library.parsers.elements import child, elements
from engine.library.parsers.limits import Limits, check_unpacked
from engine.library.parsers.markup import sane_title

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, etree.XMLSyntaxError, ValueError)


class Package:
    """An archive of XML parts; those of Open Packaging are found by their content type or by relationship."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self._names = {name.lower(): name for name in archive.namelist()}
        self._related: dict[tuple[str, str], dict[str, str]] = {}
        self._types = self._content_types()

    def part(self, content_type: str, fallback: str) -> etree._Element | None:
        """Returns the root of the first part whose content type ends so, or of `fallback`; None without either."""
        return self.xml(self.name_of(content_type, fallback))

    def name_of(self, content_type: str, fallback: str) -> str:
        """Returns the name of the part that `part` would read, whether it exists or not."""
        return self._types.get(content_type, fallback)

    def main(self, fallback: str) -> str:
        """Returns the name of the package's main part."""
        return next(iter(self.related("", "officeDocument").values()), fallback)

    def title(self) -> str:
        """Returns the title in the package's properties, "" if there is none."""
        title = child(self.part("core-properties+xml", "docProps/core.xml"), "title")
        return sane_title(title.text or "") if title is not None else ""

    def related(self, part: str, kind: str = "") -> dict[str, str]:
        """Returns names of the parts that a part refers to, by relationship id; `kind` is the end of their type."""
        if (part, kind) not in self._related:
            self._related[part, kind] = self._read_related(part, kind)
        return self._related[part, kind]

    def _read_related(self, part: str, kind: str) -> dict[str, str]:
        folder, name = posixpath.split(part)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        return {
            element.get("Id", ""): _absolute(folder, element.get("Target", ""))
            for element in elements(root)
            if element.get("TargetMode") != "External" and element.get("Type", "").endswith(f"/{kind}" if kind else "")
        }

    def names(self) -> list[str]:
        return list(self._names.values())

    def num_bytes(self, name: str) -> int:
        """Returns the unpacked size of a part, 0 if there is none."""
        member = self._member(name)
        return self.archive.getinfo(member).file_size if member else 0

    def fingerprint(self, name: str) -> tuple[int, int] | None:
        """Returns a value that is equal for equal parts, without unpacking them; None if there is no such part."""
        member = self._member(name)
        if not member:
            return None
        entry = self.archive.getinfo(member)
        return entry.CRC, entry.file_size

    def data(self, name: str) -> bytes | None:
        member = self._member(name)
        return self.archive.read(member) if member else None

    def stream(self, name: str) -> IO[bytes] | None:
        member = self._member(name)
        return self.archive.open(member) if member else None

    def xml(self, name: str) -> etree._Element | None:
        data = self.data(name)
        if data is None:
            return None
        # Entities stay unresolved, and libxml2's own limits on depth and amplification stay on.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
        return etree.fromstring(data, parser)

    def _member(self, name: str) -> str | None:
        return self._names.get(name.lstrip("/").lower())

    def _content_types(self) -> dict[str, str]:
        parts: dict[str, str] = {}
        for element in elements(self.xml("[Content_Types].xml")):
            content_type, name = element.get("ContentType"), element.get("PartName")
            if content_type and name:
                parts.setdefault(content_type.rpartition(".")[2], posixpath.normpath(name))
        return parts


@contextmanager
def opened(path: Path, limits: Limits, what: str) -> Iterator[Package]:
    """Opens the archive, and turns every kind of damage into one sentence.

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
    except DAMAGE as error:
        raise DocumentUnreadable(f"{what} is damaged: {_plainly(error)}.") from error


def _absolute(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")


def _plainly(error: Exception) -> str:
    return str(error).strip().rstrip(".") or "it ends too early"
