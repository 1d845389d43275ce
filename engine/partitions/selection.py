"""Top-k of many scores without sorting: a group whose maximum is low cannot contain any of the best.

Ties go to the lower index, so a search gives one answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Indices = NDArray[np.int64]

# Of the order of the square root of rows ÷ limit: groups to look at and rows to look at are about as many.
_GROUP = 32


def best_columns(scores: Scores, limit: int) -> tuple[Indices, Scores]:
    """For each column of (n, q) the row numbers and values of its `limit` largest, as (q, limit), best first.

    The `limit` groups with the largest maxima hold the `limit` largest scores: each group left out has that many
    before it, and each of those holds a score that is at least as good.
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
    """(n, q) → (ceil(n / _GROUP), q)."""
    whole = len(scores) // _GROUP * _GROUP
    maxima: Scores = scores[:whole].reshape(whole // _GROUP, _GROUP, scores.shape[1]).max(axis=1)
    if whole < len(scores):
        maxima = np.concatenate([maxima, scores[whole:].max(axis=0, keepdims=True)])
    return maxima


def _best_of(values: Scores, rows: NDArray[np.int64] | None, limit: int) -> tuple[Indices, Scores]:
    """The `limit` largest of each line of (q, m), by value and then by row number, and their row numbers (q, m)."""
    numbers = np.arange(values.shape[1]) if rows is None else rows
    keys = _keys(values, numbers)
    if limit < keys.shape[1]:
        keys = np.partition(keys, keys.shape[1] - limit, axis=1)[:, -limit:]
    keys = np.sort(keys, axis=1)[:, ::-1]
    return _LAST - (keys & _LAST), _values(keys)


_LAST = (1 << 32) - 1


def _keys(values: Scores, numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Integers in the order of the values, and within one value against the order of the numbers."""
    bits = (values + np.float32(0)).view(np.int32)  # adding 0 makes one zero of two
    ordered = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    keys: NDArray[np.int64] = (ordered.astype(np.int64) << 32) | (_LAST - numbers)
    return keys


def _values(keys: NDArray[np.int64]) -> Scores:
    ordered = (keys >> 32).astype(np.int32)
    return (ordered ^ ((ordered >> 31) & np.int32(0x7FFFFFFF))).view(np.float32)
