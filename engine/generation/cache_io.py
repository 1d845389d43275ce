"""Writes, reads and checks one file of kept KV: whole, or not at all.

Files are written under a temporary name and renamed. They are not synced: the checksum reveals damage by a power cut.
On Windows, a file that another program has open cannot be replaced or deleted: that is no error, and is tried again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.generation import cache_format
from engine.generation.cache_format import CacheHeader

SUFFIX = ".kv"
# A write can be abandoned between two such portions.
_PORTION_BYTES = 1 << 20

# Outcomes of reading: "damaged" also if there is no file; "unavailable" if it may be readable another time.
ReadOutcome = Literal["read", "damaged", "unavailable"]
# "busy": another program has the file open. "unwanted": it was abandoned on the way.
WriteOutcome = Literal["written", "busy", "unwanted"]


@dataclass(frozen=True, slots=True)
class FoundCacheFile:
    """A file with a valid header and the right length."""

    header: CacheHeader
    mtime_ns: int


def path_in(folder: Path, root: bytes, key: bytes) -> Path:
    """Returns where a file belongs: in its root's folder, under its key."""
    return folder / root.hex() / (key.hex() + SUFFIX)


def paths_below(folder: Path, is_preferred: Callable[[str], bool]) -> Iterator[Path]:
    """Yields the files in all roots' folders; at each step, those of a preferred root (by folder name) come first."""
    waiting = {root: _entries(root) for root in _entries(folder)}
    while waiting:
        root = next((root for root in waiting if is_preferred(root.name)), next(iter(waiting)))
        path = next(waiting[root], None)
        if path is None:
            del waiting[root]
        else:
            yield path


def _entries(folder: Path) -> Iterator[Path]:
    """Yields the entries of a folder; none if there is no folder, or it cannot be read."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            yield Path(entry)


def look_at(path: Path, folder: Path) -> FoundCacheFile | Literal["damaged", "unavailable"]:
    """Checks a file by its header and its length alone; the blob is checked when it is read."""
    try:
        with path.open("rb", buffering=0) as stream:
            header = _read_header(stream.fileno())
            status = os.fstat(stream.fileno())
    except FileNotFoundError:
        return "damaged"
    except OSError:
        return "unavailable"
    if header is None or path != path_in(folder, header.root, header.key) or status.st_size != header.file_bytes:
        return "damaged"
    return FoundCacheFile(header, status.st_mtime_ns)


def read_blob(path: Path, wanted: CacheHeader, data: NDArray[np.uint8]) -> ReadOutcome:
    """Reads the blob of a file into `data`, which is intact if the outcome is "read"."""
    try:
        stream = path.open("rb", buffering=0)
    except FileNotFoundError:
        return "damaged"
    except OSError:
        return "unavailable"
    with stream:
        try:
            header = _read_header(stream.fileno())
            if header is None or (header.root, header.key) != (wanted.root, wanted.key):
                return "damaged"
            stream.seek(header.header_bytes)
            view, at = data.data, 0
            while at < len(view) and (count := stream.readinto(view[at:])):
                at += count
        except OSError:
            # The disk may have a bad sector there, which only a new file avoids.
            return "damaged"
    is_whole = at == header.num_bytes == data.nbytes and zlib.crc32(data.data) == header.checksum
    return "read" if is_whole else "damaged"


def write_file(
    path: Path, header: bytes, data: memoryview, is_wanted: Callable[[], bool] = lambda: True
) -> WriteOutcome:
    """Writes a file, creating its folder; stops as soon as it is no longer wanted.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    outcome: WriteOutcome = "unwanted"
    try:
        if _write_all(beside, header, data, is_wanted):
            outcome = _replace(beside, path)
    finally:
        if outcome != "written":
            delete(beside)
    return outcome


def read_small(path: Path, max_bytes: int) -> bytes:
    """Returns what a small file holds; empty if it is larger than that, cannot be read, or does not exist."""
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_size <= max_bytes else b""
    except OSError:
        return b""


def delete(path: Path) -> bool:
    """Deletes a file; returns False if another program has it open, so that it must be tried again."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    except OSError:
        # It is a folder, or its disk was removed: not one of our files.
        return True
    return True


def write_usage(path: Path, usage: bytes) -> None:
    """Updates how often a file was used, if it still exists."""
    with suppress(OSError), path.open("r+b", buffering=0) as stream:
        stream.seek(cache_format.USAGE_OFFSET)
        stream.write(usage)


def _read_header(descriptor: int) -> CacheHeader | None:
    data = os.read(descriptor, cache_format.HEADER_GUESS_BYTES)
    length = cache_format.header_length(data)
    if length is not None and len(data) < length <= os.fstat(descriptor).st_size:
        data += os.read(descriptor, length - len(data))
    return cache_format.decode(data)


def _write_all(path: Path, header: bytes, data: memoryview, is_wanted: Callable[[], bool]) -> bool:
    """Writes all of it; returns False if it was no longer wanted on the way."""
    with path.open("wb", buffering=0) as stream:
        for part in (memoryview(header), data):
            while part:
                if not is_wanted():
                    return False
                part = part[stream.write(part[:_PORTION_BYTES]) :]
    return True


def _replace(beside: Path, path: Path) -> WriteOutcome:
    try:
        beside.replace(path)
    except PermissionError:
        # The folder was writable a moment ago, so another program has the file open.
        return "busy"
    return "written"
