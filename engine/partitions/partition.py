"""A partition: a sealed file of vectors, written once, searched many times, replaced whole.

It is a cache of the table's rows with one `shard` number, so nothing in it must survive: a file that is missing,
damaged or of another origin is written again from LanceDB. It gets its name only when it is complete on the disk.

    header      one or more pages: magic, length, CRC-32, and JSON that says what the file is and where it came from
    index       document ids (int64), content keys (uint64), centroid (float32): read when the file is opened
    block       row ids (uint64), scales (float32), rows (int8): what is resident, read at one go
    exact       rows (float16): never resident; the few that rescoring wants are gathered from a mapping of the file

Each section begins on a page of its own and has its own CRC-32. The exact rows are far too many to be summed up
before use; there the cosine itself must agree with the one that int8 gave.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import Cancelled
from engine.partitions.buffers import Buffer, aligned
from engine.partitions.packed import Documents, Mask, Numbers, Packed
from engine.partitions.positioned import read_at, read_into
from engine.partitions.rows import Vectors

MAGIC = b"RAGDOLLP"
SUFFIX = ".shard"

_FORMAT = 1
_PAGE_BYTES = 4096
_PREFIX = struct.Struct("<8sII")
# Between two pieces a read can be called off.
_PIECE_BYTES = 4 * 2**20
# A row from the page cache takes some 5 µs to map, one from a fast disk 50 µs or more.
_PROBED_ROWS, _COLD_SECONDS_PER_ROW = 8, 30e-6


class PartitionDamaged(Exception):
    """The file cannot be read, or does not hold what it should; it is to be written anew from the table."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file's rows come from; a file of another origin is none of ours."""

    embedder: str
    table_id: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself. `table_version` is the LanceDB version its rows were taken from, at the latest."""

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
    """Where things lie in a file, and in the buffer that its block is read into; all in bytes."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The resident part of a partition, as arrays over a buffer."""

    ids: Numbers
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]


