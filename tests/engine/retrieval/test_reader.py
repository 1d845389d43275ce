"""Tests for engine.retrieval.reader."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.core import Passage, Quote
from engine.embedder import Embedder
from engine.memory.ledger import Ledger
from engine.retrieval.calibration import Strength
from engine.retrieval.reader import (
    MAX_QUOTES,
    Candidate,
    Reader,
    candidates,
    choose,
    defines,
    extractive_answer,
    scored_by_words,
    shortlist,
)
from engine.retrieval.sentence_vectors import SentenceVectors
from tests.helpers.chunk_rows import HashEmbedder
from tests.helpers.passages import passage

MUTEX = passage(
    "Message passing is not the only way. Several threads can share one value when a mutex\nguards it. "
    "A thread must acquire the lock first.",
    document_id=1,
    page=12,
)
BREAD = passage("Bread needs flour and water. Knead the dough for ten minutes.", document_id=2)
RENT = passage("Die Miete beträgt 900 Euro. The notice period for the flat is three months.", document_id=3)
PASSAGES = [BREAD, MUTEX, RENT]
STRONG, WEAK = Strength(words=0.5, meaning=0.6), Strength(words=0.05, meaning=0.1)


def read(embedder: object, question: str, passages: Sequence[Passage], strength: Strength) -> tuple[Quote, ...]:
    return Reader(embedder, SentenceVectors(Ledger())).read(question, passages, strength)  # type: ignore[arg-type]


def test_a_quote_is_found_letter_by_letter_in_its_passage(minilm: Embedder):
    quotes = read(minilm, "How do I share state between threads?", PASSAGES, STRONG)
    assert quotes[0].text == "Several threads can share one value when a mutex\nguards it."
    assert (quotes[0].passage, quotes[0].document, quotes[0].page) == (1, MUTEX.document, 12)
    for quote in quotes:
        assert PASSAGES[quote.passage].text[quote.start : quote.end] == quote.text


def test_meaning_decides_where_words_say_little(minilm: Embedder):
    quotes = read(minilm, "What is the cancellation period of my flat?", PASSAGES, STRONG)
    assert quotes[0].text == "The notice period for the flat is three months."


@pytest.mark.parametrize("question", ["Who won the football championship in 1974?", "What is a black hole made of?"])
def test_nothing_is_quoted_when_nothing_answers(minilm: Embedder, question: str):
    assert read(minilm, question, PASSAGES, WEAK) == ()


def test_without_passages_there_are_no_quotes(minilm: Embedder):
    assert read(minilm, "Anything at all?", [], STRONG) == ()


def test_an_english_embedder_is_not_asked_about_chinese():
    embedder = HashEmbedder(is_english_only=True)
    passages = [passage("北京大学成立于1898年。它是一所著名的大学。"), passage("上海在东边，人口很多。", document_id=2)]
    quotes = read(embedder, "北京大学是什么时候成立的？", passages, STRONG)
    assert [quote.text for quote in quotes] == ["北京大学成立于1898年。"]
    assert embedder.texts == []


def test_a_multilingual_embedder_is_asked_in_any_language():
    embedder = HashEmbedder(is_english_only=False)
    read(embedder, "北京大学是什么时候成立的？", [passage("北京大学成立于1898年。")], STRONG)  # type: ignore[arg-type]
    assert embedder.texts == ["北京大学是什么时候成立的？", "北京大学成立于1898年。"]


def test_several_questions_are_read_together_as_each_is_alone():
    embedder, questions = (
        HashEmbedder(),
        ("What guards a value?", "Was kostet 我们的房子的房租是多少?", "Who kneads the dough?"),
    )
    reader = Reader(embedder, SentenceVectors(Ledger()))  # type: ignore[arg-type]
    listed = [reader.listed(question, PASSAGES) for question in questions]
    list(reader.embedded_ahead(list(zip(questions, listed, strict=True))))
    sentences = {one.text for one in candidates(PASSAGES)}
    assert set(embedder.texts) == sentences | {questions[0], questions[2]}
    embedder.texts.clear()
    for question, of_one in zip(questions, listed, strict=True):
        assert reader.read(question, PASSAGES, STRONG, of_one) == read(HashEmbedder(), question, PASSAGES, STRONG)
    # Nothing but the questions themselves, which the embedding model remembers.
    assert embedder.texts == [questions[0], questions[2]]


def test_what_two_passages_share_comes_once():
    copies = [passage("The rent is _900_ Euro."), passage("The rent is 900 Euro. Heating is extra.", document_id=2)]
    assert [(one.passage, one.text) for one in candidates(copies)] == [
        (0, "The rent is _900_ Euro."),
        (1, "Heating is extra."),
    ]


def test_sentences_that_differ_in_a_small_word_both_stay():
    texts = ["The deposit is refunded.", "The deposit is not refunded."]
    assert [one.text for one in candidates([passage(" ".join(texts))])] == texts


def test_a_chunk_that_begins_within_a_page_may_be_torn():
    torn = passage("of the lock is released then. A whole sentence follows.", start=200)
    assert [one.text for one in candidates([torn])] == ["A whole sentence follows."]


def test_naming_what_is_rare_counts_more():
    sentences = candidates([passage("Rust has a mutex type. Rust has many users. Rust has good docs.")])
    mutex, users, _ = scored_by_words("Does Rust have a mutex?", sentences, [1.0])
    assert mutex.score > users.score > 0


@pytest.mark.parametrize(
    ("question", "sentence", "expected"),
    [
        ("What is ownership?", "Ownership is a set of rules.", True),
        ("what's a mutex", "_Mutex_ is an abbreviation for _mutual exclusion_.", True),
        ("Who was Ada Lovelace?", "Ada Lovelace was a mathematician.", True),
        ("What is ownership?", "In this chapter, ownership is explained.", False),
        ("What is ownership?", "Borrowing is a way to use a value.", False),
        ("How does ownership work?", "Ownership is a set of rules.", False),
    ],
)
def test_definitions_are_seen(question: str, sentence: str, expected: bool):
    assert defines(question, sentence) is expected


def _scored(*scores: float) -> list[Candidate]:
    return [Candidate(0, i, i + 1, str(i), frozenset(), score) for i, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([0.9], ["0"]),
        ([0.9, 0.8, 0.3], ["0", "1"]),
        ([0.9, 0.9, 0.9, 0.9], ["0", "1", "2"]),
        ([0.42, 0.2, 0.1], ["0"]),
    ],
)
def test_one_to_three_good_sentences_are_chosen(scores: list[float], chosen: list[str]):
    found = choose(_scored(*scores))
    assert [one.text for one in found] == chosen
    assert len(found) <= MAX_QUOTES


def test_a_sentence_without_the_number_that_is_asked_for_counts_less():
    sentences = candidates([passage("The rent was raised again this year. The rent is 900 Euro this year.")])
    without, with_number = scored_by_words("How much is the rent this year?", sentences, [1.0])
    assert with_number.score > without.score


def test_a_sentence_of_a_better_passage_counts_more():
    passages = [passage("The deposit is due in May."), passage("The deposit is due in June.", document_id=2)]
    may, june = scored_by_words("When is the deposit due?", candidates(passages), [0.2, 0.9])
    assert june.score > may.score


def test_shortlist_takes_the_best_by_words_and_the_first_of_the_best_passages():
    by_words = _scored(*[0.0] * 30, 0.9, 0.8)
    assert [one.text for one in shortlist(by_words, 6)] == ["0", "1", "2", "3", "30", "31"]
    assert shortlist(by_words[:3], 6) == by_words[:3]


def _quote(text: str, index: int) -> Quote:
    return Quote(text, index, "/docs/a.txt", None, 0, len(text), 0.9)


def test_the_extractive_answer_quotes_with_markers():
    text, citations = extractive_answer([_quote("First\n  line.", 2), _quote("Quoted\n> mail.", 0)])
    assert text == "“First line.” [3]\n\n“Quoted mail.” [1]"
    assert [(one.marker, one.passage) for one in citations] == [("[3]", 2), ("[1]", 0)]
    for citation in citations:
        assert text[citation.offset :].startswith(citation.marker)


def test_no_quotes_make_no_answer():
    assert extractive_answer([]) == ("", ())


def test_of_a_document_that_is_read_through_the_best_passages_are_read_first(minilm: Embedder):
    # So many sentences that not all are looked at.
    pages = [passage(f"On day {n} it rained in Ghent. Day {n} was grey.", start=1000 * n, score=0.1) for n in range(9)]
    answer = passage("A lodger may leave with three months' warning.", start=9000, score=0.9)
    question = "What is the cancellation period of my flat?"
    reader = Reader(minilm, SentenceVectors(Ledger()))
    in_order, best_first = ([*pages, answer], [answer, *pages])
    assert {one.text for one in reader.listed(question, in_order)} == {
        one.text for one in reader.listed(question, best_first)
    }
    assert answer.text in {one.text for one in reader.listed(question, in_order)}
