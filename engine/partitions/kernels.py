"""Search kernels: the best rows of a shard for a batch of queries, exact over int8 rows.

The rows are int8, the queries stay f32: a score is `(rows @ query) · scale`, so the one error is the rounding of
the rows. Twelve candidates per query hold the true ten (recall@10 after rescoring 1.000 at 100,000 and 1,000,000
vectors of 384 numbers; ten hold .994 and .978 of them). Which kernel runs is decided once per process by trying
them: right first, then fast.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.partitions.selection import Scores, best_columns

log = logging.getLogger(__name__)

Rows = NDArray[np.int8]
Scales = NDArray[np.float32]
Queries = NDArray[np.float32]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]

_LARGEST = 127


def quantize(vectors: NDArray[np.float32]) -> tuple[Rows, Scales]:
    """Rounds each of the (n, d) vectors, at most unit length, to int8; its largest number becomes ±127.

    `rows · scales[:, None]` is the vector again, to within half a scale. A row of zeros keeps the scale 0.
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0) if vectors.size else np.zeros(len(vectors))
    scales = (largest / _LARGEST).astype(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))
    return np.rint(vectors / divisors[:, None]).astype(np.int8), scales


class Kernel(Protocol):
    """A way to search rows. Usable from any thread, one scan at a time; keeps its scratch memory until `release`."""

    name: str

    def scan(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None = None
    ) -> tuple[Indices, Scores]:
        """The best rows of each query, best first; rows of equal score in the order of their indices.

        Args:
            rows: (n, d) as `quantize` makes them.
            scales: (n,).
            queries: (q, d); need not be unit length.
            limit: At most this many for each query.
            mask: (n,), True where a row may be found; None means all.

        Returns:
            Indices (q, k) and scores (q, k), where k is `limit` or the number of rows that may be found.
        """
        ...

    def held_bytes(self) -> int:
        """Bytes of scratch memory held between scans, for the ledger."""
        ...

    def release(self) -> None:
        """Gives the scratch memory back; the next scan takes it again."""
        ...


class NumpyKernel:
    """Blocks of rows as f32, multiplied by BLAS: needs nothing but numpy."""

    name = "numpy f32"

    def __init__(self, block_rows: int = 4096) -> None:
        self._block_rows = block_rows

    def scan(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None = None
    ) -> tuple[Indices, Scores]:
        limit = found_at_most(limit, len(rows), mask)
        transposed = np.ascontiguousarray(queries.T)
        scores = np.empty((len(rows), len(queries)), np.float32)
        for start in range(0, len(rows), self._block_rows):
            block = slice(start, start + self._block_rows)
            np.matmul(rows[block].astype(np.float32), transposed, out=scores[block])
        scores *= scales[:, None]
        if mask is not None:
            scores[~mask] = -np.inf
        return best_columns(scores, limit)

    def held_bytes(self) -> int:
        return 0

    def release(self) -> None:
        pass


def found_at_most(limit: int, num_rows: int, mask: Mask | None) -> int:
    """How many rows a scan can return for each query."""
    return max(0, min(limit, num_rows if mask is None else int(np.count_nonzero(mask))))


def _streaming_torch() -> Kernel:
    from engine.partitions.torch_kernel import TorchKernel

    return TorchKernel()


def _plain_torch() -> Kernel:
    from engine.partitions.torch_kernel import TorchKernel

    return TorchKernel(few_queries=0)


@functools.cache
def best_kernel() -> Kernel:
    """The fastest kernel that is right on this machine; found out at the first call, in well under a second."""
    return choose([_streaming_torch, _plain_torch, NumpyKernel])


def choose(makers: Sequence[Callable[[], Kernel]]) -> Kernel:
    """The fastest of the kernels that are right on a small problem; the last one when none is."""
    problem = _Problem()
    costs: list[tuple[float, int, Kernel]] = []
    for place, make in enumerate(makers):
        try:
            kernel = make()
            is_right = problem.is_solved_by(kernel)
        except Exception as error:  # noqa: BLE001 - whatever a library does on this processor, another kernel remains
            log.warning("A search kernel does not run on this machine: %s", error)
            continue
        if is_right:
            costs.append((problem.cost(kernel), place, kernel))
        else:
            log.warning("The search kernel %r gives wrong results on this machine and is not used.", kernel.name)
    return min(costs)[2] if costs else makers[-1]()


class _Problem:
    """A small search whose answer is known, for the self-test."""

    def __init__(self, num_rows: int = 5_000, dimensions: int = 384) -> None:
        random = np.random.default_rng(7)
        vectors = random.standard_normal((num_rows + 32, dimensions), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self._rows, self._scales = quantize(vectors[32:])
        self._queries = vectors[:32]
        self._mask = random.random(num_rows) < 0.9

    def is_solved_by(self, kernel: Kernel) -> bool:
        return all(self._agrees(kernel, self._queries[:count]) for count in (1, 3, 32))

    def _agrees(self, kernel: Kernel, queries: Queries) -> bool:
        exact: NDArray[Any] = (self._rows.astype(np.float64) @ queries.T.astype(np.float64)) * self._scales[:, None]
        exact[~self._mask] = -np.inf
        indices, scores = kernel.scan(self._rows, self._scales, queries, 40, self._mask)
        wanted = -np.sort(-exact, axis=0)[:40].T
        found = np.take_along_axis(exact.T, indices, axis=1)
        return bool(np.allclose(found, wanted, rtol=1e-4) and np.allclose(scores, wanted, rtol=1e-4))

    def cost(self, kernel: Kernel) -> float:
        """The time for one query multiplied by that for 32, so that being twice as fast at either counts alike."""
        return math.prod(min(self._time(kernel, self._queries[:count]) for _ in range(5)) for count in (1, 32))

    def _time(self, kernel: Kernel, queries: Queries) -> float:
        start = time.perf_counter()
        kernel.scan(self._rows, self._scales, queries, 40)
        return time.perf_counter() - start