class Partition:
    """An open file. The small index is in memory, the rest is read when asked for, from any thread."""

    def __init__(self, path: Path, header: Header, descriptor: int, header_bytes: int) -> None:
        """Takes the open file over: the descriptor is closed with the last reference to this."""
        self.path, self.header, self._descriptor = path, header, descriptor
        self.shape = Shape(header.count, header.dimensions)
        self._index_at, self._block_at, self._exact_at = _offsets(self.shape, header_bytes)
        self._is_verified = False
        documents, self.centroid = self._read_index()
        self._documents, first = np.unique(documents, return_index=True)
        self._bounds = np.append(first, header.count)
        self._mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            self._mapping.madvise(mmap.MADV_RANDOM)

    @classmethod
    def open(cls, path: Path, origin: Origin) -> Partition:
        """Opens a file and looks that it is complete and ours. Raises PartitionDamaged."""
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise PartitionDamaged(f"{path.name} cannot be opened: {error}") from error
        try:
            header, header_bytes = _read_header(descriptor, path.name)
            _check_origin(header, origin, path.name)
            _check_size(header, header_bytes, os.fstat(descriptor).st_size, path.name)
        except (OSError, ValueError, TypeError) as error:
            os.close(descriptor)
            raise PartitionDamaged(f"{path.name} cannot be read: {error}") from error
        except PartitionDamaged:
            os.close(descriptor)
            raise
        return cls(path, header, descriptor, header_bytes)

    def __del__(self) -> None:
        """Closes the file when the last sweep that used it has let go of it."""
        if (descriptor := getattr(self, "_descriptor", -1)) >= 0:
            self._descriptor = -1
            os.close(descriptor)

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def count(self) -> int:
        return self.header.count

    @property
    def disk_bytes(self) -> int:
        return self._exact_at + self.shape.exact_bytes

    @property
    def outline_bytes(self) -> int:
        """What an open file takes in memory before anything of it is resident."""
        return int(self._documents.nbytes + self._bounds.nbytes + self.centroid.nbytes)

    # --- which rows --------------------------------------------------------------------------------

    def in_documents(self, wanted: Documents) -> Mask | None:
        """Which rows belong to the documents; None when none does. The rows of a document stand side by side."""
        chosen = np.isin(self._documents, wanted)
        return np.repeat(chosen, np.diff(self._bounds)) if chosen.any() else None

    def documents_of(self, positions: NDArray[np.int64]) -> Documents:
        """The document of each of these rows."""
        return self._documents[np.searchsorted(self._bounds, positions, side="right") - 1]

    def identities(self) -> tuple[Numbers, Numbers]:
        """Row ids and content keys, in the order of the rows. Raises PartitionDamaged."""
        keys = np.frombuffer(self._read(self._index_at + 8 * self.count, 8 * self.count), np.uint64)
        return np.frombuffer(self._read(self._block_at, 8 * self.count), np.uint64), keys

    # --- their vectors -----------------------------------------------------------------------------

    def read_block(self, buffer: Buffer, cancelled: threading.Event) -> None:
        """Fills the start of a buffer with the resident part.

        Raises:
            PartitionDamaged: It cannot be read, or is not what was written.
            Cancelled: `cancelled` was set meanwhile.
        """
        num_bytes = self.shape.block_bytes
        for start in range(0, num_bytes, _PIECE_BYTES):
            if cancelled.is_set():
                raise Cancelled("The partition is no longer wanted.")
            piece = buffer.bytes[start : min(start + _PIECE_BYTES, num_bytes)]
            self._fill(piece, self._block_at + start)
        # Once for each start of the engine: what the disk lost since it was written shows at the first reading.
        if not self._is_verified and zlib.crc32(buffer.bytes[:num_bytes]) != self.header.block_crc:
            raise PartitionDamaged(f"{self.path.name} has changed on the disk")
        self._is_verified = True

    def block(self, buffer: Buffer) -> Block:
        """The arrays of a buffer that `read_block` has filled."""
        count, shape = self.count, self.shape
        return Block(
            buffer.array(0, (count,), np.uint64),
            buffer.array(shape.scales_at, (count,), np.float32),
            buffer.array(shape.rows_at, (count, shape.dimensions), np.int8),
        )

    def exact(self, positions: NDArray[np.int64]) -> Vectors:
        """The (n, d) vectors of these rows, in rising order, read from the disk and not kept.

        Measured (1,000,000 × 384, 32 queries × 40 candidates): warm 3–9 ms; cold 72–88 ms, and 44–67 ms when the
        system hears of all pages first. That takes as long as reading them does when they are warm, so it is told
        only where the first few rows came slowly. f32 in memory takes 0.6 ms and four times the memory of int8,
        LanceDB's `take_row_ids` 24–87 ms.

        Known limit: the rows come from a mapping, so a file that is cut short, or whose drive goes away, between the
        look at its size and the last row ends the process (SIGBUS); the engine is started anew, and nothing is lost.

        Raises:
            PartitionDamaged: The file has been cut short since it was opened, or cannot be looked at.
        """
        self._check_whole()
        whole = np.frombuffer(self._mapping, np.float16, self.count * self.shape.dimensions, self._exact_at)
        rows = whole.reshape(self.count, self.shape.dimensions)
        started = time.perf_counter()
        first = rows[positions[:_PROBED_ROWS]]
        if time.perf_counter() - started > _COLD_SECONDS_PER_ROW * len(first):
            self._announce(positions[_PROBED_ROWS:])
        gathered: Vectors = np.concatenate((first, rows[positions[_PROBED_ROWS:]])).astype(np.float32)
        return gathered

    def _check_whole(self) -> None:
        try:
            file_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise PartitionDamaged(f"{self.path.name} cannot be read: {error}") from error
        if file_bytes < self.disk_bytes:
            raise PartitionDamaged(f"{self.path.name} is cut short")

    def _announce(self, positions: NDArray[np.int64]) -> None:
        """Asks the system to read these rows from the disk, all at a time instead of one after another."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        row_bytes = 2 * self.shape.dimensions
        starts = self._exact_at + positions * row_bytes
        pages = np.unique(np.concatenate((starts, starts + row_bytes - 1)) // mmap.PAGESIZE)
        for page in pages.tolist():
            self._mapping.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)

    def forget_pages(self) -> None:
        """Takes what `exact` touched out of our resident memory; the system may keep it cached."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def packed(self) -> Packed:
        """Everything, checked to the last byte. Raises PartitionDamaged."""
        count, shape = self.count, self.shape
        index = self._checked(self._index_at, shape.index_bytes, self.header.index_crc)
        block = self._checked(self._block_at, shape.block_bytes, self.header.block_crc)
        exact = self._checked(self._exact_at, shape.exact_bytes, self.header.exact_crc)
        return Packed(
            ids=np.frombuffer(block, np.uint64, count),
            documents=np.frombuffer(index, np.int64, count),
            keys=np.frombuffer(index, np.uint64, count, 8 * count),
            scales=np.frombuffer(block, np.float32, count, shape.scales_at),
            rows=np.frombuffer(block, np.int8, count * shape.dimensions, shape.rows_at).reshape(count, -1),
            exact=np.frombuffer(exact, np.float16).reshape(count, shape.dimensions),
        )

    # --- bytes -------------------------------------------------------------------------------------

    def _read_index(self) -> tuple[Documents, NDArray[np.float32]]:
        index = self._checked(self._index_at, self.shape.index_bytes, self.header.index_crc)
        documents = np.frombuffer(index, np.int64, self.count)
        return documents, np.frombuffer(index, np.float32, self.shape.dimensions, 16 * self.count).copy()

    def _checked(self, offset: int, num_bytes: int, crc: int) -> bytearray:
        content = self._read(offset, num_bytes)
        if zlib.crc32(content) != crc:
            raise PartitionDamaged(f"{self.path.name} has changed on the disk")
        return content

    def _read(self, offset: int, num_bytes: int) -> bytearray:
        content = bytearray(num_bytes)
        self._fill(memoryview(content), offset)
        return content

    def _fill(self, target: memoryview, offset: int) -> None:
        try:
            num_bytes = read_into(self._descriptor, target, offset)
        except OSError as error:
            raise PartitionDamaged(f"{self.path.name} cannot be read: {error}") from error
        if num_bytes < len(target):
            raise PartitionDamaged(f"{self.path.name} is cut short")


