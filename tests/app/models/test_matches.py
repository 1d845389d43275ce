"""Tests for app.models.matches."""

from __future__ import annotations

import pytest

from app.models.matches import bare, count_of, in_units, spans_of


@pytest.mark.parametrize(
    ("text", "sought", "found"),
    [
        ("Notice, NOTICE", "notice", ["Notice", "NOTICE"]),
        ("Mein Résumé", "resume", ["Résumé"]),
        ("Mein Re\u0301sume\u0301.", "résumé", ["Re\u0301sume\u0301"]),
        ("resume", "Re\u0301sume\u0301", ["resume"]),
        ("Straße", "strasse", ["Straße"]),
        ("Die Straße", "SS", ["ß"]),
        ("aaa", "aa", ["aa"]),
        ("a.b axb", "a.b", ["a.b"]),
        ("三十天书面通知", "书面", ["书面"]),
        ("two\u00a0words", "two words", ["two\u00a0words"]),
        ("two\nlines", "two lines", []),
        ("anything", "", []),
        ("any thing", "  ", []),
    ],
)
def test_capitals_and_accents_do_not_count(text, sought, found):
    spans = spans_of(text, sought)
    assert [text[first:last] for first, last in spans] == found
    assert count_of(bare(text), sought) == len(found)


def test_places_are_told_as_qt_counts_letters():
    text = "😀 so 𝒳 it is"
    assert in_units(text, spans_of(text, "so")) == [(3, 5)]
    assert in_units(text, spans_of(text, "it")) == [(9, 11)]
    assert in_units("so", [(0, 2)]) == [(0, 2)]
