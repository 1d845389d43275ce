"""A partition: a sealed file of vectors, written once, searched many times, replaced whole.

It caches the table's rows with one `shard` number, so it may be lost: a file that is missing, damaged or of another
origin is written again from LanceDB. It gets its final name only when it is complete on the disk. If there are codes
of the same rows beside it, they are scanned instead of its int8 rows.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import Cancelled
from engine.partitions.buffers import Buffer
from engine.partitions.codes import CodesFile
from engine.partitions.halves import widened
from engine.partitions.layout import Header, Origin, PartitionDamaged, Shape, read_header
from engine.partitions.packed import Documents, Mask, Numbers, Packed
from engine.partitions.positioned import read_into
from engine.partitions.rows import Vectors

# A read can be cancelled between two pieces.
_PIECE_BYTES = 4 * 2**20
_PIECE_ROWS = 4096
# The errors of a missing file and of a bad disk: such a file is rewritten under another name.
_OF_THE_FILE = (errno.ENOENT, errno.EIO)
# A row from the page cache takes some 5 µs to map, one from a fast disk 50 µs or more.
_PROBED_ROWS, _COLD_SECONDS_PER_ROW = 8, 30e-6


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The resident part of a partition, as arrays over a buffer."""

    ids: Numbers
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]


class Partition:
    """An open file. The small index is in memory, the rest is read when asked for, from any thread."""

    def __init__(self, path: Path, header: Header, descriptor: int, header_bytes: int) -> None:
        """Takes over the open file: the descriptor is closed with the last reference to this object."""
        self.path, self.header, self._descriptor = path, header, descriptor
        self.shape = Shape(header.count, header.dimensions)
        self._index_at, self._block_at, self._exact_at = self.shape.offsets(header_bytes)
        self._is_verified = False
        # None without codes of exactly these rows, or when these cannot be used.
        self.codes: CodesFile | None = None
        documents, self.centroid = self._read_index()
        self._documents, first = np.unique(documents, return_index=True)
        self._bounds = np.append(first, header.count)
        self._mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            self._mapping.madvise(mmap.MADV_RANDOM)

    @classmethod
    def open(cls, path: Path, origin: Origin) -> Partition:
        """Opens a file and checks that it is complete and ours.

        Raises:
            PartitionDamaged: It is incomplete or of another origin, or the disk cannot read it.
            OSError: The system does not open it now; the file may be intact.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            if error.errno not in _OF_THE_FILE:
                raise
            raise PartitionDamaged(f"{path.name} cannot be opened: {error}") from error
        try:
            header, header_bytes = read_header(descriptor, origin, path.name)
        except (OSError, ValueError, TypeError) as error:
            os.close(descriptor)
            if isinstance(error, OSError) and error.errno not in _OF_THE_FILE:
                raise
            raise PartitionDamaged(f"{path.name} cannot be read: {error}") from error
        except PartitionDamaged:
            os.close(descriptor)
            raise
        return cls(path, header, descriptor, header_bytes)

    def __del__(self) -> None:
        """Closes the file when the last sweep that uses it has released it."""
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
    def total_disk_bytes(self) -> int:
        """With its codes."""
        return self.disk_bytes + (0 if self.codes is None else self.codes.num_bytes)

    @property
    def outline_bytes(self) -> int:
        """The memory of an open file before any of its rows are resident."""
        return int(self._documents.nbytes + self._bounds.nbytes + self.centroid.nbytes)

    # --- which rows --------------------------------------------------------------------------------

    def in_documents(self, wanted: Documents) -> Mask | None:
        """Returns a mask of the rows of these documents; None if there are none. Rows are sorted by document."""
        chosen = np.isin(self._documents, wanted)
        return np.repeat(chosen, np.diff(self._bounds)) if chosen.any() else None

    def documents_of(self, positions: NDArray[np.int64]) -> Documents:
        """Returns the document of each of these rows."""
        return self._documents[np.searchsorted(self._bounds, positions, side="right") - 1]

    def identities(self) -> tuple[Numbers, Numbers]:
        """Reads row ids and content keys, in the order of the rows. Raises PartitionDamaged."""
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
        # Checked once per start of the engine, at the first read.
        if not self._is_verified and zlib.crc32(buffer.bytes[:num_bytes]) != self.header.block_crc:
            raise PartitionDamaged(f"{self.path.name} has changed on the disk")
        self._is_verified = True

    def block(self, buffer: Buffer) -> Block:
        """Returns the arrays of a buffer that `read_block` has filled."""
        count, shape = self.count, self.shape
        return Block(
            buffer.array(0, (count,), np.uint64),
            buffer.array(shape.scales_at, (count,), np.float32),
            buffer.array(shape.rows_at, (count, shape.dimensions), np.int8),
        )

    @property
    def resident_bytes(self) -> int:
        """The memory that a sweep needs for it."""
        return self.shape.block_bytes if self.codes is None else self.codes.num_bytes

    def ids_of(self, positions: NDArray[np.int64]) -> Numbers:
        """Returns the ids of these rows. Raises PartitionDamaged as `exact` does."""
        self._check_whole()
        ids: Numbers = np.frombuffer(self._mapping, np.uint64, self.count, self._block_at)[positions]
        return ids

    def int8_of(self, positions: NDArray[np.int64]) -> Vectors:
        """Returns the (n, d) vectors of these rows as restored from int8. Raises PartitionDamaged as `exact` does."""
        self._check_whole()
        shape = self.shape
        scales = np.frombuffer(self._mapping, np.float32, self.count, self._block_at + shape.scales_at)
        rows = np.frombuffer(self._mapping, np.int8, self.count * shape.dimensions, self._block_at + shape.rows_at)
        return rows.reshape(self.count, -1)[positions].astype(np.float32) * scales[positions][:, None]

    def pieces(self) -> Iterator[Vectors]:
        """Yields all vectors in order, some thousands at a time. Raises PartitionDamaged as `exact` does."""
        for start in range(0, self.count, _PIECE_ROWS):
            yield self.exact(np.arange(start, min(start + _PIECE_ROWS, self.count)))
            self.forget_pages()

    def exact(self, positions: NDArray[np.int64]) -> Vectors:
        """Reads the (n, d) vectors of these rows, in rising order. Raises PartitionDamaged as `halves` does."""
        return widened(self.halves(positions)[0])

    def halves(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.float16], bool]:
        """Reads the (n, d) vectors of these rows, in rising order, uncached; returns also whether that was slow.

        Measured (1,000,000 × 384, 32 queries × 40 candidates): 3–9 ms warm; 72–88 ms cold, and 44–67 ms if all pages
        are announced to the system first. Announcing takes as long as a warm read, so it is done only if the first few
        rows were slow. f32 in memory takes 0.6 ms and four times the memory of int8, LanceDB's `take_row_ids` 24–87 ms.

        Known limit: the rows come from a mapping, so a file that is cut short, or whose drive is removed, between the
        check of its size and the last row ends the process (SIGBUS); the engine is restarted, and nothing is lost.

        Raises:
            PartitionDamaged: The file has been cut short since it was opened, or its size cannot be read.
        """
        self._check_whole()
        whole = np.frombuffer(self._mapping, np.float16, self.count * self.shape.dimensions, self._exact_at)
        rows = whole.reshape(self.count, self.shape.dimensions)
        # Measured twice, because another thread may delay one measurement, but a cold disk delays both.
        taken = np.empty((len(positions), self.shape.dimensions), np.float16)
        size, num_taken = min(_PROBED_ROWS, len(positions) // 2), 0
        is_cold = size > 0
        while is_cold and num_taken < 2 * size:
            some = slice(num_taken, num_taken + size)
            is_cold, num_taken = _is_slow(rows, positions[some], taken[some]), some.stop
        if is_cold:
            self.announce(positions[num_taken:])
        _take(rows, positions[num_taken:], taken[num_taken:])
        return taken, is_cold

    def _check_whole(self) -> None:
        try:
            file_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise PartitionDamaged(f"{self.path.name} cannot be read: {error}") from error
        if file_bytes < self.disk_bytes:
            raise PartitionDamaged(f"{self.path.name} is cut short")

    def announce(self, positions: NDArray[np.int64]) -> None:
        """Asks the system to read these rows from the disk in parallel instead of one after another."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        row_bytes = 2 * self.shape.dimensions
        starts = self._exact_at + positions * row_bytes
        pages = np.unique(np.concatenate((starts, starts + row_bytes - 1)) // mmap.PAGESIZE)
        for page in pages.tolist():
            self._mapping.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)

    def forget_pages(self) -> None:
        """Removes the pages that `exact` touched from our resident memory; the system may keep them cached."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def packed(self) -> Packed:
        """Reads everything, and verifies all checksums. Raises PartitionDamaged."""
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


def _take(rows: NDArray[np.float16], positions: NDArray[np.int64], taken: NDArray[np.float16]) -> None:
    """Copies rows; releases the GIL meanwhile."""
    # "clip" because checking positions, which are always valid, would make another copy.
    rows.take(positions, axis=0, out=taken, mode="clip")


def _is_slow(rows: NDArray[np.float16], positions: NDArray[np.int64], taken: NDArray[np.float16]) -> bool:
    """Copies rows; returns whether that was as slow as reading from a disk."""
    started = time.perf_counter()
    _take(rows, positions, taken)
    return time.perf_counter() - started > _COLD_SECONDS_PER_ROW * len(positions)
