"""Tests for engine.embedder.windows: what is longer than a model reads is still found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, model, resolve
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.windows import Parts, parts_of
from engine.memory.ledger import Ledger


def signs(texts: Sequence[str]) -> list[int]:
    """As many tokens as characters that are no spaces, and two marks."""
    return [2 + sum(not sign.isspace() for sign in text) for text in texts]


def of(parts: Parts, owner: int) -> list[str]:
    return [text for text, one in zip(parts.texts, parts.owners, strict=True) if one == owner]


def test_texts_that_fit_stay_whole_and_others_are_cut_between_words():
    long = " ".join(f"word{number}" for number in range(100))
    parts = parts_of(["short", long], signs, 128)
    assert of(parts, 0) == ["short"]
    assert " ".join(of(parts, 1)) == long
    assert max(signs(parts.texts)) <= 128
    assert len(of(parts, 1)) <= 7
    for owner in (0, 1):
        shares = (share for share, one in zip(parts.shares, parts.owners, strict=True) if one == owner)
        assert sum(shares) == pytest.approx(1.0)
    assert parts_of([], signs, 128).texts == ()


@pytest.mark.parametrize("text", ["读" * 500, "A heading\n" + "读" * 300, "a " * 400 + "x" * 400])
def test_scripts_without_spaces_and_uneven_texts_are_cut_as_well(text: str):
    parts = parts_of([text], signs, 128)
    assert max(signs(parts.texts)) <= 128
    assert "".join("".join(parts.texts).split()) == "".join(text.split())


def test_a_sign_of_many_tokens_is_let_be():
    assert parts_of(["𝔘", ""], lambda texts: [9 for _ in texts], 4).texts == ("𝔘", "")


def test_vectors_of_parts_make_that_of_the_text():
    parts = parts_of(["a" * 30 + " " + "b" * 30, "e"], signs, 40)
    assert parts.texts == ("a" * 30, "b" * 30, "e")
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
