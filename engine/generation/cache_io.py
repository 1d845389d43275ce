"""How one file of kept KV is written, read and checked: whole, or not at all.

Files are written next to their place and renamed. They are not synced: the checksum reveals what a power cut damaged.
A file that another program has open cannot be replaced or deleted on Windows: that is no error, only later.
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
# A write can be given up between two such portions.
_PORTION_BYTES = 1 << 20

# Outcomes of reading: "damaged" also where there is no file; "unavailable" where it may be readable another time.
ReadOutcome = Literal["read", "damaged", "unavailable"]
# "busy": another program has the file open. "unwanted": it was given up on the way.
WriteOutcome = Literal["written", "busy", "unwanted"]


@dataclass(frozen=True, slots=True)
class FoundCacheFile:
    """A file whose header is good and whose length is right."""

    header: CacheHeader
    mtime_ns: int


def path_in(folder: Path, root: bytes, key: bytes) -> Path:
    """Where a file belongs: in its root's folder, under its key."""
    return folder / root.hex() / (key.hex() + SUFFIX)


def paths_below(folder: Path, is_preferred: Callable[[str], bool]) -> Iterator[Path]:
    """The files in the folders of all roots; at each step, those of a preferred root (by folder name) come first."""
    waiting = {root: _entries(root) for root in _entries(folder)}
    while waiting:
        root = next((root for root in waiting if is_preferred(root.name)), next(iter(waiting)))
        path = next(waiting[root], None)
        if path is None:
            del waiting[root]
        else:
            yield path


def _entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder; none where there is no folder, or it cannot be read."""
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
    """Reads the blob of a file into `data`, which is as it was written if the outcome is "read"."""
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
            # There may be a bad sector on the disk, which only a new file gets rid of.
            return "damaged"
    is_whole = at == header.num_bytes == data.nbytes and zlib.crc32(data.data) == header.checksum
    return "read" if is_whole else "damaged"


def write_file(
    path: Path, header: bytes, data: memoryview, is_wanted: Callable[[], bool] = lambda: True
) -> WriteOutcome:
    """Puts a file in its place, creating its folder; gives up as soon as it is no longer wanted.

    Raises:
        OSError: The system's error where it cannot be written.
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
    """What a small file holds; empty where it is larger than that, cannot be read, or does not exist."""
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_size <= max_bytes else b""
    except OSError:
        return b""


def delete(path: Path) -> bool:
    """Deletes a file; False where another program has it open and it must be tried again."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    except OSError:
        # It is a folder, or its disk has gone: not one of our files.
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
        # Its folder was writable a moment ago.
        return "busy"
    return "written"
