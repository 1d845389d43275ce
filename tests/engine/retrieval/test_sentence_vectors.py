"""Tests for engine.retrieval.sentence_vectors."""

from __future__ import annotations

import numpy as np

from engine.memory.ledger import Ledger
from engine.retrieval.sentence_vectors import SentenceVectors
from tests.helpers.chunk_rows import DIMENSIONS, HashEmbedder, hashed


def test_what_was_embedded_once_is_not_embedded_again():
    embedder, vectors = HashEmbedder(), SentenceVectors(Ledger())
    first = vectors.of(embedder, ["one cat", "two dogs"])  # type: ignore[arg-type]
    again = vectors.of(embedder, ["two dogs", "three birds", "one cat"])  # type: ignore[arg-type]
    assert embedder.texts == ["one cat", "two dogs", "three birds"]
    assert np.array_equal(again[[2, 0]], first)
    assert np.array_equal(again[1], hashed("three birds"))


def test_a_sentence_that_comes_twice_is_embedded_once():
    embedder = HashEmbedder()
    found = SentenceVectors(Ledger()).of(embedder, ["same", "same"])  # type: ignore[arg-type]
    assert embedder.texts == ["same"]
    assert np.array_equal(found[0], found[1])


def test_nothing_in_nothing_out():
    found = SentenceVectors(Ledger()).of(HashEmbedder(), [])  # type: ignore[arg-type]
    assert found.shape == (0, DIMENSIONS)


def test_the_oldest_go_first_and_what_is_used_stays():
    embedder, vectors = HashEmbedder(), SentenceVectors(Ledger(), max_sentences=2)
    for sentences in (["a"], ["b"], ["a"], ["c"], ["a"], ["b"]):
        vectors.of(embedder, sentences)  # type: ignore[arg-type]
    assert embedder.texts == ["a", "b", "c", "b"]


def test_what_is_embedded_ahead_is_there_when_it_is_asked_for():
    embedder, vectors = HashEmbedder(), SentenceVectors(Ledger())
    vectors.of(embedder, ["a cat"])  # type: ignore[arg-type]
    sentences = ["a cat", *("x" * number for number in range(1, 41)), "x"]
    ahead = vectors.embedded_ahead(embedder, sentences)  # type: ignore[arg-type]
    next(ahead)
    # The longest first, and others are let by before the rest.
    assert embedder.texts == ["a cat", *("x" * number for number in range(40, 24, -1))]
    assert len(list(ahead)) == 2
    assert len(embedder.texts) == 41
    assert np.array_equal(vectors.of(embedder, sentences), np.stack([hashed(one) for one in sentences]))  # type: ignore[arg-type]
    assert len(embedder.texts) == 41


def test_another_model_begins_anew():
    first, second, vectors = HashEmbedder(), HashEmbedder(), SentenceVectors(Ledger())
    second.identity = "other@1"  # type: ignore[misc]
    vectors.of(first, ["a"])  # type: ignore[arg-type]
    vectors.of(second, ["a"])  # type: ignore[arg-type]
    assert second.texts == ["a"]


def test_the_ledger_knows_what_is_held_until_it_is_closed():
    ledger = Ledger()
    vectors = SentenceVectors(ledger)
    vectors.of(HashEmbedder(), [f"sentence {number}" for number in range(1000)])  # type: ignore[arg-type]
    assert ledger.held_bytes("ram", "retrieval") >= 1000 * DIMENSIONS * 4
    vectors.close()
    vectors.close()
    assert ledger.spans() == ()
