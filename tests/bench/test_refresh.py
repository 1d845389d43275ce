"""Tests for the pure parts of tests.bench.refresh and tests.bench.stretches."""

from __future__ import annotations

from engine.core import Answer, Refresh, Scope
from tests.bench.real_library import Library, is_source
from tests.bench.stretches import QUESTION_TOKENS, SPAN_CHARACTERS, evidence_at, found_sources, stretches
from tests.bench.test_stale_queries import words_of
from tests.helpers.answers import passage

LONG, SHORT = (words_of(" ".join(f"{name}{word}" for word in range(count))) for name, count in (("a", 500), ("b", 90)))
LIBRARY = Library((), (), (), (LONG, SHORT))


def answer_of(text: str, *passages: str, refreshes: tuple[Refresh, ...] = ()) -> Answer:
    shown = tuple(passage(number, text=words) for number, words in enumerate(passages))
    return Answer(text, (), (), shown, Scope(1, 1, 1), "bench", "length", refreshes=refreshes)


def span_of(name: str) -> str:
    """A span in which no two words are alike."""
    return " ".join(f"{name}{word:03}" for word in range(100))[:SPAN_CHARACTERS]


def test_a_stretch_goes_on_where_its_question_ends() -> None:
    found = list(stretches(LIBRARY, 5, num_tokens=300))

    assert found == list(stretches(LIBRARY, 5, num_tokens=300))
    assert all(f"{one.question} {one.text}" in LONG.text for one in found)
    assert {(len(one.question.split()), len(one.text.split())) for one in found} == {(QUESTION_TOKENS, 300)}


def test_a_source_holds_half_of_the_word_triples() -> None:
    assert is_source("one two three four five", "two three four five nine")
    assert not is_source("one two three four", "two three nine ten eleven")
    assert not is_source("one two", "two")


def test_passages_are_in_evidence_from_where_they_came() -> None:
    answer = answer_of("x" * 900, "a", "b", "c", "d", refreshes=(Refresh(300, 1, 2), Refresh(600, 3, 1)))
    in_evidence = [[one.text for one in evidence_at(answer, offset)] for offset in (0, 299, 300, 600, 800)]

    assert in_evidence == [["a"], ["a"], ["a", "b", "c"], ["a", "b", "c", "d"], ["a", "b", "c", "d"]]


def test_a_source_counts_only_if_it_was_there_before_its_span_was_written() -> None:
    one, two, three = (span_of(name) for name in "xyz")
    text = one + two + three + "tail"
    come = Refresh(SPAN_CHARACTERS, 1, 1), Refresh(2 * SPAN_CHARACTERS + 5, 2, 1)

    found = found_sources(answer_of(text, one, two, three, refreshes=come), lambda span: True)

    assert found == [True, True, False]


def test_spans_that_come_from_nowhere_do_not_count() -> None:
    one, two = span_of("x"), span_of("y")

    assert found_sources(answer_of(one + two, one), lambda span: span == one) == [True]
    assert found_sources(answer_of("short", "short"), lambda span: True) == []
