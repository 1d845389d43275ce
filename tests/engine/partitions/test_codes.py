"""Tests for engine.partitions.codes and codebook: what is chosen by code, and what becomes of damaged files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.partitions import codebook, fast_scan
from engine.partitions.codebook import Calibration, Codebook
from engine.partitions.codes import Codes, CodesDamaged, CodesFile
from engine.partitions.halves import widened
from engine.partitions.rows import Vectors
from engine.partitions.scanners import Scanners

pytestmark = pytest.mark.skipif(not fast_scan.is_available(), reason="faiss is not used on this system")

DIMENSIONS, ROWS = 32, 1_500


def vectors_about(count: int, seed: int, dimensions: int = DIMENSIONS) -> Vectors:
    """Unit vectors whose variance falls off from number to number, as that of embeddings does over their directions."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, dimensions), dtype=np.float32) / np.sqrt(1 + np.arange(dimensions) / 2)
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def rows() -> Vectors:
    return vectors_about(ROWS, 1)


@pytest.fixture(scope="module")
def book(rows: Vectors) -> Codebook:
    made = codebook.made(rows, "model@1", ROWS)
    assert made is not None
    return made


@pytest.fixture
def file(tmp_path: Path, rows: Vectors, book: Codebook) -> CodesFile:
    return CodesFile.write(tmp_path / "000001.codes", book, 77, (rows[:1000], rows[1000:]))


@pytest.fixture
def codes(file: CodesFile) -> Codes:
    return file.load()


def asked(book: Codebook, count: int = 3) -> Vectors:
    return book.turned(vectors_about(count, 2))


# --- codes ---


def test_torch_has_as_many_threads_after_faiss_as_before(codes: Codes, book: Codebook):
    queries = asked(book)

    def around_a_search() -> tuple[int, int]:
        torch.set_num_threads(3)
        codes.best(queries, 10)
        return torch.get_num_threads(), fast_scan._faiss().omp_get_max_threads()

    # The number belongs to a thread, and all others keep theirs.
    with ThreadPoolExecutor(1) as thread:
        of_torch, of_faiss = thread.submit(around_a_search).result()
    assert of_torch == 3
    assert of_faiss > 1
    with fast_scan._on_one_thread():
        assert fast_scan._faiss().omp_get_max_threads() == 1


