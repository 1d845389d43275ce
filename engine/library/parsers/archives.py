"""Archives (ZIP, tar, gzip, bzip2, xz) as one document: what lies in them is read by its own family, in their order.

Nothing is unpacked into a folder, so a member's path is only a name. Sizes are checked before and during unpacking;
members that cannot be read are left out and reported.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath

from engine.core import Need, ParsedDocument, ParsedPage
from engine.errors import (
    DocumentEmpty,
    DocumentEncrypted,
    DocumentNeedsOcr,
    DocumentTooLarge,
    DocumentUnreadable,
    DocumentUnsupported,
)
from engine.library.parsers import nested, zip_aes
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits, check_unpacked, needs_password

MAX_MEMBERS = 10_000
# How many of the members that were left out are named.
_MAX_NAMED = 3
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OverflowError, ValueError)
_PACKED = (gzip.GzipFile, bz2.BZ2File, lzma.LZMAFile)
_FOREIGN = {"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"}


@dataclass(frozen=True, slots=True)
class _Member:
    """A file in an archive; `read` unpacks it, or raises DocumentUnreadable."""

    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _LeftOut:
    name: str
    error: DocumentUnreadable


def parse(path: Path, limits: Limits, name: str = "") -> ParsedDocument:
    """Parses as in any family; `name` is the file's name if that is not the end of the path."""
    pages: list[ParsedPage] = []
    left_out: list[_LeftOut] = []
    num_members = 0
    last = ""
    with _told():
        try:
            for member in _members(path, name or path.name, limits):
                num_members += 1
                last = member.name
                try:
                    document = nested.parse(member.read(), member.name, limits)
                except DocumentUnreadable as error:
                    left_out.append(_LeftOut(member.name, error))
                    continue
                if document.remark:
                    left_out.append(_LeftOut(member.name, nested.as_error(document)))
                pages += nested.placed(document, member.name)
        except (*_DAMAGE, OSError) as error:
            # Members that were read before the damage are kept.
            if not pages or _is_the_systems(error):
                raise
            damage = DocumentUnreadable("It is damaged from here on.")
            if left_out and left_out[-1].name == last:
                left_out[-1] = _LeftOut(last, damage)
            else:
                num_members += 1
                left_out.append(_LeftOut(f"after {last}", damage))
    if not pages:
        raise _refusal(left_out)
    numbered = (replace(page, number=number) for number, page in enumerate(pages, start=1))
    remark, needs = _remark(left_out, num_members)
    return ParsedDocument("archive", "", tuple(numbered), remark=remark, needs=needs)


def _refusal(left_out: list[_LeftOut]) -> DocumentUnreadable:
    """Returns why nothing in the archive can be read; a reason that the user can remove comes first."""
    errors = [entry.error for entry in left_out]
    if len(errors) == 1:
        return errors[0]
    for kind in (DocumentEncrypted, DocumentNeedsOcr):
        found = next((error for error in errors if isinstance(error, kind)), None)
        if found is not None:
            return kind(f"Nothing in the archive can be read: {found.sentence}", found.way_out)
    if not errors:
        return DocumentEmpty("The archive is empty.")
    named = f"{left_out[0].name}: {left_out[0].error.sentence}"
    return DocumentUnsupported(f"Nothing in the archive can be read ({named})")


def _remark(left_out: list[_LeftOut], num_members: int) -> tuple[str, Need]:
    if not left_out:
        return "", ""
    needs: Need = next((entry.error.need for entry in left_out if entry.error.need), "")
    named = " ".join(f"{entry.name}: {entry.error.sentence}" for entry in left_out[:_MAX_NAMED])
    more = " …" if len(left_out) > _MAX_NAMED else ""
    return f"{len(left_out)} of the {num_members} files in it could not be read in full. {named}{more}", needs


# --- the members of an archive ---


def _members(path: Path, name: str, limits: Limits) -> Iterator[_Member]:
    """Yields the files in an archive that may hold text; `name` is the archive's name.

    Raises:
        DocumentTooLarge: There are too many, or they would unpack to too much.
    """
    # By its beginning, not by `is_zipfile`, which also accepts a tar archive that ends with a ZIP archive.
    if _begins_as_zip(path):
        yield from _zip_members(path, limits)
    elif tarfile.is_tarfile(path):
        yield from _tar_members(path, limits)
    else:
        inner = PurePath(name).stem if PurePath(name).suffix else "content"
        yield _Member(inner, lambda: _unpacked(path, limits))


