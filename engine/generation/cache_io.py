"""How one file of kept KV is written, read, and told good from bad: whole, or not at all.

Files are written beside their place and renamed. They are not synced: what a power cut leaves of them is told by the
checksum.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.generation import cache_format
from engine.generation.cache_format import CacheHeader

SUFFIX = ".kv"


@dataclass(frozen=True, slots=True)
class FoundCacheFile:
    """A file whose header is good and whose length is right."""

    path: Path
    header: CacheHeader
    mtime_ns: int


def path_in(folder: Path, header: CacheHeader) -> Path:
    """Where a file belongs: in its root's folder, under its key."""
    return folder / header.root.hex() / (header.key.hex() + SUFFIX)


def find_all(folder: Path) -> Iterator[FoundCacheFile]:
    """All good files; what was left half-written, or is none of ours, is deleted: the folder is only ours."""
    for root in _entries(folder):
        for path in _entries(root):
            file = _look_at(path, folder)
            if file is not None:
                yield file
            else:
                with suppress(OSError):
                    path.unlink()


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where there is none, or it cannot be read."""
    try:
        return [Path(entry) for entry in os.scandir(folder)]
    except OSError:
        return []


def _look_at(path: Path, folder: Path) -> FoundCacheFile | None:
    try:
        with path.open("rb", buffering=0) as stream:
            header = _read_header(stream.fileno())
            status = os.fstat(stream.fileno())
    except OSError:
        return None
    if header is None or path != path_in(folder, header) or status.st_size != header.file_bytes:
        return None
    return FoundCacheFile(path, header, status.st_mtime_ns)


def _read_header(descriptor: int) -> CacheHeader | None:
    data = os.read(descriptor, cache_format.HEADER_GUESS_BYTES)
    length = cache_format.header_length(data)
    if length is not None and len(data) < length <= os.fstat(descriptor).st_size:
        data += os.read(descriptor, length - len(data))
    return cache_format.decode(data)


def read_blob(path: Path, wanted: CacheHeader, data: NDArray[np.uint8]) -> bool:
    """Whether the blob of the file is there as it was written, which is in `data` then."""
    try:
        with path.open("rb", buffering=0) as stream:
            header = _read_header(stream.fileno())
            if header is None or (header.root, header.key) != (wanted.root, wanted.key):
                return False
            stream.seek(header.header_bytes)
            view, at = data.data, 0
            while at < len(view) and (count := stream.readinto(view[at:])):
                at += count
    except OSError:
        return False
    return at == header.num_bytes == data.nbytes and zlib.crc32(data.data) == header.checksum


def write_file(path: Path, header: bytes, data: memoryview) -> None:
    """Puts a file in its place, with its folder. Raises what the system says where that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    try:
        with beside.open("wb", buffering=0) as stream:
            for part in (memoryview(header), data):
                while part:
                    part = part[stream.write(part) :]
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def write_usage(path: Path, usage: bytes) -> None:
    """Mends how often a file was used, where it is still there."""
    with suppress(OSError), path.open("r+b", buffering=0) as stream:
        stream.seek(cache_format.USAGE_OFFSET)
        stream.write(usage)
