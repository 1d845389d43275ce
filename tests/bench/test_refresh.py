"""Tests for the pure parts of tests.bench.refresh, tests.bench.given_text and tests.bench.stretches."""

from __future__ import annotations

import pytest

from engine.core import Answer, Refresh, Scope
from engine.events import AnswerFinished
from engine.generation.refresh_policy import INTERVALS, RefreshPolicy
from engine.metrics import Timings
from tests.bench import refresh
from tests.bench.given_text import vocabulary_of
from tests.bench.real_library import Library, is_source
from tests.bench.stretches import QUESTION_TOKENS, SPAN_CHARACTERS, Stretch, evidence_at, found_sources, stretches
from tests.bench.test_stale_queries import words_of
from tests.helpers.answers import passage

LONG, SHORT = (words_of(" ".join(f"{name}{word}" for word in range(count))) for name, count in (("a", 500), ("b", 90)))
LIBRARY = Library((), (), (), (LONG, SHORT))


def answer_of(text: str, *passages: str, refreshes: tuple[Refresh, ...] = ()) -> Answer:
    shown = tuple(passage(number, text=words) for number, words in enumerate(passages))
    return Answer(text, (), (), shown, Scope(1, 1, 1), "bench", "length", refreshes=refreshes)


def span_of(name: str) -> str:
    """Returns a span without repeated words."""
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


def written(seconds: float, searching: float = 0.0, hidden: float = 0.0) -> AnswerFinished:
    """Returns an answer whose first token took a second."""
    one, two = span_of("x"), span_of("y")
    come = (Refresh(SPAN_CHARACTERS, 1, 1),) if searching else ()
    timings = Timings(
        queued_s=0.0,
        retrieval_s=0.1,
        prefill_s=0.9,
        ttft_s=1.0,
        total_s=1.0 + seconds,
        prompt_tokens=100,
        generated_tokens=64,
        refreshes=len(come),
        refresh_retrieval_s=searching,
        refresh_hidden_s=hidden,
    )
    return AnswerFinished("q", answer_of(one + two, one, *([two] if come else []), refreshes=come), timings)


def by_way(stretch: Stretch, policy: RefreshPolicy) -> AnswerFinished:
    """Answers as if searching slowed writing by an amount that depends on the policy."""
    if policy.max_cost_share is None:
        return written(15.0, 6.0, 5.0)
    return {
        "none": written(10.0),
        "once": written(10.5, 1.0, 0.5),
        "synchronous": written(12.0, 2.0, 0.0),
        "periodic": written(11.0, 2.0, 1.0),
    }[policy.mode]


def test_answers_are_compared_way_by_way() -> None:
    asked = list(stretches(LIBRARY, 2, num_tokens=300))

    found = refresh.compare(by_way, asked, refresh.WAYS, lambda span: True)

    assert found.keys() == refresh.WAYS.keys()
    assert found["none"].figures("none") == {"none_latency_s": 10.0, "none_recall": 0.5}
    assert found["ours"].figures("ours") == {
        "ours_latency_s": 11.0,
        "ours_recall": 1.0,
        "ours_hidden_share": 0.5,
        "ours_searching_s": 2.0,
        "ours_reading_s": 0.0,
        "ours_refreshes": 1.0,
    }


def test_ratios_have_the_names_that_were_promised() -> None:
    found = refresh.compare(by_way, [Stretch("?", "text")], refresh.WAYS, lambda span: True)

    named = refresh.named_ratios(found)

    assert named.keys() == refresh.BOUNDS.keys()
    assert named["hidden_share"] == pytest.approx(6 / 8)
    assert named["none"] == pytest.approx(10 / 11)
    assert named["synchronous"] == pytest.approx(12 / 11)


def test_where_nothing_was_searched_for_nothing_is_hidden() -> None:
    found = refresh.compare(lambda stretch, policy: written(10.0), [Stretch("?", "text")], refresh.WAYS, bool)

    assert refresh.named_ratios(found) == {"none": 1.0, "synchronous": 1.0}


def test_the_grid_has_every_interval_with_every_breadth() -> None:
    ways = refresh.grid(refresh.FULL)

    assert {policy.interval for policy in ways.values()} == set(INTERVALS)
    assert len(ways) == len(INTERVALS) * len(refresh.FULL.breadths)
    assert all(policy.mode == "periodic" and policy.max_cost_share is None for policy in ways.values())


def test_a_vocabulary_begins_with_the_words_that_are_read_most() -> None:
    texts = tuple(map(words_of, ("the lease ends, the tenant leaves", "the end of 2024")))

    assert vocabulary_of(Library((), (), (), texts))[:2] == ["the", "end"]
    assert "2024" not in vocabulary_of(Library((), (), (), texts))
