"""Pages of a model's file that nobody reads again, because llama.cpp copied the weights into another order.

Where weights are repacked, each of their bytes is in memory twice after a load: in llama.cpp's own buffer, which stays,
and in the page of the file that it was copied from. Of a Q4_0 model of 63 MiB, 50 MiB are copied and 50 MiB of the file
are mapped, of which computing then touches 1.3 MiB: rows of the token embeddings, which are never repacked, and norms.
So a plan counts a repacked model once, as memory that stays, and its embeddings as pages of the file; one that is not
repacked once as well, as pages of the file. What is let go here stays in the page cache, from which another load is
fast, for as long as nobody needs the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.generation.weights.mappings import FileId
from engine.generation.weights.mappings import Mapping as MappedRange
from engine.generation.weights.memory_map import advise
from engine.models.gguf import parts_of

MADV_DONTNEED = 4


def copied_bytes(buffers: Mapping[str, int]) -> int:
    """What of the weights lies in main memory that is no mapping of their file.

    Args:
        buffers: Bytes by the names that llama.cpp has for where weights lie: CPU_Mapped, CPU_REPACK, CUDA0 …
    """
    in_memory = {name: num_bytes for name, num_bytes in buffers.items() if name.startswith("CPU")}
    return sum(num_bytes for name, num_bytes in in_memory.items() if not name.endswith("_Mapped"))


def let_go(path: Path, mappings: Iterable[MappedRange]) -> None:
    """Takes the pages of a model's files out of this process; those that are needed come back when they are read.

    Nothing can be lost: the files are mapped to be read only, and nothing but their mappings is touched.
    """
    files = [FileId.of(part) for part in parts_of(path)]
    for mapping in mappings:
        if any(mapping.file.is_same(file) for file in files):
            advise(mapping.start, mapping.end - mapping.start, MADV_DONTNEED)