def _begins_as_zip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


def _zip_members(path: Path, limits: Limits) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        _check_count(len(entries))
        check_unpacked(path.stat().st_size, sum(entry.file_size for entry in entries), limits)
        for entry in entries:
            name = _name_in_zip(entry)
            if not _is_foreign(name):
                yield _Member(name, lambda entry=entry: _unzipped(archive, entry, limits))  # type: ignore[misc]


def _unzipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limits: Limits) -> bytes:
    try:
        if not entry.flag_bits & 0x1:
            return archive.read(entry)
        if entry.compress_type == zip_aes.METHOD:
            return zip_aes.read(archive, entry, limits)
        for password in limits.passwords:
            try:
                return archive.read(entry, password.encode())
            except (RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                # A wrong password is noticed at once, or, one time in 256, by the damaged content.
                if isinstance(error, NotImplementedError):
                    raise
        raise needs_password("A file in the archive", limits)
    except NotImplementedError as error:
        raise DocumentUnsupported("It is packed or encrypted in a way that cannot be opened here.") from error
    except (*_DAMAGE, OSError) as error:
        raise DocumentUnreadable("It is damaged in the archive.") from error


def _tar_members(path: Path, limits: Limits) -> Iterator[_Member]:
    packed_bytes, unpacked_bytes, count = path.stat().st_size, 0, 0
    with tarfile.open(path) as archive:
        for entry in archive:
            count += 1
            unpacked_bytes += max(0, entry.size)
            _check_count(count)
            check_unpacked(packed_bytes, unpacked_bytes, limits)
            if entry.isreg() and not _is_foreign(entry.name):
                yield _Member(_shown(entry.name), lambda entry=entry: _untarred(archive, entry))  # type: ignore[misc]
        _check_end(archive)


def _check_end(archive: tarfile.TarFile) -> None:
    """Checks that the archive really ends here: to `tarfile`, a damaged header is an end like any other.

    Raises:
        tarfile.ReadError: There is more.
    """
    stream = archive.fileobj
    if stream is not None:
        stream.seek(archive.offset)
        if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise tarfile.ReadError("it cannot be read to its end")


def _untarred(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    try:
        stream = archive.extractfile(entry)
        if stream is None:
            raise DocumentUnreadable("It is damaged in the archive.")
        with stream:
            return stream.read()
    except (*_DAMAGE, OSError) as error:
        if _is_the_systems(error):
            raise
        raise DocumentUnreadable("It is damaged in the archive.") from error


def _is_the_systems(error: Exception) -> bool:
    """Returns whether the system failed, not the archive: only system errors have an errno."""
    return isinstance(error, OSError) and error.errno is not None


def _unpacked(path: Path, limits: Limits) -> bytes:
    """Unpacks the one file in a gzip, bzip2 or xz archive, whose size is not known before."""
    packed_bytes = path.stat().st_size
    for opened in _PACKED:
        try:
            with opened(path) as stream:
                data = stream.read(limits.max_unpacked_bytes + 1)
        except (OSError, *_DAMAGE):
            continue
        check_unpacked(packed_bytes, len(data), limits)
        return data
    raise DocumentUnreadable("The archive is damaged.")


# --- names and numbers ---


def _check_count(count: int) -> None:
    if count > MAX_MEMBERS:
        raise DocumentTooLarge(f"There are more than {MAX_MEMBERS:,} files in the archive.", "Unpack it, and add that.")


def _is_foreign(name: str) -> bool:
    """Returns whether it is a file that an operating system puts beside the user's files."""
    return any(part in _FOREIGN or part.startswith("._") for part in PurePosixPath(name).parts)


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """Returns a member's name in its likely encoding: without the UTF-8 flag, Python always decodes it as cp437."""
    if entry.flag_bits & 0x800:
        return _shown(entry.filename)
    try:
        return _shown(decode(entry.orig_filename.split("\0")[0].encode("cp437")))
    except UnicodeEncodeError:
        return _shown(entry.filename)


def _shown(name: str) -> str:
    return name.replace("\\", "/").encode("utf-8", "replace").decode().lstrip("/") or "file"


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, gzip.BadGzipFile) as error:
        raise DocumentUnreadable(f"The archive is damaged: {str(error).rstrip('.') or 'it ends too early'}.") from error
