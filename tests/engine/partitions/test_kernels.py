"""Tests for engine.partitions.kernels and selection."""

from __future__ import annotations

import numpy as np
import pytest

from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.selection import best_columns


def unit(count: int, dimensions: int = 384, seed: int = 1) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def exact(rows: np.ndarray, scales: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return ((rows.astype(np.float64) @ queries.T) * scales[:, None]).T


@pytest.fixture
def kernel() -> NumpyKernel:
    return NumpyKernel()


@pytest.mark.parametrize("num_queries", [1, 2, 8, 9, 32, 130])
def test_what_is_found_is_the_best_and_in_order(kernel: NumpyKernel, num_queries: int) -> None:
    rows, scales = quantize(unit(5_003))
    queries = unit(num_queries, seed=2)

    indices, scores = kernel.scan(rows, scales, queries, 40)

    everything = exact(rows, scales, queries)
    assert indices.dtype == np.int64
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, -np.sort(-everything, axis=1)[:, :40], atol=2e-6)
    np.testing.assert_allclose(scores, np.take_along_axis(everything, indices, axis=1), atol=2e-6)
    assert all(len(set(line)) == 40 for line in indices.tolist())


def test_forty_candidates_hold_the_true_ten(kernel: NumpyKernel) -> None:
    centres, random = unit(50), np.random.default_rng(3)
    vectors = centres[random.integers(50, size=20_000)] + 0.04 * random.standard_normal((20_000, 384))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    queries = vectors[::500]

    candidates, _ = kernel.scan(*quantize(vectors), queries, 40)

    true = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    assert all(set(ten) <= set(forty) for ten, forty in zip(true.tolist(), candidates.tolist(), strict=True))


@pytest.mark.parametrize("num_queries", [1, 12])
def test_masked_rows_are_never_found(kernel: NumpyKernel, num_queries: int) -> None:
    rows, scales = quantize(unit(3_000))
    queries, mask = unit(num_queries, seed=2), np.random.default_rng(4).random(3_000) < 0.5

    indices, scores = kernel.scan(rows, scales, queries, 40, mask)

    everything = np.where(mask, exact(rows, scales, queries), -np.inf)
    np.testing.assert_allclose(scores, -np.sort(-everything, axis=1)[:, :40], atol=2e-6)
    assert mask[indices].all()


@pytest.mark.parametrize("num_queries", [1, 12])
def test_a_mask_that_leaves_few_rows_gives_only_those(kernel: NumpyKernel, num_queries: int) -> None:
    mask = np.zeros(3_000, np.bool_)
    mask[[7, 1_234, 2_999]] = True

    indices, scores = kernel.scan(*quantize(unit(3_000)), unit(num_queries, seed=2), 40, mask)

    assert all(sorted(line) == [7, 1_234, 2_999] for line in indices.tolist())
    assert np.isfinite(scores).all()


def test_nothing_to_find_is_an_empty_answer(kernel: NumpyKernel) -> None:
    rows, scales = quantize(unit(100))
    queries = unit(3, seed=2)

    shapes = [
        kernel.scan(rows, scales, queries, 0)[0].shape,
        kernel.scan(rows, scales, queries, 10, np.zeros(100, np.bool_))[0].shape,
        kernel.scan(rows[:0], scales[:0], queries, 10)[1].shape,
        kernel.scan(rows, scales, queries[:0], 10)[0].shape,
    ]

    assert shapes == [(3, 0), (3, 0), (3, 0), (0, 10)]


@pytest.mark.parametrize("count", [1, 2, 15, 31, 32, 33])
def test_fewer_rows_than_wanted_are_all_found(kernel: NumpyKernel, count: int) -> None:
    indices, _ = kernel.scan(*quantize(unit(count)), unit(2, seed=2), 40)

    assert [sorted(line) for line in indices.tolist()] == [list(range(count))] * 2


@pytest.mark.parametrize("dimensions", [1, 7, 17, 33, 50, 100, 300, 312, 385])
@pytest.mark.parametrize("num_queries", [1, 12])
def test_any_number_of_dimensions_will_do(kernel: NumpyKernel, dimensions: int, num_queries: int) -> None:
    rows, scales = quantize(unit(2_000, dimensions))
    queries = unit(num_queries, dimensions, seed=2)

    _, scores = kernel.scan(rows, scales, queries, 20)

    wanted = -np.sort(-exact(rows, scales, queries), axis=1)[:, :20]
    np.testing.assert_allclose(scores, wanted, atol=2e-6)


@pytest.mark.parametrize("num_queries", [1, 12])
def test_equal_scores_come_in_the_order_of_the_rows(kernel: NumpyKernel, num_queries: int) -> None:
    vectors = np.repeat(unit(4), 1_000, axis=0)

    indices, scores = kernel.scan(*quantize(vectors), np.repeat(vectors[2_000:2_001], num_queries, axis=0), 30)

    assert indices.tolist() == [list(range(2_000, 2_030))] * num_queries
    np.testing.assert_allclose(scores, 1.0, atol=0.01)


def test_near_duplicates_are_ranked_exactly(kernel: NumpyKernel) -> None:
    base, random = unit(1), np.random.default_rng(5)
    vectors = base + 2e-3 * random.standard_normal((4_000, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, scales = quantize(vectors)

    _, scores = kernel.scan(rows, scales, base, 40)

    np.testing.assert_allclose(scores, -np.sort(-exact(rows, scales, base), axis=1)[:, :40], atol=2e-6)


@pytest.mark.parametrize("num_queries", [1, 12])
def test_rows_that_cannot_be_written_to_are_scanned_alike(kernel: NumpyKernel, num_queries: int) -> None:
    rows, scales = quantize(unit(2_000))
    queries = unit(num_queries, seed=2)
    expected = kernel.scan(rows, scales, queries, 10)
    for array in (rows, scales):
        array.setflags(write=False)

    found = kernel.scan(rows, scales, queries, 10)

    np.testing.assert_array_equal(found[0], expected[0])


def test_a_row_of_zeros_scores_zero(kernel: NumpyKernel) -> None:
    rows, scales = quantize(np.vstack([np.zeros((1, 8), np.float32), unit(3, 8)]))

    indices, scores = kernel.scan(rows, scales, unit(1, 8, seed=2), 4)

    assert scores[0][indices[0] == 0].tolist() == [0.0]


def test_quantising_loses_at_most_half_a_scale() -> None:
    vectors = unit(500)

    rows, scales = quantize(vectors)

    assert rows.dtype == np.int8
    assert scales.dtype == np.float32
    assert (np.abs(rows).max(axis=1) == 127).all()
    assert (np.abs(rows * scales[:, None] - vectors) <= scales[:, None] * 0.501).all()


def test_negative_and_infinite_scores_keep_their_order() -> None:
    scores = np.array([[-1.0], [-np.inf], [0.0], [-0.0], [2.0], [np.inf], [-3.0]], np.float32)

    indices, values = best_columns(scores, 7)

    assert indices.tolist() == [[5, 4, 2, 3, 0, 6, 1]]
    assert values.tolist() == [[np.inf, 2.0, 0.0, 0.0, -1.0, -3.0, -np.inf]]
