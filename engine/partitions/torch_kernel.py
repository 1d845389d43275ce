"""The search kernel in torch: one road for a few queries, bound by memory, and one for many, bound by arithmetic.

Few queries meet the int8 rows in registers (`torch._weight_int8pack_mm`, bf16) and the best are scored again in
f32; for many, rows become f32 block by block in the cache and meet the queries in a GEMM. `torch._int_mm` was measured
and left: without VNNI 50,000 rows and 32 queries took it 400 ms where the GEMM takes 15, and it wants int8 queries.
"""

from __future__ import annotations

import threading

import numpy as np
import torch

from engine.partitions.kernels import Indices, Mask, Queries, Rows, Scales, found_at_most
from engine.partitions.selection import GROUP, Scores, best_of, best_of_groups

# f32 rows of one block stay in the cache between being made and being multiplied.
_BLOCK_NUMBERS = 2048 * 384
# The scores of so many queries are held at a time: 25 MB for a shard of 50,000 rows.
_QUERIES_AT_ONCE = 128
# Up to so many the first road is the faster one: 4 and 17 ms for one and 12 queries, the GEMM 11 and 17 (AVX-512).
FEW_QUERIES = 8
# WORKAROUND: `torch._weight_int8pack_mm` (2.13, CPU) reads past the end of rows that fill no whole vector register and
# takes the process with it; what it does for other lengths than these is undefined. Such rows go through the GEMM.
_STREAMED_MULTIPLE = 32
# A number rounded to bf16 is off by at most this share of it.
_BF16_ERROR = 2.0**-8


class TorchKernel:
    """Made once; keeps its scratch memory, which grows to the largest scan. Its size is `held_bytes`.

    Up to `few_queries` at a time are streamed, if a row is a multiple of 32 numbers; with 0 the GEMM does everything.
    """

    def __init__(self, few_queries: int = FEW_QUERIES) -> None:
        self.name = "torch, bf16 for a few queries" if few_queries else "torch"
        self._few_queries = few_queries
        self._lock = threading.Lock()
        self._block = torch.empty(0, 0)
        self._scores = torch.empty(0)

    def scan(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None = None
    ) -> tuple[Indices, Scores]:
        limit = found_at_most(limit, len(rows), mask)
        if not limit or not len(queries):
            return np.empty((len(queries), limit), np.int64), np.empty((len(queries), limit), np.float32)
        queries = np.ascontiguousarray(queries, np.float32)
        with self._lock, torch.inference_mode():
            if self._is_streamed(queries) and (found := _stream(rows, scales, queries, limit, mask)):
                return found
            parts = [
                self._multiply(rows, scales, queries[start : start + _QUERIES_AT_ONCE], limit, mask)
                for start in range(0, len(queries), _QUERIES_AT_ONCE)
            ]
        return np.concatenate([indices for indices, _ in parts]), np.concatenate([scores for _, scores in parts])

    def held_bytes(self) -> int:
        return self._block.nbytes + self._scores.nbytes

    def release(self) -> None:
        with self._lock:
            self._block, self._scores = torch.empty(0, 0), torch.empty(0)

    def _is_streamed(self, queries: Queries) -> bool:
        return len(queries) <= self._few_queries and queries.shape[1] % _STREAMED_MULTIPLE == 0

    # --- many queries ------------------------------------------------------------------------------

    def _multiply(
        self, rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None
    ) -> tuple[Indices, Scores]:
        scores = self._room(len(rows), len(queries))
        transposed = torch.from_numpy(np.ascontiguousarray(queries.T))
        block = self._block_for(rows.shape[1])
        for start in range(0, len(rows), len(block)):
            part = _tensor(rows[start : start + len(block)])
            converted = block[: len(part)]
            converted.copy_(part)
            torch.mm(converted, transposed, out=scores[start : start + len(part)])
        scores *= _tensor(scales)[:, None]
        if mask is not None:
            scores.masked_fill_(torch.from_numpy(~mask)[:, None], float("-inf"))
        return best_of_groups(scores.numpy(), _group_maxima(scores).numpy(), limit)

    def _room(self, num_rows: int, num_queries: int) -> torch.Tensor:
        if self._scores.numel() < num_rows * num_queries:
            self._scores = torch.empty(num_rows * num_queries)
        return self._scores[: num_rows * num_queries].view(num_rows, num_queries)

    def _block_for(self, dimensions: int) -> torch.Tensor:
        if self._block.shape[1] != dimensions:
            self._block = torch.empty(max(1, _BLOCK_NUMBERS // dimensions), dimensions)
        return self._block


def _group_maxima(scores: torch.Tensor) -> torch.Tensor:
    whole = len(scores) // GROUP * GROUP
    maxima = scores[:whole].view(-1, GROUP, scores.shape[1]).amax(1)
    return maxima if whole == len(scores) else torch.cat([maxima, scores[whole:].amax(0, keepdim=True)])


# --- a few queries -----------------------------------------------------------------------------------


def _stream(
    rows: Rows, scales: Scales, queries: Queries, limit: int, mask: Mask | None
) -> tuple[Indices, Scores] | None:
    """Scores all rows in bf16 and the best twice in f32. None when that cannot be proven to be right.

    It is when the last row chosen is so much worse in bf16 than the last one wanted that no rounding explains it;
    it is not when hundreds of rows are alike.
    """
    findable = found_at_most(len(rows), len(rows), mask)
    chosen = min(findable, 2 * limit + 32)
    ones = torch.ones(len(rows), dtype=torch.bfloat16)
    rounded = torch.from_numpy(queries).bfloat16()
    dots = torch._weight_int8pack_mm(rounded, _tensor(rows), ones)
    rough = dots.float() * _tensor(scales)
    if mask is not None:
        rough.masked_fill_(torch.from_numpy(~mask), float("-inf"))
    values, places = (part.numpy() for part in torch.topk(rough, chosen, sorted=False))
    exact = np.einsum("qcd,qd->qc", rows[places].astype(np.float32), queries) * scales[places]
    found = best_of(exact, places, limit)
    is_certain = chosen == findable or _is_certain(
        found[1][:, -1], values.min(axis=1), scales, queries, rounded.float().numpy()
    )
    return found if is_certain else None


def _is_certain(last_wanted: Scores, last_chosen: Scores, scales: Scales, queries: Queries, rounded: Queries) -> bool:
    """Whether no row that was left out can belong to those wanted: neither rounding could have hidden it."""
    # Of a unit vector, rounded to int8.
    longest_row = 1 + float(scales.max()) / 2 * queries.shape[1] ** 0.5
    of_queries = longest_row * np.linalg.norm(queries - rounded, axis=1)
    of_results = np.abs(last_chosen) * _BF16_ERROR
    return bool(np.all(last_chosen + of_queries + of_results < last_wanted))


def _tensor(array: np.ndarray) -> torch.Tensor:
    """Shares the memory; a read-only array (a mapped file, say) is copied, because torch cannot promise to spare it."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
