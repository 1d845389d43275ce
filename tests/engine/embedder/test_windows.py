"""Tests for engine.embedder.windows: what is longer than a model reads is still found."""

from __future__ import annotations

import numpy as np

from engine.config import EmbedderSettings
from engine.embedder import Embedder, model, resolve
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.windows import parts_of
from engine.memory.ledger import Ledger


def test_texts_that_fit_stay_whole_and_others_are_cut_between_words():
    long = " ".join(f"word{number}" for number in range(100))
    parts = parts_of(["short", long, "x" * 500], [3, 300, 200], 128)
    assert parts.texts[0] == "short"
    assert " ".join(text for text, owner in zip(parts.texts, parts.owners, strict=True) if owner == 1) == long
    assert parts.owners == (0, 1, 1, 1, 2)
    assert [sum(share for share, one in zip(parts.shares, parts.owners, strict=True) if one == owner)
            for owner in range(3)] == [1.0, 1.0, 1.0]  # fmt: skip
    assert parts_of([], [], 128).texts == ()


def test_vectors_of_parts_make_that_of_the_text():
    parts = parts_of(["a b c d", "e"], [40, 3], 28)
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
    joined = parts.joined(vectors, 2)
    np.testing.assert_allclose(joined, [[0.5**0.5, 0.5**0.5], [0.6, 0.8]], atol=1e-6)


def test_the_end_of_a_text_is_found_by_a_model_that_reads_little(monkeypatch):
    filler = "The harvest was good and the barns were full of grain that year. " * 5
    text = filler + "A mutex guards data that several threads share. Threads share data safely through a lock. " * 3

    def best(window: int) -> float:
        monkeypatch.setattr(NumpyBert, "max_tokens", window, raising=False)
        embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger())
        embedder.load()
        for one in embedder._models:
            one.max_tokens = window
        (vector,) = embedder.embed_documents([text])
        found = float(vector @ embedder.embed_questions(["How do threads share data?"])[0])
        embedder.unload()
        return found

    whole = best(64)
    monkeypatch.setattr(model, "MOST_CHUNK_TOKENS", 1)
    assert whole > best(64) + 0.2
