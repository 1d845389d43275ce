"""How many candidates of the int8 scan contain the true top ten, and where to read the rows that rescore them.

    python -m tests.bench.rescoring [--count N]

A study without bounds. Milliseconds to rescore 40 candidates per question, on 2 shared threads at 2.5 GHz; this is why
partitions keep float16 rows in their files, mapped with MADV_RANDOM:

                                               100,000 vectors         1,000,000 vectors
    questions                                  1           32          1           32
    float32 in memory                          0.02        0.4         0.02        0.6
    float16, mapped, in the page cache         0.17        2.5-6.3     0.17        2.7-8.7
    float16, mapped, cold                      95-123      108-128     330-390     970-1130
    the same with MADV_RANDOM                  2.4-9.6     127-140     2.8-4.0     72-88
    the same, MADV_WILLNEED for all first      1.0-3.5     44-48       1.2-1.9     44-67
    LanceDB's take_row_ids, warm               2.5-2.7     21-24       4.2-8.1     24-39
    LanceDB's take_row_ids, cold               9.5-15      51-68       5-6         87

Recall@10 after rescoring: .994 and .978 with 10 candidates, 1.000 with 12 and more; float16 does not change it. (These
vectors had a flatter spectrum than the present ones, of which 60,000 give .994 and 1.000.)
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.partitions.kernels import NumpyKernel, quantize
from tests.bench import ending, partition_library, partition_peers, vectors
from tests.bench.partitions import DIMENSIONS, LIMIT, gathered, recall
from tests.bench.vectors import Vectors

CANDIDATES = (10, 12, 15, 20, 30, 40)
REPEATS = 5
_SHARD_ROWS = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.rescoring",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100_000, help="number of vectors (default: 100,000)")
    count = parser.parse_args(arguments).count
    rows = gathered(vectors.blocks(count, DIMENSIONS), count)
    questions = vectors.questions(32, DIMENSIONS)
    candidates = best_candidates(rows, questions, max(CANDIDATES))
    truth = partition_peers.by_numpy(rows)(questions, LIMIT)
    for number in CANDIDATES:
        found = rescored(rows, questions, candidates[:, :number])
        print(f"{number} candidates: recall@10 {recall(found, truth):.4f}")
    with tempfile.TemporaryDirectory(prefix="rescoring-") as folder:
        _compare(Path(folder), rows, questions, candidates)
    return 0


def best_candidates(rows: Vectors, questions: Vectors, count: int) -> np.ndarray:
    """Returns the best rows of the int8 scan over all shards as (q, count), best first."""
    kernel = NumpyKernel()
    found = [
        (indices + start, scores)
        for start in range(0, len(rows), _SHARD_ROWS)
        for indices, scores in [kernel.scan(*quantize(rows[start : start + _SHARD_ROWS]), questions, count)]
    ]
    indices, scores = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
    return np.take_along_axis(indices, np.argsort(-scores, axis=1, kind="stable")[:, :count], axis=1)


def rescored(rows: np.ndarray, questions: Vectors, candidates: np.ndarray) -> np.ndarray:
    """Returns the best ten of each question's candidates by the given rows."""
    scores = np.einsum("qcd,qd->qc", rows[candidates].astype(np.float32), questions)
    return np.take_along_axis(candidates, np.argsort(-scores, axis=1, kind="stable")[:, :LIMIT], axis=1)


def _compare(folder: Path, rows: Vectors, questions: Vectors, candidates: np.ndarray) -> None:
    halves = folder / "rows.f16"
    rows.astype(np.float16).tofile(halves)
    partition_library.write_table(folder / "table", rows)
    os.sync()
    table = partition_peers.open_lance(folder / "table")

    def mapped(*, is_random: bool, is_announced: bool) -> Callable[[Vectors, np.ndarray], object]:
        def search(asked: Vectors, chosen: np.ndarray) -> object:
            rows_of_file = np.memmap(halves, np.float16, "r", shape=rows.shape)
            _advise(rows_of_file, chosen, is_random=is_random, is_announced=is_announced)
            return rescored(rows_of_file, asked, chosen)

        return search

    def lance(asked: Vectors, chosen: np.ndarray) -> object:
        return table.take_offsets(np.unique(chosen).tolist()).select(["vector"]).to_arrow()

    ways: dict[str, tuple[Callable[[Vectors, np.ndarray], object], Path | None]] = {
        "float32 in memory": (lambda asked, chosen: rescored(rows, asked, chosen), None),
        "float16, mapped, in the page cache": (mapped(is_random=False, is_announced=False), None),
        "float16, mapped, cold": (mapped(is_random=False, is_announced=False), halves),
        "the same with MADV_RANDOM": (mapped(is_random=True, is_announced=False), halves),
        "the same, MADV_WILLNEED for all first": (mapped(is_random=True, is_announced=True), halves),
        "LanceDB's rows, warm": (lance, None),
        "LanceDB's rows, cold": (lance, folder / "table"),
    }
    for name, (way, cold) in ways.items():
        medians = [_median_ms(way, questions[:number], candidates[:number], cold) for number in (1, len(questions))]
        print(f"  {name:<40} 1 question {medians[0]:8.2f} ms   {len(questions)} questions {medians[1]:8.2f} ms")


def _advise(rows: Any, chosen: np.ndarray, *, is_random: bool, is_announced: bool) -> None:
    mapping: mmap.mmap = rows._mmap
    if is_random:
        mapping.madvise(mmap.MADV_RANDOM)
    if is_announced:
        row_bytes = rows.shape[1] * rows.itemsize
        for row in np.unique(chosen).tolist():
            start = row * row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
            mapping.madvise(mmap.MADV_WILLNEED, start, (row + 1) * row_bytes - start)


def _median_ms(
    way: Callable[[Vectors, np.ndarray], object], asked: Vectors, chosen: np.ndarray, cold: Path | None
) -> float:
    way(asked, chosen)
    seconds = []
    for _ in range(REPEATS):
        if cold is not None:
            _forget(cold)
        start = time.perf_counter()
        way(asked, chosen)
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds)


def _forget(path: Path) -> None:
    """Drops a file, or all files of a folder, from the page cache."""
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(ending.run(main))
