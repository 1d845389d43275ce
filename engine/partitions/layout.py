"""The layout of a partition's file: where each section lies, and what the header says of them.

    header      one or more pages: magic, length, CRC-32, and JSON that says what the file is and where it came from
    index       document ids (int64), content keys (uint64), centroid (float32): read when the file is opened
    block       row ids (uint64), scales (float32), rows (int8): what is resident where there are no codes
    exact       rows (float16): never resident; the few that rescoring wants are gathered from a mapping of the file

Each section begins on a page of its own and has its own CRC-32. The section of exact rows is too large to be checked
before use; instead, an exact cosine must agree with the one by int8, or the vector must have unit length.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from engine.partitions.buffers import aligned
from engine.partitions.positioned import read_at

SUFFIX = ".shard"
FORMAT = 1

_MAGIC = b"RAGDOLLP"
_PAGE_BYTES = 4096
_PREFIX = struct.Struct("<8sII")


class PartitionDamaged(Exception):
    """The file cannot be read, or does not hold what it should; it must be rewritten from the table."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file's rows come from; a file of another origin is not used."""

    embedder: str
    table_id: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file. `table_version` is the latest LanceDB version that its rows were taken from."""

    format: int
    number: int
    count: int
    dimensions: int
    embedder: str
    table_id: str
    table_version: int
    radius: float
    index_crc: int
    block_crc: int
    exact_crc: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Offsets and sizes, in bytes, in a file and in the buffer that its block is read into."""

    count: int
    dimensions: int

    @property
    def index_bytes(self) -> int:
        return 16 * self.count + 4 * self.dimensions

    @property
    def scales_at(self) -> int:
        return aligned(8 * self.count)

    @property
    def rows_at(self) -> int:
        return self.scales_at + aligned(4 * self.count)

    @property
    def block_bytes(self) -> int:
        return self.rows_at + self.count * self.dimensions

    @property
    def exact_bytes(self) -> int:
        return 2 * self.count * self.dimensions

    def offsets(self, header_bytes: int) -> tuple[int, int, int]:
        """Returns the offsets of index, block and exact rows in a file."""
        block_at = header_bytes + paged(self.index_bytes)
        return header_bytes, block_at, block_at + paged(self.block_bytes)


def header_bytes(header: Header) -> bytes:
    """Returns the header as bytes, not yet padded to whole pages."""
    words = json.dumps(asdict(header)).encode()
    return _PREFIX.pack(_MAGIC, len(words), zlib.crc32(words)) + words


def read_header(descriptor: int, origin: Origin, name: str) -> tuple[Header, int]:
    """Reads the header of an open file; returns it and its size in bytes.

    Raises:
        PartitionDamaged: The file is incomplete, or of another origin.
        OSError: It cannot be read.
        ValueError, TypeError: The header was not written by any version of ours.
    """
    file_bytes = os.fstat(descriptor).st_size
    words, num_bytes = _read_words(descriptor, file_bytes, name)
    if words.get("format") != FORMAT:
        raise PartitionDamaged(f"{name} was written by another version")
    header = Header(**words)
    if Origin(header.embedder, header.table_id, header.dimensions) != origin:
        raise PartitionDamaged(f"{name} belongs to another table or embedding model")
    shape = Shape(header.count, header.dimensions)
    if header.count < 1 or file_bytes != shape.offsets(num_bytes)[2] + shape.exact_bytes:
        raise PartitionDamaged(f"{name} is cut short")
    return header, num_bytes


def paged(num_bytes: int) -> int:
    """Rounds up to whole pages."""
    return -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES


def _read_words(descriptor: int, file_bytes: int, name: str) -> tuple[dict[str, Any], int]:
    start = read_at(descriptor, _PREFIX.size, 0)
    if len(start) < _PREFIX.size or not start.startswith(_MAGIC):
        raise PartitionDamaged(f"{name} is no partition")
    _, length, crc = _PREFIX.unpack(start)
    # The length may be damaged, so it is limited by the size of the file.
    words = read_at(descriptor, min(length, file_bytes), _PREFIX.size)
    if zlib.crc32(words) != crc:
        raise PartitionDamaged(f"{name} has a damaged header")
    return json.loads(words), paged(_PREFIX.size + length)