def test_codes_that_were_written_are_found_and_read(file: CodesFile, book: Codebook, codes: Codes):
    found = CodesFile.find(file.path, book, 77, ROWS)
    assert found is not None
    for mine, theirs in zip(found.load().best(asked(book), 40), codes.best(asked(book), 40), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert file.num_bytes == -(-ROWS // 32) * 32 * DIMENSIONS // 8
    assert file.path.stat().st_size == file.num_bytes + 28


def test_the_best_by_code_are_near_the_true_best(rows: Vectors, book: Codebook, codes: Codes):
    queries = vectors_about(20, 3)
    positions, scores = codes.best(book.turned(queries), 200)
    assert np.all(scores[:, :-1] >= scores[:, 1:])
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    shares = [len(set(found) & set(best)) for found, best in zip(positions.tolist(), truth.tolist(), strict=True)]
    assert np.mean(shares) >= 9.8


@pytest.mark.parametrize("share", [0.01, 0.2, 0.8, 1.0])
@pytest.mark.parametrize("is_scattered", [True, False])
@pytest.mark.parametrize("limit", [1, 25, ROWS])
def test_a_mask_is_kept_to_and_leaves_no_allowed_row_out(
    book: Codebook, codes: Codes, share: float, is_scattered: bool, limit: int
):
    places = np.random.default_rng(4).permutation(ROWS) if is_scattered else np.arange(ROWS)[::-1]
    mask = np.zeros(ROWS, np.bool_)
    mask[places[: int(share * ROWS)]] = True
    positions, scores = codes.best(asked(book), limit, mask)
    every, every_score = codes.best(asked(book), ROWS)
    for query in range(len(positions)):
        allowed = mask[every[query]]
        assert mask[positions[query]].all()
        assert len(set(positions[query].tolist())) == positions.shape[1] == min(limit, mask.sum())
        np.testing.assert_allclose(scores[query], every_score[query][allowed][:limit], rtol=1e-5)


def test_a_mask_without_rows_finds_none(book: Codebook, codes: Codes):
    positions, scores = codes.best(asked(book), 5, np.zeros(ROWS, np.bool_))
    assert positions.shape == scores.shape == (3, 0)


@pytest.mark.parametrize("num_queries", [1, 3, 40])
def test_threads_find_what_one_finds(book: Codebook, codes: Codes, num_queries: int):
    scanners, mask = Scanners(), np.arange(ROWS) % 3 > 0
    try:
        found = scanners.best([(codes, None), (codes, mask)], asked(book, num_queries), 30)
    finally:
        scanners.close()
    for (positions, scores), of_mask in zip(found, (None, mask), strict=True):
        wanted = codes.best(asked(book, num_queries), 30, of_mask)
        np.testing.assert_array_equal(positions, wanted[0])
        np.testing.assert_array_equal(scores, wanted[1])


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("limit", [1, 60, 300, 4 * ROWS])
def test_the_best_of_all_parts_are_found_wherever_they_lie(
    tmp_path: Path, rows: Vectors, book: Codebook, limit: int, is_masked: bool
):
    """For the first query nearly all of the best lie in the first part, for the others anywhere."""
    queries = book.turned(vectors_about(4, 2))
    nearest = np.argsort(-(book.turned(rows) @ queries[0]))
    portions = [nearest[:400], *np.array_split(np.random.default_rng(5).permutation(nearest[400:]), 5)]
    parts = [
        CodesFile.write(tmp_path / f"{number:06d}.codes", book, 1, [rows[portion]]).load()
        for number, portion in enumerate(portions)
    ]
    masks = [np.arange(len(portion)) % 7 > 0 if is_masked else None for portion in portions]
    scanners = Scanners()
    try:
        found = scanners.best(list(zip(parts, masks, strict=True)), queries, limit)
    finally:
        scanners.close()
    every = [part.best(queries, ROWS, mask) for part, mask in zip(parts, masks, strict=True)]
    for query in range(len(queries)):
        wanted = np.sort(np.concatenate([scores[query] for _, scores in every]))[::-1][:limit]
        best = np.sort(np.concatenate([scores[query] for _, scores in found]))[::-1][:limit]
        np.testing.assert_array_equal(best, wanted)
    for (positions, scores), (every_position, every_score) in zip(found, every, strict=True):
        for query in range(len(queries)):
            known = dict(zip(every_position[query].tolist(), every_score[query].tolist(), strict=True))
            counts = np.isfinite(scores[query])
            assert len(set(positions[query][counts].tolist())) == counts.sum()
            assert [known[place] for place in positions[query][counts].tolist()] == scores[query][counts].tolist()


def test_what_fails_on_a_thread_fails_here():
    scanners = Scanners()
    try:
        with pytest.raises(ZeroDivisionError):
            scanners.each(lambda number: 1 // number, [2, 1, 0, 1])
        assert scanners.each(lambda number: 2 * number, range(9)) == [2 * number for number in range(9)]
        assert scanners.each(str, []) == []
    finally:
        scanners.close()


def test_codes_of_other_rows_or_another_book_are_not_found(file: CodesFile, book: Codebook, rows: Vectors):
    other = codebook.made(vectors_about(ROWS, 9), "model@1", ROWS)
    assert other is not None
    assert CodesFile.find(file.path, book, 78, ROWS) is None
    assert CodesFile.find(file.path, book, 77, ROWS - 1) is None
    assert CodesFile.find(file.path, other, 77, ROWS) is None
    assert CodesFile.find(file.path.with_name("000002.codes"), book, 77, ROWS) is None


@pytest.mark.parametrize("size", [0, 20, 28, 5000])
def test_codes_cut_anywhere_are_not_found(file: CodesFile, book: Codebook, size: int):
    os.truncate(file.path, size)
    assert CodesFile.find(file.path, book, 77, ROWS) is None
    with pytest.raises(CodesDamaged):
        file.load()


def test_codes_that_changed_on_the_disk_are_damaged(file: CodesFile):
    content = bytearray(file.path.read_bytes())
    content[4000] ^= 1
    file.path.write_bytes(content)
    with pytest.raises(CodesDamaged, match="has changed"):
        file.load()


@pytest.mark.parametrize("failures", [1, 2])
def test_codes_that_a_disk_fails_to_give_are_asked_for_once_more(
    file: CodesFile, monkeypatch: pytest.MonkeyPatch, failures: int
):
    whole, left = os.preadv, [OSError(5, "Input/output error")] * failures

    def failing(*arguments: object) -> int:
        if left:
            raise left.pop()
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", failing)
    if failures == 1:
        file.load()
    else:
        with pytest.raises(CodesDamaged, match="Input/output error"):
            file.load()
    assert left == []


def test_codes_that_are_gone_are_damaged(file: CodesFile):
    file.path.unlink()
    with pytest.raises(CodesDamaged, match="cannot be read"):
        file.load()


def test_a_full_disk_leaves_the_codes_there_were(file: CodesFile, book: Codebook, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = file.path.read_bytes()
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        CodesFile.write(file.path, book, 78, [vectors_about(64, 5)])
    assert file.path.read_bytes() == before
    assert [path.name for path in file.path.parent.iterdir()] == ["000001.codes"]


# --- codebook ---


def test_a_codebook_is_read_as_it_was_written(tmp_path: Path, book: Codebook):
    book.write(tmp_path)
    read = Codebook.read(tmp_path, "model@1", DIMENSIONS)
    assert read is not None
    assert (read.crc, read.calibration, read.trained_on) == (book.crc, book.calibration, ROWS)
    np.testing.assert_array_equal(read.rotation, book.rotation)
    np.testing.assert_array_equal(read.centroids, book.centroids)


def test_a_codebook_of_another_model_is_none_of_ours(tmp_path: Path, book: Codebook):
    assert Codebook.read(tmp_path, "model@1", DIMENSIONS) is None
    book.write(tmp_path)
    assert Codebook.read(tmp_path, "model@2", DIMENSIONS) is None
    assert Codebook.read(tmp_path, "model@1", DIMENSIONS + 1) is None


@pytest.mark.parametrize("place", [0, 9, 13, 40, 400, -1])
def test_a_damaged_codebook_is_no_codebook(tmp_path: Path, book: Codebook, place: int):
    book.write(tmp_path)
    content = bytearray((tmp_path / codebook.NAME).read_bytes())
    content[place] ^= 0x11
    (tmp_path / codebook.NAME).write_bytes(content)
    assert Codebook.read(tmp_path, "model@1", DIMENSIONS) is None


def test_the_same_vectors_make_the_same_codebook(rows: Vectors, book: Codebook):
    again = codebook.made(rows, "model@1", ROWS)
    assert again is not None
    assert again.crc == book.crc


def test_calibration_tells_the_recall_it_measured(book: Codebook):
    assert 0.99 <= book.calibration.recall <= 1
    assert 10 <= book.calibration.few <= book.calibration.many


def test_more_candidates_are_asked_for_of_more_rows_and_for_more_results():
    calibration = Calibration(10_000, few=100, many=300, recall=0.998)
    assert calibration.candidates(10, 10_000) == codebook._LEAST_CANDIDATES
    assert calibration.candidates(10, 320_000) == 250
    assert calibration.candidates(10, 3_200_000) == 317
    assert calibration.candidates(50, 10_000) == 300
    assert calibration.candidates(200, 10_000) == 1050


def test_vectors_that_codes_do_not_tell_apart_get_none(rows: Vectors, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codebook, "_MOST_CANDIDATES", 15)
    assert codebook.made(rows, "model@1", ROWS) is None


def test_vectors_too_narrow_get_none():
    assert codebook.made(vectors_about(ROWS, 1, 7), "model@1", ROWS) is None


def test_halves_become_the_numbers_that_they_are():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    np.testing.assert_array_equal(widened(finite), finite.astype(np.float32))
    assert np.all(np.abs(widened(every[~np.isfinite(every)])) >= 65_536)
