"""Tests for the parts of tests.bench.partitions, and for the vectors it searches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.memory.ledger import Ledger
from engine.partitions.rows import Found
from tests.bench import partition_library, partitions, report, rescoring, vectors
from tests.bench.partition_peers import by_lance, by_numpy, open_lance
from tests.bench.partitions import Figures, recall, timed


def test_the_same_seed_gives_the_same_vectors() -> None:
    first, second = (np.concatenate(list(vectors.blocks(500, 32))) for _ in range(2))

    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1.0, atol=1e-5)


def test_questions_are_none_of_the_vectors() -> None:
    rows = np.concatenate(list(vectors.blocks(500, 32)))

    assert (vectors.questions(20, 32) @ rows.T).max() < 0.999


def test_variance_lies_in_as_few_directions_as_that_of_real_embeddings() -> None:
    rows = vectors.topics(384).sample(5_000, np.random.default_rng(1))

    energy = np.cumsum(np.linalg.eigvalsh(rows.T @ rows)[::-1]) / len(rows)

    np.testing.assert_allclose(energy[[31, 63, 127]], [0.51, 0.68, 0.85], atol=0.03)


def test_jitter_keeps_its_distance() -> None:
    around = vectors.unit(np.random.default_rng(1).standard_normal((300, 64), dtype=np.float32))

    moved = np.concatenate(list(vectors.jittered(around, 200, cosine=0.85)))

    np.testing.assert_allclose((moved @ around.T).max(axis=1), 0.85, atol=0.05)


def test_recall_counts_rows_whatever_their_order() -> None:
    truth = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])

    assert recall(np.array([[4, 3, 2, 1], [5, 6, -1, -1]]), truth) == 0.75


def test_numpy_in_blocks_finds_what_numpy_at_once_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.partition_peers._BLOCK_ROWS", 64)
    rows, questions = np.concatenate(list(vectors.blocks(500, 32))), vectors.questions(5, 32)

    found = by_numpy(rows)(questions, 10)

    np.testing.assert_array_equal(found, np.argsort(-(questions @ rows.T), axis=1)[:, :10])


def test_every_batch_is_timed() -> None:
    asked: list[int] = []

    def search(questions: np.ndarray, limit: int) -> np.ndarray:
        asked.append(len(questions))
        return np.zeros((len(questions), limit), np.int64)

    medians = timed(search, np.zeros((128, 4), np.float32), 2, (1, 32))

    assert asked == [1, 1, 1, 32, 32, 32]
    assert all(milliseconds >= 0 for milliseconds in medians.values())


def test_a_ratio_says_how_many_times_as_long_the_peer_takes() -> None:
    figures = Figures(ours={"b32_ms": 2.0, "b32_at_50_ms": 4.0, "b32_at_25_ms": 8.0, "b32_at_6_ms": 16.0})

    figures.compare("faiss_sq_fp16", "faiss SQ fp16", {"b32_ms": 16.0, "recall": 1.0})

    assert figures.ratios == {
        "faiss_sq_fp16_b32": 8.0,
        "faiss_sq_fp16_b32_at_50": 4.0,
        "faiss_sq_fp16_b32_at_25": 2.0,
        "faiss_sq_fp16_b32_at_6": 1.0,
    }


def test_ratios_stand_in_the_report_by_their_own_names(tmp_path: Path) -> None:
    report.write(tmp_path / "partitions.json", {"b1_ms": 1.0}, {"other": {"b1_ms": 3.0}}, {"other_b1": 3.0})

    content = json.loads((tmp_path / "partitions.json").read_text(encoding="utf-8"))
    assert content["ratios"] == {"other": {"b1_ms": 1 / 3}, "other_b1": 3.0}


@pytest.mark.parametrize(
    ("ratios", "is_speed_binding", "is_kept"),
    [
        ({"recall": 1.0, "lance_brute_b32": 10.0}, True, False),
        ({"recall": 1.0, "lance_brute_b32": 10.0}, False, True),
        ({"recall": 0.9, "lance_brute_b32": 30.0}, False, False),
        ({"resident_bytes_vs_ledger": 1.04, "rss_released": 1.0, "numpy_b1": 0.1}, True, True),
        ({"resident_bytes_vs_ledger": 0.9}, False, False),
    ],
)
def test_speed_binds_at_a_million_and_the_rest_always(
    capsys: pytest.CaptureFixture[str], ratios: dict[str, float], is_speed_binding: bool, is_kept: bool
) -> None:
    assert partitions._tell(ratios, is_speed_binding=is_speed_binding) is is_kept
    told = capsys.readouterr().out
    assert ("BROKEN" in told) is any(
        bound is not None and not bound[0] <= value <= bound[1]
        for name, value in ratios.items()
        for bound in [partitions.bound_of(name)]
    )


def test_rows_not_found_are_no_row() -> None:
    found = [[Found(f"{7:016x}", 0, 0.9)], []]

    assert partition_library.row_numbers(found, 2).tolist() == [[7, -1], [-1, -1]]


def test_the_library_of_the_bench_is_searched_rightly_by_us_and_by_lancedb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_library, "CHUNKS_PER_SHARD", 400)
    monkeypatch.setattr(partition_library, "TAIL_ROWS", 100)
    rows, questions = np.concatenate(list(vectors.blocks(1_000, 32))), vectors.questions(5, 32)
    truth = by_numpy(rows)(questions, 10)

    partition_library.write_table(tmp_path, rows)
    with partition_library.open_store(tmp_path, 32, Ledger()) as store:
        ours = partitions.searching(store)(questions, 10)
        num_partitions = store.counters()["partitions"]

    assert num_partitions == 3
    assert recall(ours, truth) == 1.0
    assert recall(by_lance(open_lance(tmp_path))(questions, 10), truth) == 1.0


def test_candidates_come_from_all_shards_and_are_scored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "_SHARD_ROWS", 300)
    rows, questions = np.concatenate(list(vectors.blocks(1_000, 32))), vectors.questions(5, 32)

    candidates = rescoring.best_candidates(rows, questions, 40)

    assert candidates.shape == (5, 40)
    np.testing.assert_array_equal(rescoring.rescored(rows, questions, candidates), by_numpy(rows)(questions, 10))
