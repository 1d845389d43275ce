"""Tests for engine.api.vectors; over HTTP they are in test_server.py."""

from __future__ import annotations

from engine.api.vectors import SLICE_CHARACTERS, SLICE_TEXTS, in_slices


def test_texts_are_divided_by_how_long_they_are():
    long, short = "x" * (SLICE_CHARACTERS + 1), "x" * (SLICE_CHARACTERS // 2)
    assert [len(some) for some in in_slices([long, short, short, "x", long])] == [1, 2, 1, 1]
    assert list(in_slices([])) == []
    assert [len(some) for some in in_slices(["x"] * (SLICE_TEXTS + 1))] == [SLICE_TEXTS, 1]
