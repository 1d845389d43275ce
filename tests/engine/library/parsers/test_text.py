"""Tests for engine.library.parsers.text, lines and code."""

from __future__ import annotations

import pytest

from engine.errors import DocumentEmpty
from tests.helpers.parsing import said


def test_paragraphs_stand_between_blank_lines(parsed):
    document = parsed("a.txt", "\n\nOne\ngoes on.\n  \n\nTwo.\fThree.\n")
    assert (document.format, document.title) == ("text", "")
    assert said(document) == [("paragraph", "One\ngoes on."), ("paragraph", "Two."), ("paragraph", "Three.")]
    assert document.pages[0].number is None


def test_list_items_are_told_apart(parsed):
    document = parsed("a.txt", "Bring:\n- a rope\n  of ten metres\n- a lamp\n\n1. Start\n2. Stop")
    assert said(document) == [
        ("paragraph", "Bring:"),
        ("list_item", "- a rope\n  of ten metres"),
        ("list_item", "- a lamp"),
        ("list_item", "1. Start"),
        ("list_item", "2. Stop"),
    ]


def test_an_underlined_line_is_a_heading(parsed):
    document = parsed("a.txt", "Top\n====\n\nText.\n\nBelow\n-----\n\nMore.")
    blocks = document.pages[0].blocks
    assert [(block.level, block.label) for block in blocks if block.kind == "heading"] == [(1, "Top"), (2, "Below")]


def test_lines_too_long_to_be_wrapped_are_paragraphs(parsed):
    lines = ["word " * 60, "term " * 60]
    assert [text for _, text in said(parsed("a.txt", "\n".join(lines)))] == [line.strip() for line in lines]


@pytest.mark.parametrize("content", [b"", b" \n\t\r\n ", b"\xef\xbb\xbf", b"\xff\xfe \x00"])
def test_a_file_without_text_is_empty(parsed, content: bytes):
    with pytest.raises(DocumentEmpty, match=r"empty|no text"):
        parsed("a.txt", content)


def test_a_record_is_a_row(parsed):
    document = parsed("a.log", "10:00 up\r\n\r\n10:05 down\r\n")
    assert document.format == "text"
    assert said(document) == [("table_row", "10:00 up"), ("table_row", "10:05 down")]


def test_code_is_cut_at_definitions(parsed):
    source = (
        "import os\n\n# Why.\n@once\ndef first():\n    a = 1\n\n    return a\n\n\n"
        "class Second:\n    def run(self):\n        pass\n\n    def stop(self):\n        pass\n"
    )
    document = parsed("a.py", source)
    assert document.format == "code"
    assert [text.split("\n")[0] for _, text in said(document)] == ["import os", "# Why.", "class Second:"]
    assert {kind for kind, _ in said(document)} == {"code"}


def test_a_closing_brace_begins_nothing(parsed):
    document = parsed("a.c", "int main() {\n    a();\n\n    b();\n\n}\n\nint next;\n")
    assert [text.split("\n")[0] for _, text in said(document)] == ["int main() {", "int next;"]
