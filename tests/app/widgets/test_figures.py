"""Tests for app.widgets.figures."""

from __future__ import annotations

import os

import pytest

from app.widgets import figures


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1536, "1.5 KiB"), (138 * 2**20, "138 MiB"), (5.3 * 2**30, "5.3 GiB")],
)
def test_bytes_are_said_in_the_unit_that_fits(num_bytes, text):
    assert figures.bytes_text(num_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.042, "42 ms"), (1.24, "1.2 s"), (42.4, "42 s"), (95, "1 min 35 s"), (7300, "2 h 1 min")],
)
def test_durations_are_said_as_people_say_them(seconds, text):
    assert figures.seconds_text(seconds) == text


def test_large_counts_are_grouped():
    assert figures.count_text(1_234_567) == "1,234,567"


def test_names_that_are_not_utf8_can_be_shown():
    name = os.fsdecode(b"/docs/caf\xe9.txt")
    assert figures.file_name(name) == "caf\N{REPLACEMENT CHARACTER}.txt"


def test_a_place_names_its_page_only_where_there_are_pages():
    assert figures.place_text("/docs/lease.pdf", 7) == "lease.pdf · p. 7"
    assert figures.place_text("/docs/notes.md", None) == "notes.md"
    assert figures.place_text("/docs/b.xlsx", 2, "sheet “Budget”, rows 12–18") == "b.xlsx · sheet “Budget”, rows 12–18"
    assert figures.place_text("/docs/lease.pdf", 7, "page 7") == "lease.pdf · p. 7"
    assert figures.place_text("/docs/notes.md", None, "lines 10–24") == "notes.md · lines 10–24"
