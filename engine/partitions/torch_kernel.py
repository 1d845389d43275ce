"""The search kernel in torch: int8 rows become f32 block by block in the cache and meet the queries in a GEMM.

`torch._int_mm` was measured and left: 430 ms for 50,000 rows where this takes 15 (no VNNI), and it asks for more
than 16 rows of queries, rounded to int8.
"""

from __future__ import annotations

import threading

import numpy as np
import torch

from engine.partitions.kernels import Indices, Mask, Queries, Rows, Scales, found_at_most
from engine.partitions.selection import GROUP, Scores, best_of_groups

# f32 rows of one block stay in the cache between being made and being multiplied.
_BLOCK_NUMBERS = 2048 * 384
# Rows × queries whose scores are held at a time: 16 MB.
_SPAN_SCORES = 1 << 22
_QUERIES_AT_ONCE = 128


class TorchKernel:
    """Made once; the scratch memory grows to the largest scan, at most some tens of megabytes."""

    name = "torch f32"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block = torch.empty(0)
        self._scores = torch.empty(0)

    def scan(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None = None
    ) -> tuple[Indices, Scores]:
        limit = found_at_most(limit, len(rows), mask)
        with self._lock, torch.inference_mode():
            parts = [
                self._scan(rows, scales, queries[start : start + _QUERIES_AT_ONCE], limit, mask)
                for start in range(0, len(queries), _QUERIES_AT_ONCE)
            ]
        if not parts:
            return np.empty((0, limit), np.int64), np.empty((0, limit), np.float32)
        return np.concatenate([indices for indices, _ in parts]), np.concatenate([scores for _, scores in parts])

    def held_bytes(self) -> int:
        return self._block.nbytes + self._scores.nbytes

    def release(self) -> None:
        with self._lock:
            self._block = self._scores = torch.empty(0)

    def _scan(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None
    ) -> tuple[Indices, Scores]:
        transposed = torch.from_numpy(np.ascontiguousarray(queries.T, dtype=np.float32))
        scores = self._room(len(rows), len(queries))
        step = max(1, _BLOCK_NUMBERS // max(1, rows.shape[1]))
        if self._block.shape != (step, rows.shape[1]):
            self._block = torch.empty(step, rows.shape[1])
        for start in range(0, len(rows), step):
            part = _tensor(rows[start : start + step])
            block = self._block[: len(part)]
            block.copy_(part)
            torch.mm(block, transposed, out=scores[start : start + len(part)])
        scores *= _tensor(scales)[:, None]
        if mask is not None:
            scores.masked_fill_(_tensor(~mask)[:, None], float("-inf"))
        whole = len(rows) // GROUP * GROUP
        maxima = scores[:whole].view(-1, GROUP, len(queries)).amax(1)
        if whole < len(rows):
            maxima = torch.cat([maxima, scores[whole:].amax(0, keepdim=True)])
        return best_of_groups(scores.numpy(), maxima.numpy(), limit)

    def _room(self, num_rows: int, num_queries: int) -> torch.Tensor:
        if self._scores.numel() < num_rows * num_queries:
            self._scores = torch.empty(num_rows * num_queries)
        return self._scores[: num_rows * num_queries].view(num_rows, num_queries)


def _tensor(array: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    """Shares the memory; a read-only array (a mapped file, say) is copied, because torch cannot promise to spare it."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
