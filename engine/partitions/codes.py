"""Codes of a partition: an eighth of its int8 rows, and all that stays in memory; they select what is scored exactly.

They have a file of their own beside the partition, so that they can be made, or replaced with those of another
codebook, without changing it. A file that is missing, damaged, or of other rows or another codebook is rewritten; until
then the partition is searched by its int8 rows.

    header      magic, CRC-32 of the codebook, of the partition's block and of the codes, number of rows
    codes       as the fast scan wants them
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.partitions.buffers import Buffer
from engine.partitions.codebook import Codebook
from engine.partitions.durable import write_durably
from engine.partitions.fast_scan import BLOCK_ROWS, FastScan, packed_bytes
from engine.partitions.packed import Mask
from engine.partitions.positioned import read_into
from engine.partitions.rows import Vectors

SUFFIX = ".codes"

_MAGIC = b"RAGDOLLK"
_HEADER = struct.Struct("<8sIIIQ")

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]


class CodesDamaged(Exception):
    """The file cannot be read, or has changed; it must be rewritten from the partition."""


@dataclass(frozen=True, slots=True, eq=False)
class CodesFile:
    """Codes on the disk, not in memory."""

    path: Path
    book: Codebook
    count: int
    crc: int

    @classmethod
    def find(cls, path: Path, book: Codebook, block_crc: int, count: int) -> CodesFile | None:
        """Returns the file; None if it is missing, or its codes are of another codebook or partition."""
        try:
            with path.open("rb") as file:
                magic, book_crc, of_block, crc, rows = _HEADER.unpack(file.read(_HEADER.size))
            size = path.stat().st_size
        except (OSError, struct.error):
            return None
        is_ours = (magic, book_crc, of_block, rows) == (_MAGIC, book.crc, block_crc, count)
        whole = _HEADER.size + packed_bytes(count, book.num_codes)
        return cls(path, book, count, crc) if is_ours and size == whole else None

    @classmethod
    def write(cls, path: Path, book: Codebook, block_crc: int, pieces: Iterable[Vectors]) -> CodesFile:
        """Codes the rows that come in pieces. Raises OSError where the file cannot be written."""
        scan = FastScan(book.centroids)
        for piece in pieces:
            scan.add(book.turned(piece))
        packed = scan.packed().data
        crc = zlib.crc32(packed)
        write_durably(path, (_HEADER.pack(_MAGIC, book.crc, block_crc, crc, len(scan)), packed))
        return cls(path, book, len(scan), crc)

    @property
    def num_bytes(self) -> int:
        """Their size in memory."""
        return packed_bytes(self.count, self.book.num_codes)

    def load(self) -> Codes:
        """Reads the codes into memory. Raises CodesDamaged."""
        try:
            with self.path.open("rb", buffering=0) as file:
                # Not from the C allocator, which keeps freed memory.
                buffer = Buffer(self.num_bytes)
                num_bytes = read_into(file.fileno(), buffer.bytes[: self.num_bytes], _HEADER.size)
        except OSError as error:
            raise CodesDamaged(f"{self.path.name} cannot be read: {error}") from error
        packed = buffer.array(0, (self.num_bytes,), np.uint8)
        if num_bytes != self.num_bytes or zlib.crc32(packed.data) != self.crc:
            raise CodesDamaged(f"{self.path.name} has changed on the disk")
        return Codes(FastScan.of(self.book.centroids, packed, self.count))


class Codes:
    """Codes in memory, searched from any number of threads."""

    def __init__(self, scan: FastScan) -> None:
        self._scan = scan

    def best(self, queries: Vectors, limit: int, mask: Mask | None = None) -> tuple[Positions, Scores]:
        """The best rows of each query, best first, by their codes alone.

        Args:
            queries: (q, k) as the codebook turns them.
            limit: At most this many for each.
            mask: (n,), True where a row may be found; None means all.

        Returns:
            Positions and scores, (q, k) each; a score of −∞ where there were not enough rows.
        """
        if mask is None:
            return self._scan.search(queries, min(limit, len(self._scan)))
        blocks = np.flatnonzero(np.logical_or.reduceat(mask, np.arange(0, len(mask), BLOCK_ROWS)))
        if not len(blocks):
            return np.zeros((len(queries), 0), np.int64), np.zeros((len(queries), 0), np.float32)
        if 2 * len(blocks) * BLOCK_ROWS > len(mask):
            return _best_allowed(self._scan, queries, limit, mask)
        places = (blocks[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
        allowed = np.append(mask, np.zeros(-len(mask) % BLOCK_ROWS, np.bool_))[places]
        positions, scores = _best_allowed(self._scan.of_blocks(blocks), queries, limit, allowed)
        return places[positions], scores


def _best_allowed(scan: FastScan, queries: Vectors, limit: int, allowed: Mask) -> tuple[Positions, Scores]:
    """Asks for more and more rows until enough allowed ones are among them: the fast scan supports no mask."""
    num_allowed = int(np.count_nonzero(allowed))
    wanted = min(limit, num_allowed)
    asked = min(len(scan), wanted * len(scan) // num_allowed + wanted)
    while True:
        positions, scores = scan.search(queries, asked)
        is_allowed = allowed[positions]
        if asked == len(scan) or is_allowed.sum(axis=1).min() >= wanted:
            break
        asked = min(len(scan), 2 * asked)
    first = np.argsort(~is_allowed, axis=1, kind="stable")[:, :wanted]
    scores = np.where(is_allowed, scores, np.float32(-np.inf))
    return np.take_along_axis(positions, first, axis=1), np.take_along_axis(scores, first, axis=1)
