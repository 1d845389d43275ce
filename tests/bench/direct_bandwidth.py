"""Read rate of parts of a file, bypassing the page cache: the upper bound for anything that streams them.

Reads the same parts in the same order as the ring, with as many concurrent reads of the same size, and computes
nothing.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.models.gguf import TensorExtent, read_header

Extent = tuple[int, int]
# Long enough for the disk to reach its steady rate.
MIN_SECONDS = 1.0
# Covers the alignment that any device demands for addresses and lengths of direct reads.
_ALIGNMENT = 4096


def bandwidth(
    file: Path, extents: Sequence[Extent], depth: int, chunk_bytes: int, min_seconds: float = MIN_SECONDS
) -> float:
    """Returns bytes per second.

    Args:
        file: The file to read.
        extents: Offset and length of each part, read repeatedly in this order.
        depth: Number of concurrent reads.
        chunk_bytes: Maximum size of one read.
        min_seconds: Minimum duration; all parts are read at least once.

    Raises:
        OSError: The file cannot be read past the page cache.
    """
    chunks = list(pieces(extents, chunk_bytes))
    buffers = threading.local()
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)

    def read(chunk: Extent) -> int:
        if not hasattr(buffers, "own"):
            buffers.own = memoryview(mmap.mmap(-1, chunk_bytes))
        offset, length = chunk
        return os.preadv(descriptor, [buffers.own[:length]], offset)

    try:
        with ThreadPoolExecutor(depth) as readers:
            begun, num_bytes = time.perf_counter(), 0
            while not num_bytes or time.perf_counter() - begun < min_seconds:
                num_bytes += sum(readers.map(read, chunks))
            return num_bytes / (time.perf_counter() - begun)
    finally:
        os.close(descriptor)


def layer_extents(model: Path, layers: Sequence[int]) -> list[Extent]:
    """Returns where these layers of a GGUF file lie, from the first byte of each to its last."""
    tensors = read_header(model).tensors
    return [_span([one for one in tensors if one.name.startswith(f"blk.{layer}.")]) for layer in layers]


def _span(tensors: Sequence[TensorExtent]) -> Extent:
    start = min(tensor.offset for tensor in tensors)
    return start, max(tensor.offset + tensor.num_bytes for tensor in tensors) - start


def pieces(extents: Sequence[Extent], chunk_bytes: int) -> Iterator[Extent]:
    """Yields the whole aligned blocks of the parts, in reads of at most `chunk_bytes`."""
    for offset, length in extents:
        start = -(-offset // _ALIGNMENT) * _ALIGNMENT
        end = (offset + length) // _ALIGNMENT * _ALIGNMENT
        for at in range(start, end, chunk_bytes):
            yield at, min(chunk_bytes, end - at)
