"""Writing a partition: it is laid out in memory first, so that the header can contain each section's CRC."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.partitions.durable import write_durably
from engine.partitions.layout import FORMAT, Header, Origin, Shape, header_bytes, paged
from engine.partitions.packed import Packed


def write_partition(path: Path, packed: Packed, origin: Origin, number: int, table_version: int) -> None:
    """Writes a partition beside `path` and renames it there when it is safe on the disk.

    Args:
        path: An existing file is replaced; processes that have it open keep reading the old one.
        packed: At least one row.
        origin: Goes into the header.
        number: The rows' shard number.
        table_version: The LanceDB version that the rows were taken from, at the latest.

    Raises:
        OSError: Nothing was written under that name, for example because the disk is full.
    """
    packed = packed.by_document()
    centroid, radius = _centroid(packed.exact)
    index = b"".join((packed.documents.tobytes(), packed.keys.tobytes(), centroid.tobytes()))
    block = _block(packed)
    exact = np.ascontiguousarray(packed.exact).view(np.uint8).data
    header = Header(
        FORMAT, number, len(packed), origin.dimensions, origin.embedder, origin.table_id, table_version, radius,
        zlib.crc32(index), zlib.crc32(block), zlib.crc32(exact),
    )  # fmt: skip
    write_durably(path, [*_filled((header_bytes(header), index, block)), exact])


def _filled(sections: tuple[bytes | bytearray, ...]) -> Iterator[bytes | bytearray]:
    """Yields each section and the padding of its last page."""
    for section in sections:
        yield section
        yield bytes(paged(len(section)) - len(section))


def _block(packed: Packed) -> bytearray:
    shape = Shape(len(packed), packed.rows.shape[1])
    block = bytearray(shape.block_bytes)
    np.frombuffer(block, np.uint64, shape.count)[:] = packed.ids
    np.frombuffer(block, np.float32, shape.count, shape.scales_at)[:] = packed.scales
    rows = np.frombuffer(block, np.int8, shape.count * shape.dimensions, shape.rows_at)
    rows.reshape(packed.rows.shape)[:] = packed.rows
    return block


def _centroid(exact: NDArray[np.float16]) -> tuple[NDArray[np.float32], float]:
    """Returns the mean of the vectors, and the distance of the farthest one from it."""
    centroid: NDArray[np.float32] = exact.mean(axis=0, dtype=np.float32)
    # |x − c|² = 1 − 2 x·c + |c|² for a unit vector, without a second copy of all of them in float32.
    nearness = float(min((piece.astype(np.float32) @ centroid).min() for piece in _pieces(exact)))
    return centroid, float(np.sqrt(max(0.0, 1.0 - 2.0 * nearness + float(centroid @ centroid))))


def _pieces(rows: NDArray[np.float16], size: int = 4096) -> Iterator[NDArray[np.float16]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
