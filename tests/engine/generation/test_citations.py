"""Tests for engine.generation.citations."""

from __future__ import annotations

import pytest

from engine.core import Passage, Quote
from engine.generation.citations import (
    Recalled,
    Renumbering,
    citations_among,
    citations_of_quotes,
    parse_citations,
    renumbered,
    without_markers,
)


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("A mutex [1].", [0]),
        ("Both [1][3].", [0, 2]),
        ("Both [1, 3].", [0, 2]),
        ("Beide [2; 3].", [1, 2]),
        ("两者都是【2】。", [1]),
        ("Spaced [ 2 ].", [1]),
        ("A mutex[2].", [1]),
        ("Die Miete beträgt 900[1].", [0]),
        ("Founded in 1998[2], moved in 2003[1][3].", [1, 0, 2]),
    ],
)
def test_markers_point_to_passages(text: str, passages: list[int]):
    assert [citation.passage for citation in parse_citations(text, 3)] == passages


@pytest.mark.parametrize(
    "text",
    [
        "Nothing cited.",
        "Too high [4].",
        "Zero [0].",
        "x_2[1]",
        "mp3[1]",
        "arr10[1]",
        "__[1]",
        "A [1](http://x) link.",
        "`[1]`",
        "```\n[1]\n```",
        "[one]",
    ],
)
def test_what_only_looks_like_a_marker_is_none(text: str):
    assert parse_citations(text, 3) == ()


def test_offsets_find_the_marker_in_the_text():
    text = "First [2], then [1, 2]."
    assert all(text.startswith(c.marker, c.offset) for c in parse_citations(text, 2))


def test_quotes_stand_in_once_a_passage_and_in_their_order():
    quotes = [Quote("q", passage, "/f", None, 0, 1, 0.5) for passage in (2, 0, 2)]
    citations = citations_of_quotes(quotes, 10)
    assert [(c.marker, c.passage, c.offset) for c in citations] == [("[3]", 2, 10), ("[1]", 0, 10)]


TEXTS = [
    "Both [1][2], also [1, 3].",
    "One [2](https://example.org) is a link, and [3] is none.",
    "In code `a[1]` and\n```\nb[2]\n```\nnot, but here [3].",
    "An open ` tick [1]\nand 【2】 after.",
    "No passage [9] and [0] and list[1]; an end [",
]


def numbers(*order: int) -> dict[int, int]:
    """Passage k + 1 as it was read is the one at `order[k]`."""
    return dict(enumerate(order, start=1))


def test_passages_read_in_another_order_are_cited_by_the_numbers_people_know():
    assert renumbered("Both [1][2], also [1, 3]; not [4].", numbers(2, 0, 1)) == "Both [3][1], also [3, 2]; not [4]."


def test_what_an_earlier_turn_brought_points_to_nothing_that_people_know_by_its_number():
    # Passages 7 and 8 came with this question, and 3 was found again for it; 1 and 2 stand above, too.
    known = {7: 1, 8: 2, 3: 0}
    assert renumbered("As [5] says [6].", {9: 0, 10: 1}) == "As says."
    assert renumbered("Since [2024] it is [1001].", {1001: 0, 1002: 1}) == "Since [2024] it is [1]."
    text = renumbered("So [7], so [3, 8], as [1] said, and [2, 7].", known)
    assert text == "So [2], so [1, 3], as said, and [2]."
    assert [citation.passage for citation in citations_among(text, {0, 1, 2}, 5)] == [1, 0, 2, 1]


class Known:
    """Two passages that people know, and what an answer adds of earlier turns' passages 1, 2 and 5."""

    def __init__(self) -> None:
        self.passages = [passage(8), passage(9)]
        standing = {number: passage(number) for number in (1, 2, 5)}
        self.recalled = Recalled(standing, len(self.passages), self._give_place)

    def _give_place(self, one: Passage) -> int:
        self.passages.append(one)
        return len(self.passages) - 1


def passage(number: int) -> Passage:
    return Passage(f"r{number}", number, f"/docs/{number}.md", 0, None, 0, 3, "", "abc", 0.5)


def test_what_is_cited_of_an_earlier_turn_gets_the_next_place_and_keeps_it():
    known = Known()
    text = renumbered("As [5] says, [8, 2] and [5]; not [3], nor [7].", {8: 0, 9: 1}, known.recalled)
    assert text == "As [3] says, [1, 4] and [3]; not, nor."
    assert [one.document_id for one in known.passages] == [8, 9, 5, 2]
    assert known.recalled.places == {5: 2, 2: 3}
    assert renumbered("[9], [2]", {8: 0, 9: 1}, known.recalled) == "[2], [4]"


def test_where_nothing_was_found_an_earlier_passage_is_the_first():
    known = Known()
    known.passages.clear()
    assert renumbered("So [2], not [1999] or [4].", {}, known.recalled) == "So [1], not [1999] or."


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_stream_recalls_what_the_whole_does_and_only_that(size: int):
    text = "As [5] says, `a[1]` and [1](link), [9]; [2"
    known, streamed = Known(), Known()
    stream = Renumbering({8: 0, 9: 1}, streamed.recalled)
    told = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join((*told, stream.finish())) == renumbered(text, {8: 0, 9: 1}, known.recalled)
    assert streamed.passages == known.passages
    assert [one.document_id for one in known.passages] == [8, 9, 5]


def test_citations_leave_a_text_without_a_trace():
    assert without_markers("It is so [1]. Also [2, 3], but `a[1]` stays.") == "It is so. Also, but `a[1]` stays."


def test_code_is_not_renumbered():
    assert renumbered("`a[1]` but [1]", numbers(1, 0)) == "`a[1]` but [2]"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_stream_says_the_same_as_the_whole(text: str, size: int):
    order = numbers(10, 0, 1)
    stream = Renumbering(order)
    told = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join((*told, stream.finish())) == renumbered(text, order)


def test_a_long_stream_leaves_its_lines_behind_and_says_the_same():
    lines = [f"Line {number} says [1] and `a[{number % 3}]` of [2, 3].\n" for number in range(200)]
    text = "".join((*lines, "```\nb[1]\n", *lines[:60], "```\n", *lines))
    order = numbers(10, 0, 1)
    stream = Renumbering(order)
    told = [stream.feed(text[at : at + 7]) for at in range(0, len(text), 7)]
    assert "".join((*told, stream.finish())) == renumbered(text, order)
    torn = "x" * 2100 + " [1,\n2] so, and goes on.\n" + "y" * 2100 + "\n[3]"
    stream = Renumbering(numbers(9, 0, 1))
    assert "".join((*map(stream.feed, torn), stream.finish())) == renumbered(torn, numbers(9, 0, 1))
    lines_only = Renumbering(order)
    for line in lines:
        lines_only.feed(line)
        assert len(lines_only._text) < 3000


def test_a_stream_waits_only_for_what_could_change():
    stream = Renumbering(numbers(1, 0))
    assert [stream.feed(piece) for piece in ("A mutex", " [", "1", "]", ".")] == ["A mutex", "", "", "", " [2]."]


def test_nothing_is_held_back_while_the_order_is_that_of_the_evidence():
    assert Renumbering(numbers(0, 1)).feed("See [") == "See ["
