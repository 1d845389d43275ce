"""How fast parts of a file can be read past the page cache, when nothing else is done: the bound of what streams them.

As many reads at once as the ring has, and of the same size, of the same parts in the same order.
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
# Long enough for the disk to show its steady pace.
MIN_SECONDS = 1.0
# As much as any device wants addresses and lengths to be multiples of.
_ALIGNMENT = 4096


def bandwidth(
    file: Path, extents: Sequence[Extent], depth: int, chunk_bytes: int, min_seconds: float = MIN_SECONDS
) -> float:
    """Bytes a second.

    Args:
        file: What is read.
        extents: Offset and length of each part, read in this order, again and again.
        depth: How many reads there are at once.
        chunk_bytes: The most that one read takes.
        min_seconds: Goes on for at least so long, and reads all parts at least once.

    Raises:
        OSError: It cannot be read past the page cache.
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
    """Where these layers of a GGUF file lie, from the first byte of each to its last."""
    tensors = read_header(model).tensors
    return [_span([one for one in tensors if one.name.startswith(f"blk.{layer}.")]) for layer in layers]


def _span(tensors: Sequence[TensorExtent]) -> Extent:
    start = min(tensor.offset for tensor in tensors)
    return start, max(tensor.offset + tensor.num_bytes for tensor in tensors) - start


def pieces(extents: Sequence[Extent], chunk_bytes: int) -> Iterator[Extent]:
    """The whole aligned blocks of the parts, in reads of at most so many bytes."""
    for offset, length in extents:
        start = -(-offset // _ALIGNMENT) * _ALIGNMENT
        end = (offset + length) // _ALIGNMENT * _ALIGNMENT
        for at in range(start, end, chunk_bytes):
            yield at, min(chunk_bytes, end - at)
