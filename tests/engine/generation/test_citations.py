"""Tests for engine.generation.citations."""

from __future__ import annotations

import pytest

from engine.core import Quote
from engine.generation.citations import citations_of_quotes, parse_citations


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
