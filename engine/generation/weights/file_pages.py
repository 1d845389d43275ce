"""Pages of a model's file that are not read again, because llama.cpp copied the weights into another order.

Where weights are repacked, each of their bytes is in memory twice after a load: in llama.cpp's own buffer, which stays,
and in the page of the file that it was copied from. Of a Q4_0 model of 63 MiB, 50 MiB are copied and 50 MiB of the file
are mapped, of which computing then touches 1.3 MiB: rows of the token embeddings, which are never repacked, and norms.
So a plan counts a repacked model once, as memory that stays, and its embeddings as pages of the file; and one that is
not repacked once as well, as pages of the file. Released pages stay in the page cache, from which another load is fast,
for as long as the memory is not needed.

Of what stays mapped, a step touches scattered pages. Where memory is short, each of them would bring its neighbours
from disk, megabytes for a norm of some kilobytes, and these would push the next ones out: a model of 1.7 GB that had
2.1 of them read .85 GB for each token, as llama.cpp by itself does. So those pages are read one by one.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from engine.errors import ModelError
from engine.generation.weights.extents import EMBEDDINGS, SMALL_BYTES
from engine.generation.weights.mappings import FileId
from engine.generation.weights.mappings import Mapping as MappedRange
from engine.generation.weights.memory_map import MADV_DONTNEED, MADV_RANDOM, advise
from engine.models.gguf import READ_BY_ROW, TensorExtent, parts_of, read_header


def copied_bytes(buffers: Mapping[str, int]) -> int:
    """The weights in main memory that are no mapping of their file.

    Args:
        buffers: Bytes by the names that llama.cpp has for where weights lie: CPU_Mapped, CPU_REPACK, CUDA0, CUDA_Host …
    """
    as_it_lies = (num_bytes for name, num_bytes in buffers.items() if name == "CPU" or name.endswith("_Host"))
    return own_order_bytes(buffers) + sum(as_it_lies)


def own_order_bytes(buffers: Mapping[str, int]) -> int:
    """The part of that in the processor's order, unlike what lies as in the file, for a device to copy from."""
    own_order = (name for name in buffers if name.startswith("CPU_") and not name.endswith("_Mapped"))
    # What server processors with matrix units read fastest is in a buffer without such a name.
    in_order = (*own_order, *(name for name in buffers if name == "AMX"))
    return sum(buffers[name] for name in in_order)


def let_go(path: Path, mappings: Iterable[MappedRange]) -> None:
    """Takes the pages of a model's files out of this process; those that are needed come back when they are read.

    Nothing can be lost: the files are mapped read-only, and nothing but their mappings is touched.
    """
    files = [FileId.of(part) for part in parts_of(path)]
    for mapping in mappings:
        if any(mapping.file.is_same(file) for file in files):
            advise(mapping.start, mapping.end - mapping.start, MADV_DONTNEED)


def read_singly(path: Path, mappings: Iterable[MappedRange]) -> None:
    """Has small tensors and rows of the embeddings read without their surroundings, wherever they are mapped."""
    try:
        tables = [(FileId.of(part), read_header(part).tensors) for part in parts_of(path)]
    except (ModelError, OSError):
        # The files have gone since it was loaded: it only takes longer.
        return
    for mapping in mappings:
        for file, tensors in tables:
            if mapping.file.is_same(file):
                for start, end in _within(mapping, _pages_of_few(tensors)):
                    advise(start, end - start, MADV_RANDOM)


def _pages_of_few(tensors: Sequence[TensorExtent]) -> Iterator[tuple[int, int]]:
    """Byte ranges of a file, whole pages: of tensors that are small, or of which a step reads little."""
    page = mmap.PAGESIZE
    for tensor in tensors:
        # A matrix that stays mapped is read as a whole, and the more at once the better.
        if tensor.num_bytes < SMALL_BYTES or tensor.name == EMBEDDINGS or tensor.name in READ_BY_ROW:
            yield tensor.offset // page * page, -(-(tensor.offset + tensor.num_bytes) // page) * page


def _within(mapping: MappedRange, pages: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The addresses of these pages, as far as they are in a mapping."""
    for start, end in pages:
        first, last = max(mapping.start, mapping.base + start), min(mapping.end, mapping.base + end)
        if first < last:
            yield first, last
