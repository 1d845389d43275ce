"""Tests for engine.generation.answer_text."""

from __future__ import annotations

from engine.core import Citation
from engine.generation.answer_text import AnswerText


def numbers(*order: int) -> dict[int, int]:
    """Passage k + 1 as the model knows it is the one at `order[k]` of the evidence."""
    return dict(enumerate(order, start=1))


def test_markers_are_told_by_the_numbers_that_people_know():
    text = AnswerText(numbers(1, 0))
    told = text.feed("See [1") + text.feed("] and [2].") + text.finish()
    assert told == text.text == "See [2] and [1]."
    assert text.citations() == (Citation("[2]", 1, 4), Citation("[1]", 0, 12))


def test_what_came_later_is_cited_only_behind_it():
    text = AnswerText(numbers(0, 1))
    told = text.feed("It is so [2] and [3].")
    told += text.go_on(numbers(0, 1, 6))
    told += text.feed("Later too [3], and [1].") + text.finish()
    assert told == "It is so [2] and [3]. Later too [7], and [1]."
    assert [(c.marker, c.passage) for c in text.citations()] == [("[2]", 1), ("[7]", 6), ("[1]", 0)]
    assert all(told.startswith(citation.marker, citation.offset) for citation in text.citations())


def test_an_invented_number_does_not_become_one_that_people_know():
    text = AnswerText(numbers(0, 1))
    text.go_on(numbers(0, 1, 6))
    told = text.feed("See [7], [3] and [2, 7].") + text.finish()
    assert told == "See, [7] and [2]."
    assert [citation.passage for citation in text.citations()] == [6, 1]


def test_what_was_held_back_is_told_before_the_next_piece():
    text = AnswerText(numbers(1, 0))
    assert text.feed("So [1") == "So"
    assert text.go_on(numbers(1, 0, 2)) == " [1"
    assert text.written == ("So [1", "")


def test_what_was_written_before_is_part_of_the_text():
    text = AnswerText(numbers(1, 0))
    text.go_on_behind(["See [1].", "And [2"])
    assert text.feed("] too.") + text.finish() == " [1] too."
    assert text.text == "See [2]. And [1] too."
    assert text.written == ("See [1].", "And [2] too.")
    assert [citation.passage for citation in text.citations()] == [1, 0]


def test_pieces_are_parted_by_a_space_where_there_is_none():
    for before, after, whole in (
        ("One.", "Two.", "One. Two."),
        ("One.\n", "Two.", "One.\nTwo."),
        ("1.", " 2.", "1. 2."),
    ):
        text = AnswerText(numbers(0))
        told = text.feed(before) + text.go_on(numbers(0, 1)) + text.feed(after) + text.finish()
        assert told == text.text == whole
        assert text.written == (before, after)


def test_a_last_piece_without_a_word_cites_nothing():
    text = AnswerText(numbers(0))
    told = text.feed("One [1].") + text.go_on(numbers(0, 1)) + text.finish()
    assert told == "One [1]."
    assert [citation.passage for citation in text.citations()] == [0]


def test_an_empty_piece_in_the_middle_takes_no_citation_from_the_others():
    text = AnswerText(numbers(0))
    text.feed("One [1].")
    text.go_on(numbers(0, 1))
    text.go_on(numbers(0, 1, 2))
    text.feed("Two [3].")
    text.finish()
    assert text.text == "One [1]. Two [3]."
    assert [(c.passage, c.offset) for c in text.citations()] == [(0, 4), (2, 13)]
