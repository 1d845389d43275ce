"""Top-k of many scores without sorting: a group whose maximum is low cannot contain any of the best.

Ties go to the lower index, so that results are deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Indices = NDArray[np.int64]

# About the square root of rows ÷ limit, so that about as many groups as rows are examined.
_GROUP = 32


def best_columns(scores: Scores, limit: int) -> tuple[Indices, Scores]:
    """Returns row numbers and values of the `limit` largest scores of each column of (n, q), as (q, limit), best first.

    The `limit` groups with the largest maxima contain the `limit` largest scores: every other group is preceded by that
    many groups, each of which has a score that is at least as large.
    """
    count, num_queries = scores.shape
    if not limit:
        return np.empty((num_queries, 0), np.int64), np.empty((num_queries, 0), np.float32)
    if count <= limit * _GROUP:
        values: Scores = np.ascontiguousarray(scores.T)
        rows = np.broadcast_to(np.arange(count), values.shape)
    else:
        groups, _ = _best_of(np.ascontiguousarray(_group_maxima(scores).T), None, limit)
        rows = (groups[:, :, None] * _GROUP + np.arange(_GROUP)).reshape(num_queries, -1)
        values = scores[np.minimum(rows, count - 1), np.arange(num_queries)[:, None]]
        values[rows >= count] = -np.inf
    return _best_of(values, rows, limit)


def _group_maxima(scores: Scores) -> Scores:
    """Returns the maxima of groups of rows: (n, q) → (ceil(n / _GROUP), q)."""
    whole = len(scores) // _GROUP * _GROUP
    maxima: Scores = scores[:whole].reshape(whole // _GROUP, _GROUP, scores.shape[1]).max(axis=1)
    if whole < len(scores):
        maxima = np.concatenate([maxima, scores[whole:].max(axis=0, keepdims=True)])
    return maxima


def _best_of(values: Scores, rows: NDArray[np.int64] | None, limit: int) -> tuple[Indices, Scores]:
    """Returns row numbers and values of the `limit` largest of each row of (q, m), by value and then by row number."""
    numbers = np.arange(values.shape[1]) if rows is None else rows
    keys = _keys(values, numbers)
    if limit < keys.shape[1]:
        keys = np.partition(keys, keys.shape[1] - limit, axis=1)[:, -limit:]
    keys = np.sort(keys, axis=1)[:, ::-1]
    return _LAST - (keys & _LAST), _values(keys)


_LAST = (1 << 32) - 1


def _keys(values: Scores, numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Returns integers that sort by value, and for equal values by descending row number."""
    bits = (values + np.float32(0)).view(np.int32)  # adding 0 makes one zero of two
    ordered = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    keys: NDArray[np.int64] = (ordered.astype(np.int64) << 32) | (_LAST - numbers)
    return keys


def _values(keys: NDArray[np.int64]) -> Scores:
    ordered = (keys >> 32).astype(np.int32)
    return (ordered ^ ((ordered >> 31) & np.int32(0x7FFFFFFF))).view(np.float32)
