"""Tests for the pure parts of tests.bench.stale_queries, tests.bench.looking_again and tests.bench.real_library."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from engine.core import Chunk
from tests.bench.looking_again import (
    PASSAGES_PER_REFRESH,
    POLICIES,
    QUESTION_PASSAGES,
    SPANS,
    evidence_by_span,
    fresh,
    recalls_by_policy,
)
from tests.bench.real_library import Library, Text, source_finder, triples, whole_text
from tests.bench.stale_queries import stale_cosines

CHUNK_WORDS = 240


def words_of(text: str) -> Text:
    """Returns a text whose tokens are its words."""
    return Text(text, tuple(match.span() for match in re.finditer(r"\S+", text)))


@pytest.fixture(scope="module")
def library() -> Library:
    """Returns twelve documents without repeated words, cut every 240 words."""
    texts = [" ".join(f"d{document}w{word}" for word in range(1_440)) for document in range(12)]
    chunks, followers, documents = list[str](), list[int | None](), list[int]()
    for document, text in enumerate(texts):
        words = text.split()
        for start in range(0, len(words), CHUNK_WORDS):
            chunks.append(" ".join(words[start : start + CHUNK_WORDS]))
            is_last = start + CHUNK_WORDS >= len(words)
            followers.append(None if is_last else len(chunks))
            documents.append(document)
    return Library(tuple(chunks), tuple(followers), tuple(documents), tuple(map(words_of, texts)))


def embedded(library: Library, texts: Sequence[str]) -> np.ndarray:
    """Returns unit vectors with one direction per passage, weighted by the words that a text has of it."""
    places = {word: index for index, chunk in enumerate(library.chunks) for word in chunk.split()}
    vectors = np.zeros((len(texts), len(library.chunks)), np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            vectors[row, places[word]] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_text_is_put_together_without_what_chunks_repeat() -> None:
    page = "One two three. Four five. Six seven."
    chunks = [Chunk(0, None, 0, 25, "", page[:25]), Chunk(1, None, 15, len(page), "", page[15:])]

    assert whole_text(chunks) == page


def test_what_was_left_out_between_chunks_is_a_space_and_a_page_begins_a_line() -> None:
    chunks = [Chunk(0, 1, 0, 3, "", "One"), Chunk(1, 1, 9, 12, "", "two"), Chunk(2, 2, 4, 9, "", "three")]

    assert whole_text(chunks) == "One two\nthree"


def test_a_window_is_the_text_of_its_tokens() -> None:
    assert words_of("one two  three four").between(1, 3) == "two  three"


def test_triples_are_of_neighbouring_words_whatever_their_case() -> None:
    assert triples("The cat, the hat") == {("the", "cat", "the"), ("cat", "the", "hat")}
    assert triples("two words") == set()


def test_a_source_holds_at_least_half_of_what_is_quoted() -> None:
    sources_of = source_finder(["a b c d e f", "d e f g h i", "nothing of it"])

    assert sources_of("a b c d") == {0}
    assert sources_of("c d e f g") == {0, 1}
    assert sources_of("x y z") == set()


def test_what_is_known_is_passed_over_and_what_follows_is_taken_along() -> None:
    followers = [1, 2, None, 4, None]

    assert fresh([0, 3], set(), followers, room=2) == [0, 1]
    assert fresh([0, 3], {0, 1}, followers, room=2) == [3, 4]
    assert fresh([2, 3], {2}, followers, room=5) == [3, 4]


def test_all_policies_take_equally_many_passages() -> None:
    followers = [None] * 1000

    taken = {
        policy: evidence_by_span(policy, lambda span: range(100 * span, 100 * span + 60), followers)
        for policy in POLICIES
    }

    wanted = QUESTION_PASSAGES + PASSAGES_PER_REFRESH * (SPANS - 1)
    assert {policy: len(by_span[-1]) for policy, by_span in taken.items()} == dict.fromkeys(taken, wanted)
    assert len(taken["none"][0]) == wanted
    assert [len(evidence) for evidence in taken["once"]] == [QUESTION_PASSAGES, *[wanted] * (SPANS - 1)]
    assert [len(evidence) for evidence in taken["periodic"]] == list(range(QUESTION_PASSAGES, wanted + 1, 2))


def test_a_fresh_window_finds_what_it_is_compared_with(library: Library) -> None:
    vectors = embedded(library, library.chunks)

    cosines = stale_cosines(library, vectors, lambda texts: embedded(library, texts), 40)

    assert cosines[0] == pytest.approx(1.0)
    # Passages have nothing in common here: the cosine is the share of windows that find the same one.
    assert 0.3 < cosines[64] < 1.0
    assert list(cosines.values()) == sorted(cosines.values(), reverse=True)


def test_looking_again_finds_what_the_question_did_not_ask_for(library: Library) -> None:
    vectors = embedded(library, library.chunks)

    recalls = recalls_by_policy(library, vectors, lambda texts: embedded(library, texts), 30)

    assert recalls["periodic"][1.0] > recalls["once"][1.0] > recalls["none"][1.0]
    assert recalls["periodic"][1.0] > 0.8
    assert all(by_share[0.1] < by_share[0.5] < by_share[1.0] for by_share in recalls.values())
