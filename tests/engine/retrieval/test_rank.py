"""Tests for engine.retrieval.rank."""

from __future__ import annotations

import pytest

from engine.retrieval.rank import distinct, reciprocal_rank_fusion
from tests.helpers.chunk_rows import hit


def test_what_both_rankings_know_comes_before_what_one_puts_first():
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["d", "b", "e"]], k=10)
    assert [item for item, _ in fused] == ["b", "a", "d", "c", "e"]
    assert fused[0][1] == pytest.approx(2 / 12)
    assert fused[1][1] == pytest.approx(1 / 11)


def test_a_small_k_trusts_a_first_rank_more_than_two_middling_ones():
    rankings = [["first", *"wxyz", "both"], ["v", *"stuq", "both"]]
    assert reciprocal_rank_fusion(rankings, k=1)[0][0] == "first"
    assert reciprocal_rank_fusion(rankings, k=60)[0][0] == "both"


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_fused_is_nothing(rankings: list[list[str]]):
    assert reciprocal_rank_fusion(rankings, k=10) == []


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
