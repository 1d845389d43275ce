"""faiss's fast scan behind one door: 4-bit codes that are compared by table look-ups in vector registers.

Only this module imports faiss, and only once a library is large enough. faiss runs on the calling thread and releases
the GIL; it is kept from starting threads of its own, which would compete with torch's.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]
Vectors = NDArray[np.float32]
PackedCodes = NDArray[np.uint8]

# The rows in one block of packed codes; a block has this many rows times half a byte for each code.
BLOCK_ROWS = 32
CENTROIDS = 16
_BITS = 4
# The sum of this many 8-bit table entries still fits into 16 bits.
MOST_CODES = 256
_ROUNDS = 12


@functools.cache
def is_available() -> bool:
    """Returns whether faiss is installed and works beside torch; the first call imports it."""
    # WORKAROUND: on macOS both wheels bring an OpenMP runtime of LLVM's, and the second one to start ends the process
    # ("OMP: Error #15", https://github.com/facebookresearch/faiss/wiki/Troubleshooting).
    if sys.platform == "darwin":
        return False
    try:
        importlib.import_module("faiss")
    except ImportError as error:
        log.warning("faiss cannot be used, so partitions are searched without codes: %s", error)
        return False
    return True


def fit(vectors: Vectors, num_codes: int) -> Vectors:
    """Returns the centroids (num_codes, 16, width) for (n, num_codes × width) vectors; deterministic."""
    index = _empty(vectors.shape[1], num_codes)
    index.pq.cp.niter = _ROUNDS
    with _on_one_thread():
        index.train(np.ascontiguousarray(vectors))
    centroids: Vectors = _faiss().vector_to_array(index.pq.centroids)
    return centroids.reshape(num_codes, CENTROIDS, -1)


class FastScan:
    """Codes in memory that only grow. Any number of threads may search while nothing is added."""

    def __init__(self, centroids: Vectors) -> None:
        self._centroids = centroids
        num_codes, _, width = centroids.shape
        self._index = _empty(num_codes * width, num_codes)
        _faiss().copy_array_to_vector(np.ascontiguousarray(centroids).ravel(), self._index.pq.centroids)
        self._index.is_trained = True

    @classmethod
    def of(cls, centroids: Vectors, packed: PackedCodes, count: int) -> FastScan:
        """Restores a scan of `count` rows from the `packed` codes of another one."""
        scan = cls(centroids)
        _faiss().copy_array_to_AlignedTable(packed, scan._index.codes)
        scan._index.ntotal, scan._index.ntotal2 = count, _blocks(count) * BLOCK_ROWS
        return scan

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: Vectors) -> None:
        """Appends the codes of (n, num_codes × width) vectors."""
        with _on_one_thread():
            self._index.add(np.ascontiguousarray(vectors))

    def packed(self) -> PackedCodes:
        """Returns a copy of all codes, in interleaved blocks of `BLOCK_ROWS` rows; the last block is padded."""
        codes: PackedCodes = _faiss().AlignedTable_to_array(self._index.codes)
        return codes

    def search(self, queries: Vectors, limit: int) -> tuple[Positions, Scores]:
        """Returns the `limit` ≤ len(self) best rows of (q, num_codes × width) queries: (q, limit) each, best first."""
        with _on_one_thread():
            scores, positions = self._index.search(np.ascontiguousarray(queries), limit)
        return positions, scores

    def of_blocks(self, blocks: Positions) -> FastScan:
        """Returns a copy with the rows of these blocks only; padding of the last block is kept."""
        packed = self.packed().reshape(_blocks(len(self)), -1)[blocks]
        return FastScan.of(self._centroids, packed.ravel(), len(blocks) * BLOCK_ROWS)


def packed_bytes(count: int, num_codes: int) -> int:
    """Returns the size of the codes of `count` rows, on the disk and in memory."""
    return _blocks(count) * BLOCK_ROWS * num_codes * _BITS // 8


def _blocks(count: int) -> int:
    return -(-count // BLOCK_ROWS)


def _empty(dimensions: int, num_codes: int) -> Any:
    faiss = _faiss()
    return faiss.IndexPQFastScan(dimensions, num_codes, _BITS, faiss.METRIC_INNER_PRODUCT, BLOCK_ROWS)


@contextmanager
def _on_one_thread() -> Iterator[None]:
    """Makes faiss compute on the calling thread only.

    torch may share its OpenMP runtime, where the number of threads is set per calling thread, so it is restored
    afterwards.
    """
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _faiss() -> Any:
    return importlib.import_module("faiss")
