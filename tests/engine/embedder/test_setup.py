"""Tests for engine.embedder.setup."""

from __future__ import annotations

import pytest

from engine.embedder.setup import Measured, Setup, batches, best_number, fastest, in_workers

PLAIN, HALF, OTHER = (
    ("sentence-transformers", "float32"),
    ("sentence-transformers", "bfloat16"),
    ("openvino", "float32"),
)


def test_batches_are_filled_by_tokens_longest_first() -> None:
    made = batches([12, 1000, 9, 227, 1025], Setup(batch_tokens=512), max_tokens=256)

    assert made == [[4, 1], [3, 0], [2]]


def test_a_text_longer_than_a_batch_goes_alone_and_short_ones_do_not_go_by_the_hundred() -> None:
    assert batches([2250] * 2, Setup(batch_tokens=100), 256) == [[0], [1]]
    assert max(map(len, batches([2] * 500, Setup(), 256))) == 64
    assert batches([0], Setup(), 256) == [[0]]


def test_the_users_batch_size_is_kept() -> None:
    assert [len(batch) for batch in batches([2] * 7, Setup(batch_size=3), 256)] == [3, 3, 1]
    assert batches([], Setup(), 256) == []


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(0.6, 0.999)}, HALF),
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(0.95, 0.999)}, PLAIN),
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(3.0, 0.999)}, PLAIN),
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(0.6, 0.95)}, PLAIN),
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(0.6, 0.999), OTHER: Measured(0.5, 0.2)}, HALF),
        ({PLAIN: Measured(1.0, 1.0), HALF: Measured(0.6, 0.999), OTHER: Measured(0.5, 0.999)}, OTHER),
        ({OTHER: Measured(2.0, 1.0)}, OTHER),
    ],
    ids=["faster", "hardly faster", "emulated", "other vectors", "a wrong export", "fastest of two", "no choice"],
)
def test_only_what_is_faster_and_equal_is_used(measured: dict, expected: tuple[str, str]) -> None:
    assert fastest(measured) == expected


def test_another_number_must_be_worth_it() -> None:
    assert best_number({1024: 0.99, 2048: 1.0, 4096: 1.2}, 2048) == 2048
    assert best_number({1024: 0.8, 2048: 1.0, 4096: 1.2}, 2048) == 1024


def test_the_choice_is_told_in_words() -> None:
    assert Setup(num_threads=2).describe(256) == "float32, batches of 8, 2 threads"
    assert Setup("openvino", "bfloat16", 1, batch_size=4).describe(256) == "OpenVINO, bfloat16, batches of 4, 1 thread"
    assert Setup(num_workers=4).describe(256) == "float32, batches of 8, 4 at once with 1 thread each"


def test_workers_share_the_cores_and_the_tokens_of_one_batch() -> None:
    made = in_workers(Setup(num_threads=2, batch_tokens=2048))

    assert (made.num_workers, made.num_threads, made.batch_tokens) == (2, 1, 1024)


@pytest.mark.parametrize(("cores", "expected"), [(1, (1, 1)), (5, (1, 5)), (6, (3, 2)), (8, (4, 2)), (16, (4, 4))])
def test_a_few_workers_use_all_cores_and_none_is_split(cores: int, expected: tuple[int, int]) -> None:
    made = in_workers(Setup(num_threads=cores, batch_tokens=2048))

    assert (made.num_workers, made.num_threads) == expected
    assert made.batch_tokens == 2048 // expected[0]
