"""Tests for engine.retrieval.rank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.partitions.rows import Found
from engine.retrieval.rank import (
    FULL_SCORE_PER_TERM,
    NAME_WEIGHT,
    averaged,
    distinct,
    diverse,
    fused,
    lifted,
    read_first,
    surely_named,
    with_place_for,
)
from tests.helpers.chunk_rows import hit


def ranking(**scores: float) -> list[Found]:
    return [Found(row_id, 1, score) for row_id, score in scores.items()]


def order(*args: object) -> list[str]:
    return [row.row_id for row, _ in fused(*args)]  # type: ignore[arg-type]


def test_words_and_meaning_both_count_by_their_weight():
    words, meaning = ranking(a=10.0, b=6.0), ranking(b=0.6, a=0.4)
    assert order(words, meaning, 3, 0.9) == ["a", "b"]
    assert order(words, meaning, 3, 0.1) == ["b", "a"]


def test_how_far_ahead_a_row_is_counts_and_not_only_its_rank():
    words, meaning = ranking(a=20.0, b=19.0), ranking(b=0.9, c=0.5, a=0.3)
    assert order(words, meaning, 3, 0.35)[0] == "b"
    assert order(ranking(a=20.0, b=2.0), meaning, 3, 0.6)[0] == "a"


def test_a_best_row_by_words_that_names_little_counts_little():
    words, meaning = ranking(junk=2.0), ranking(right=0.7, junk=0.2)
    assert order(words, meaning, 1, 0.6) == ["junk", "right"]
    assert order(words, meaning, 8, 0.6) == ["right", "junk"]
    assert fused(words, [], 8, 0.6)[0][1] == pytest.approx(2.0 / (8 * FULL_SCORE_PER_TERM))


def test_cosines_that_lie_close_together_still_tell_rows_apart():
    words = ranking(a=10.0, b=9.5)
    assert order(words, ranking(b=0.86, a=0.85, c=0.84), 2, 0.35)[0] == "b"


@pytest.mark.parametrize("which", ["words", "meaning"])
def test_with_one_ranking_alone_that_one_decides(which: str):
    found = ranking(a=0.9, b=0.5, c=0.1)
    assert order(*([found, []] if which == "words" else [[], found]), 2, 0.35) == ["a", "b", "c"]


def test_nothing_fused_is_nothing_and_equals_come_by_their_ids():
    assert fused([], [], 3, 0.35) == []
    assert order(ranking(b=1.0, a=1.0), [], 0, 0.35) == ["a", "b"]


def test_what_differs_in_a_sign_repeats_nothing_and_copies_with_other_marks_do():
    texts = ["Store at -20 °C.", "Store at 20 °C.", "Store at −20 °C", "- Store at 20 °C", "Store at\n“20 °C”."]
    kept = distinct(hit(text, text, document_id=number) for number, text in enumerate(texts))
    assert [one.text for one in kept] == texts[:2]


def test_diversity_puts_what_is_new_before_what_says_the_same():
    scores, terms = [1.0, 0.9, 0.5], [{"cat", "dog"}, {"cat", "dog"}, {"bird"}]
    assert diverse(scores, terms, 3, diversity=0.0) == [0, 1, 2]
    assert diverse(scores, terms, 3, diversity=0.5) == [0, 2, 1]
    assert diverse(scores, terms, 1, diversity=0.5) == [0]
    assert diverse([], [], 3, diversity=0.5) == []


def test_copies_of_a_text_count_once_and_the_better_one_stays():
    best, copy = hit("a", "The _same_ words\nhere."), hit("b", "the *same* words here", document_id=2)
    other = hit("c", "Other words.", document_id=3)
    assert distinct([best, copy, other]) == [best, other]


def test_texts_without_words_are_not_taken_for_copies():
    assert len(distinct([hit("a", "—"), hit("b", "…", document_id=2)])) == 2


@pytest.mark.parametrize(
    ("start", "kept"), [(0, 1), (40, 1), (60, 2), (100, 2)], ids=["same", "mostly", "seam", "next"]
)
def test_neighbours_stay_unless_they_mostly_overlap(start: int, kept: int):
    first, second = hit("a", "x" * 100), hit("b", "y" * 100, start=start)
    assert len(distinct([first, second])) == kept


def test_equal_spans_of_other_pages_and_documents_are_no_repetition():
    hits = [
        hit("a", "aaaa", page=1),
        hit("b", "bbbb", page=2),
        hit("c", "cccc", document_id=2, page=1),
        hit("d", "dddd", document_id=3),
    ]
    assert distinct(hits) == hits


def mean(*rankings: dict[str, float]) -> dict[str, float]:
    rows = [[(Found(row_id, 1, score), score) for row_id, score in scores.items()] for scores in rankings]
    return {row.row_id: score for row, score in averaged(rows)}


def test_one_ranking_is_its_own_mean():
    assert mean({"a": 0.9, "b": 0.2}) == {"a": 0.9, "b": 0.2}
    assert averaged([[]]) == averaged([[], []]) == []


def test_what_is_good_in_both_goes_before_what_is_best_in_one():
    assert list(mean({"fire": 0.9, "both": 0.8, "c": 0.1}, {"repairs": 0.9, "both": 0.8, "c": 0.1})) == [
        "both",
        "fire",
        "repairs",
        "c",
    ]


def test_a_row_that_one_ranking_lacks_is_no_worse_there_than_its_last():
    assert mean({"a": 0.8, "b": 0.4}, {"b": 0.6}) == pytest.approx({"a": 0.7, "b": 0.5})


SCORED = [(Found(f"{document_id}-0", document_id, 1.0), 1.0 - document_id / 100) for document_id in range(10)]


def test_rows_of_a_file_whose_name_fits_rise_a_little():
    assert lifted(SCORED, {}) == SCORED
    raised = lifted(SCORED, {3: 0.5})
    assert [row.document_id for row, _ in raised][:2] == [3, 0]
    assert raised[0][1] == pytest.approx(0.97 + 0.5 * NAME_WEIGHT)


def test_only_what_fits_well_and_nearly_as_well_as_the_best_is_surely_named():
    assert surely_named({}) == frozenset()
    assert surely_named({1: 0.2}) == frozenset()
    assert surely_named({1: 0.6, 2: 0.5, 3: 0.4}) == {1, 2}


def test_the_best_row_of_a_named_file_is_read_whatever_its_rank():
    assert [row.document_id for row, _ in read_first(SCORED, 3, {7, 8})] == [0, 1, 2, 7]
    assert [row.document_id for row, _ in read_first(SCORED, 3, {2, 8})] == [0, 1, 2]
    assert read_first(SCORED, 3, set()) == SCORED[:3]


def test_a_named_file_has_the_last_place_and_scores_still_fall():
    hits = [
        replace(hit(f"{number}", f"text {number}", document_id=number), score=1.0 - number / 10) for number in range(6)
    ]
    placed = with_place_for(hits, {5}, 3)
    assert [one.document_id for one in placed] == [0, 1, 5, 2, 3, 4]
    assert [one.score for one in placed] == [one.score for one in hits]
    assert with_place_for(hits, {2, 5}, 3) == hits
    assert with_place_for(hits, {9}, 3) == hits
    assert with_place_for(hits, {5}, 2) == hits
