"""Tests for engine.library.parsers.markdown."""

from __future__ import annotations

import pytest

from tests.helpers.parsing import said


def test_the_source_stays_and_its_structure_is_marked(parsed):
    source = (
        "# Title\n\nA *paragraph*\nof two lines.\n\n- one\n- two\n  - inner\n\n> quoted\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint()\n```\n\n    indented\n"
    )
    document = parsed("a.md", source)
    assert document.format == "markdown"
    assert document.pages[0].text == source
    assert said(document) == [
        ("heading", "# Title"),
        ("paragraph", "A *paragraph*\nof two lines."),
        ("list_item", "- one"),
        ("list_item", "- two"),
        ("list_item", "- inner"),
        ("paragraph", "> quoted"),
        ("table_row", "| a | b |"),
        ("table_row", "| 1 | 2 |"),
        ("code", "```python\nprint()\n```"),
        ("code", "indented"),
    ]


def test_headings_say_their_level_and_their_words(parsed):
    document = parsed("a.md", "Top\n===\n\n### Using `Arc<T>` and *more* [here](http://x) ###\n\nText")
    headings = [block for block in document.pages[0].blocks if block.kind == "heading"]
    assert [(block.level, block.label) for block in headings] == [(1, "Top"), (3, "Using Arc<T> and more here")]


def test_front_matter_gives_the_title_and_no_heading(parsed):
    document = parsed("a.md", '---\ntitle: "My Notes"\ntags: [x]\n---\n# First\n\nText\n')
    assert document.title == "My Notes"
    assert [kind for kind, _ in said(document)] == ["paragraph", "heading", "paragraph"]
    assert said(document)[1] == ("heading", "# First")


def test_what_is_never_shown_is_no_block(parsed):
    document = parsed("a.md", "One\n\n---\n\n<!-- old -->\n\n<a id='x'></a>\n\n[ref]: http://example.org\n\nTwo\n")
    assert said(document) == [("paragraph", "One"), ("paragraph", "Two")]


def test_footnotes_are_shown(parsed):
    source = (
        'One.[^1]\n\n[^1]: The lease ends in May 2027.\n\n[a]: http://example.org "Title"\n\n[Note]: read this first.\n'
    )
    assert [text for _, text in said(parsed("a.md", source))] == [
        "One.[^1]",
        "[^1]: The lease ends in May 2027.",
        "[Note]: read this first.",
    ]


def test_html_with_words_in_it_is_kept(parsed):
    assert said(parsed("a.md", "<p align='center'>Badge</p>\n\nText")) == [
        ("paragraph", "<p align='center'>Badge</p>"),
        ("paragraph", "Text"),
    ]


def test_windows_line_ends_do_not_move_the_blocks(parsed):
    assert said(parsed("a.md", b"# A\r\n\r\nText\r\nmore\r\n")) == [("heading", "# A"), ("paragraph", "Text\nmore")]


def test_a_heading_knows_the_links_of_its_document(parsed):
    document = parsed("a.md", "# On [this][1] and [that][2]\n\nText\n\n[1]: http://example.org\n")
    assert document.pages[0].blocks[0].label == "On this and [that][2]"


# Each of these took longer than the age of the world, once.
@pytest.mark.parametrize(
    "source",
    [
        "<table>\n\t<tbody>\n\t\t<tr>\n            <td align='center'>\n                <a href='x'>\n"
        "                    <img src='y' />\n                    <br />\n                    <sub><b>Ada</b></sub>",
        "_" * 60 + " (signature)",
        "|" + " " * 80 + "Name" + " " * 80 + "|",
    ],
)
def test_signs_that_are_never_shown_take_no_time_before_words(parsed, source: str):
    assert len(said(parsed("a.md", f"{source}\n\nText\n"))) == 2


def test_pictures_in_their_own_addresses_are_no_passages(parsed):
    data = "iVBORw0KGgo/+=" * 3000
    document = parsed(
        "a.md",
        f"Before ![A pump](data:image/png;base64,{data} 'Pump') it.\n\n"
        f"<img alt='x' src=\"data:image/svg+xml,{data}\">\n\n"
        f"After.\n\n[ref]: data:image/png;base64,{data}\n",
    )
    assert said(document) == [
        ("paragraph", "Before ![A pump](data:image/png;… 'Pump') it."),
        ("paragraph", "After."),
    ]
    assert [block.line for block in document.pages[0].blocks] == [1, 5]
