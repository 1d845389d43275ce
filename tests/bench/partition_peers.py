"""Other libraries' search over the same vectors and questions: four exact searches, and LanceDB's IVF_RQ index.

Each peer is a function from (q, d) questions and a limit to (q, limit) row numbers, with all threads of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.vectors import Vectors

Search = Callable[[Vectors, int], np.ndarray]

_BLOCK_ROWS = 50_000
# Number of index partitions probed, raised until recall equals ours; LanceDB's default is 10 of 1,000.
PROBES = (20, 40, 80, 160, 320, 640)
REFINE_FACTORS = (20, 40)


def by_numpy(vectors: Vectors) -> Search:
    """Returns exact float32 search by blocked matrix products (BLAS); the reference for recall."""

    def search(questions: Vectors, limit: int) -> np.ndarray:
        best, rows = np.empty((len(questions), 0), np.float32), np.empty((len(questions), 0), np.int64)
        for start in range(0, len(vectors), _BLOCK_ROWS):
            scores = questions @ vectors[start : start + _BLOCK_ROWS].T
            few = min(limit, scores.shape[1])
            chosen = np.argpartition(-scores, few - 1, axis=1)[:, :few]
            best = np.hstack([best, np.take_along_axis(scores, chosen, axis=1)])
            rows = np.hstack([rows, chosen + start])
        order = np.argsort(-best, axis=1, kind="stable")[:, :limit]
        return np.take_along_axis(rows, order, axis=1)

    return search


def by_faiss(vectors: Vectors) -> Search:
    """Returns search in faiss's flat index of float16 values, decoded while scanning."""
    import faiss

    faiss.omp_set_num_threads(os.cpu_count() or 1)
    kind = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexScalarQuantizer(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK_ROWS]))
    return lambda questions, limit: index.search(questions, limit)[1]


def by_usearch(vectors: Vectors) -> Search:
    """Returns usearch's exact float16 search; building its graph of a million vectors would outlast this bench."""
    from usearch.index import MetricKind, search

    rows = vectors.astype(np.float16)

    def find(questions: Vectors, limit: int) -> np.ndarray:
        found = search(rows, questions.astype(np.float16), limit, MetricKind.IP, exact=True)
        return np.asarray(found.keys, np.int64).reshape(len(questions), limit)

    return find


def by_lance(table: Any) -> Search:
    """Returns LanceDB's batched exact search."""
    return lambda questions, limit: _lance_rows(_lance_query(table, questions).bypass_vector_index(), questions, limit)


def by_lance_index(table: Any, probes: int, refine_factor: int) -> Search:
    """Returns LanceDB's IVF_RQ search, with the best candidates rescored by their vectors."""

    def search(questions: Vectors, limit: int) -> np.ndarray:
        query = _lance_query(table, questions).nprobes(probes).refine_factor(refine_factor)
        return _lance_rows(query, questions, limit)

    return search


def open_lance(folder: Path) -> Any:
    """Opens the application's table through a connection of its own, with LanceDB's default cache sizes."""
    import lancedb

    from engine.partitions.opening import TABLE

    return lancedb.connect(folder).open_table(TABLE)


def index_lance(table: Any) -> None:
    """Builds IVF_RQ with LanceDB's defaults; takes a minute or two for a million vectors."""
    from lancedb.index import IvfRq

    table.create_index("vector", config=IvfRq(distance_type="dot"))


def first_as_good(table: Any, recall_of: Callable[[Search], float], wanted: float) -> tuple[Search, float, str]:
    """Returns the cheapest setting whose recall reaches `wanted`, or the best one; with its recall and name."""
    tried = []
    for probes in PROBES:
        for refine_factor in REFINE_FACTORS:
            search = by_lance_index(table, probes, refine_factor)
            recall = recall_of(search)
            tried.append((recall, search, f"nprobes {probes}, refine {refine_factor}"))
            if recall >= wanted:
                return search, recall, tried[-1][2]
    recall, search, name = max(tried, key=lambda one: one[0])
    return search, recall, name


def _lance_query(table: Any, questions: Vectors) -> Any:
    asked: Sequence[Any] = questions if len(questions) > 1 else questions[0]
    return table.search(asked, "vector", query_type="vector").distance_type("dot").select(["row_id", "_distance"])


def _lance_rows(query: Any, questions: Vectors, limit: int) -> np.ndarray:
    found = query.limit(limit).to_arrow()
    which = found["query_index"].to_numpy() if "query_index" in found.column_names else np.zeros(len(found), np.int64)
    rows = np.array([int(name, 16) for name in found["row_id"].to_pylist()], np.int64)
    ranked = np.full((len(questions), limit), -1, np.int64)
    for query_index in range(len(questions)):
        mine = rows[which == query_index]
        ranked[query_index, : len(mine)] = mine
    return ranked
