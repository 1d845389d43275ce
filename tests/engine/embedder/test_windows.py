"""Tests for engine.embedder.windows: what is longer than a model reads is still found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, model, resolve
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.windows import Parts, parts_of, parts_of_questions
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


MAIL = "Dear Mr. Smith, the harvest was good and the barns are full of grain. " * 12


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"{MAIL}\n\nI wonder. Who owns the heap data?", ["Who owns the heap data?"]),
        (f"Who owns the “heap data?”\n\n{MAIL}", ["Who owns the “heap data?”"]),
        (f"How is it?\n\n{MAIL}\n\nIs it “good”? Yes.", ["How is it?", "Is it “good”?"]),
        (f"{MAIL}\n\nTell me what Mr. Smith owns.", ["Tell me what Mr. Smith owns."]),
        (f"Tell me what he owns.\n\n{MAIL}\n\n{MAIL}This mail is confidential.", ["Tell me what he owns."]),
        (f"{MAIL}\n\nWho owns the heap data?\n\nThanks", ["Who owns the heap data?"]),
        (f"Hi!\n\nWho owns the heap data? I got a mail.\n\n{MAIL}", ["Who owns the heap data?"]),
        (f"Hello,\n\n{MAIL}\n\nTell me what he owns.\n\nMany thanks", ["Tell me what he owns."]),
        (f"请告诉我谁拥有数据和谷仓。\n\n{MAIL}", ["请告诉我谁拥有数据和谷仓。"]),
        ("谷仓里装满了粮食。" * 40 + "谁拥有数据？", ["谁拥有数据？"]),
    ],
)
def test_what_a_long_question_asks_weighs_more_than_what_was_pasted(text: str, asked: list[str]):
    parts = parts_of_questions(["short?", text], signs, 128)
    assert (parts.texts[0], parts.owners[0], parts.shares[0]) == ("short?", 0, 1.0)
    assert list(parts.texts[-len(asked) :]) == asked
    assert sum(parts.shares[-len(asked) :]) == pytest.approx(2 / 3)
    assert sum(parts.shares[1:]) == pytest.approx(1.0)
    assert max(signs(parts.texts)) <= 128


def test_of_a_question_with_a_book_in_it_a_few_parts_are_embedded():
    parts = parts_of_questions([f"{MAIL * 100}\n\nWho owns it?", "x" * 5000, ""], signs, 128)
    assert len(of(parts, 0)) <= 9
    # Where nothing is seen to be asked it is read from the beginning, as far as the model goes.
    assert len(of(parts, 1)) == 1
    assert of(parts, 2) == [""]
    assert parts_of_questions([], signs, 128).texts == ()


@pytest.mark.parametrize("text", [f"{MAIL}This mail is confidential.", f"{MAIL}\n\n{MAIL}\n\nKind regards"])
def test_the_end_of_a_pasted_text_is_not_taken_for_what_is_asked(text: str):
    parts = parts_of_questions([text], signs, 128)
    assert parts.shares == pytest.approx((1.0,))
    assert text.startswith(parts.texts[0])


def test_what_is_asked_after_a_pasted_text_is_searched_for(minilm: Embedder):
    asked = "What is the difference between String and &str, and who owns the heap data?"
    alone, behind, before = minilm.embed_questions([asked, f"{MAIL * 2}\n\n{asked}", f"{asked}\n\n{MAIL * 2}"])
    assert float(alone @ behind) > 0.8
    assert float(alone @ before) > 0.8
