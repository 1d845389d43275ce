"""Threads that scan codes: one for each processor, because faiss scans the codes for one query on one of them only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from engine.partitions.codes import Codes, Positions, Scores
from engine.partitions.packed import Mask
from engine.partitions.rows import Vectors


class Scanners:
    """Used by whoever sweeps. The threads start with the first scan."""

    def __init__(self) -> None:
        available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        self._num_threads = len(available)
        self._pool = ThreadPoolExecutor(self._num_threads, thread_name_prefix="scan")

    def best(
        self, parts: Sequence[tuple[Codes, Mask | None]], queries: Vectors, limit: int
    ) -> list[tuple[Positions, Scores]]:
        """`Codes.best` of each part, in their order; where they are few, each is shared by some threads."""
        num_shares = min(len(queries), -(-self._num_threads // max(1, len(parts))))
        shares = np.array_split(queries, num_shares)
        scans = [[self._pool.submit(codes.best, share, limit, mask) for share in shares] for codes, mask in parts]
        found = [[scan.result() for scan in of_part] for of_part in scans]
        return [
            (np.concatenate([positions for positions, _ in of_part]), np.concatenate([scores for _, scores in of_part]))
            for of_part in found
        ]

    def close(self) -> None:
        self._pool.shutdown()