def write_partition(path: Path, packed: Packed, origin: Origin, number: int, table_version: int) -> None:
    """Writes a partition beside `path` and renames it there when it is safe on the disk.

    Args:
        path: A file there before is replaced; who has it open reads on in the old one.
        packed: At least one row.
        origin: Goes into the header.
        number: The rows' shard number.
        table_version: Of LanceDB, in which all these rows are or were.

    Raises:
        OSError: Nothing was written under that name (the disk is full, say).
    """
    packed = packed.by_document()
    centroid, radius = _centroid(packed.exact)
    index = b"".join((packed.documents.tobytes(), packed.keys.tobytes(), centroid.tobytes()))
    block = _block(packed)
    exact = np.ascontiguousarray(packed.exact).view(np.uint8).data
    header = Header(
        _FORMAT, number, len(packed), origin.dimensions, origin.embedder, origin.table_id, table_version, radius,
        zlib.crc32(index), zlib.crc32(block), zlib.crc32(exact),
    )  # fmt: skip
    beside = path.with_suffix(".tmp")
    try:
        _write_durably(beside, (_header_bytes(header), index, block), exact)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write_durably(path: Path, sections: Sequence[bytes | bytearray], last: memoryview) -> None:
    """Sections that fill whole pages, then the last one as it is."""
    with path.open("wb") as file:
        for section in sections:
            file.write(section)
            file.write(bytes(_paged(len(section)) - len(section)))
        file.write(last)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable, where the system lets a folder be opened for that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _block(packed: Packed) -> bytearray:
    shape = Shape(len(packed), packed.rows.shape[1])
    block = bytearray(shape.block_bytes)
    np.frombuffer(block, np.uint64, shape.count)[:] = packed.ids
    np.frombuffer(block, np.float32, shape.count, shape.scales_at)[:] = packed.scales
    rows = np.frombuffer(block, np.int8, shape.count * shape.dimensions, shape.rows_at)
    rows.reshape(packed.rows.shape)[:] = packed.rows
    return block


def _centroid(exact: NDArray[np.float16]) -> tuple[NDArray[np.float32], float]:
    """The mean of the vectors, and the distance of the farthest one from it."""
    centroid: NDArray[np.float32] = exact.mean(axis=0, dtype=np.float32)
    # |x − c|² = 1 − 2 x·c + |c|² for a unit vector, without a second copy of all of them in float32.
    nearness = float(min((piece.astype(np.float32) @ centroid).min() for piece in _pieces(exact)))
    return centroid, float(np.sqrt(max(0.0, 1.0 - 2.0 * nearness + float(centroid @ centroid))))


def _pieces(rows: NDArray[np.float16], size: int = 4096) -> Iterator[NDArray[np.float16]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _header_bytes(header: Header) -> bytes:
    words = json.dumps(asdict(header)).encode()
    return _PREFIX.pack(MAGIC, len(words), zlib.crc32(words)) + words


def _read_header(descriptor: int, name: str) -> tuple[Header, int]:
    start = read_at(descriptor, _PREFIX.size, 0)
    if len(start) < _PREFIX.size or not start.startswith(MAGIC):
        raise PartitionDamaged(f"{name} is no partition")
    _, length, crc = _PREFIX.unpack(start)
    # A length that is nonsense must not be believed.
    words = read_at(descriptor, min(length, os.fstat(descriptor).st_size), _PREFIX.size)
    if zlib.crc32(words) != crc:
        raise PartitionDamaged(f"{name} has a damaged header")
    fields: dict[str, Any] = json.loads(words)
    if fields.get("format") != _FORMAT:
        raise PartitionDamaged(f"{name} was written by another version")
    return Header(**fields), _paged(_PREFIX.size + length)


def _check_origin(header: Header, origin: Origin, name: str) -> None:
    if Origin(header.embedder, header.table_id, header.dimensions) != origin:
        raise PartitionDamaged(f"{name} belongs to another table or embedding model")


def _check_size(header: Header, header_bytes: int, file_bytes: int, name: str) -> None:
    shape = Shape(header.count, header.dimensions)
    if header.count < 1 or file_bytes != _offsets(shape, header_bytes)[2] + shape.exact_bytes:
        raise PartitionDamaged(f"{name} is cut short")


def _offsets(shape: Shape, header_bytes: int) -> tuple[int, int, int]:
    """Where index, block and exact rows begin in a file."""
    block_at = header_bytes + _paged(shape.index_bytes)
    return header_bytes, block_at, block_at + _paged(shape.block_bytes)


def _paged(num_bytes: int) -> int:
    return -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
