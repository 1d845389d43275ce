"""Tests for engine.library.windows."""

from __future__ import annotations

from collections.abc import Sequence

from engine.library.windows import PORTION_CHUNKS, WINDOW_CHUNKS, Waiting, longest_first, shares
from tests.helpers.library import FakeEmbedder

HUGE = 20 * WINDOW_CHUNKS


def test_small_documents_are_taken_in_the_order_in_which_they_came() -> None:
    assert shares([Waiting(200), Waiting(200), Waiting(200), Waiting(200)]) == [200, 200, WINDOW_CHUNKS - 400, 0]


def test_what_is_there_may_be_less_than_a_window() -> None:
    assert shares([Waiting(3), Waiting(4)]) == [3, 4]
    assert shares([]) == []


def test_small_documents_pass_a_huge_one_that_goes_on_all_the_same() -> None:
    assert shares([Waiting(HUGE), Waiting(10), Waiting(20)]) == [WINDOW_CHUNKS - 30, 10, 20]
    assert shares([Waiting(HUGE), *[Waiting(400)] * 5]) == [PORTION_CHUNKS, 400, 80, 0, 0, 0]


def test_the_first_of_two_huge_documents_is_finished_first() -> None:
    assert shares([Waiting(HUGE), Waiting(HUGE)]) == [WINDOW_CHUNKS, 0]


def test_an_urgent_document_has_a_short_window_to_itself() -> None:
    assert shares([Waiting(HUGE), Waiting(10), Waiting(5, is_urgent=True)]) == [0, 0, 5]
    assert shares([Waiting(10), Waiting(HUGE, is_urgent=True)]) == [0, PORTION_CHUNKS]


def test_however_they_are_mixed_a_window_is_full_when_it_can_be_and_takes_no_more_than_there_is() -> None:
    for sizes in ([1, 300, 2, 700], [256, 256], [257], [10, 10_000, 10, 300]):
        waiting = [Waiting(size) for size in sizes]
        taken = shares(waiting)
        assert all(0 <= share <= size for share, size in zip(taken, sizes, strict=True))
        assert sum(taken) == min(WINDOW_CHUNKS, sum(sizes))


def test_portions_are_cut_from_texts_by_their_length_in_tokens() -> None:
    class Tokens(FakeEmbedder):
        def lengths(self, texts: Sequence[str]) -> list[int]:
            return [text.count(" ") for text in texts]

    assert longest_first({"a": "long-but-one-word", "b": "a b c d", "c": "a b c"}, Tokens()) == ["b", "c", "a"]
