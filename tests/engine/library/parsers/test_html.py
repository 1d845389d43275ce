"""Tests for engine.library.parsers.html."""

from __future__ import annotations

import pytest

from engine.errors import DocumentEmpty
from tests.helpers.parsing import said


def test_the_structure_of_a_page(parsed):
    document = parsed(
        "a.html",
        "<html><head><title> The  Title </title></head><body><h1>One &amp; only</h1>"
        "<p>First<br>second   <b>bold</b>\nline.</p>loose text<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"
        "<table><caption>Fees</caption><thead><tr><th>x</th><th>y</th></tr></thead><tr><td>1</td><td>2<br>3</td></tr>"
        "</table><pre>  code\n    here</pre><h3>Three</h3></body></html>",
    )
    assert (document.format, document.title) == ("html", "The Title")
    assert said(document) == [
        ("heading", "One & only"),
        ("paragraph", "First\nsecond bold line."),
        ("paragraph", "loose text"),
        ("list_item", "a"),
        ("list_item", "b"),
        ("list_item", "c"),
        ("paragraph", "Fees"),
        ("table_row", "x | y"),
        ("table_row", "1 | 2 3"),
        ("code", "code\n    here"),
        ("heading", "Three"),
    ]
    assert [block.level for block in document.pages[0].blocks if block.kind == "heading"] == [1, 3]


def test_what_is_not_the_page_itself_is_dropped(parsed):
    document = parsed(
        "a.html",
        "<html><body><header>Logo</header><nav>Home</nav><script>x()</script><style>p{}</style>"
        "<article><header>By Anna</header><p>The story.</p></article><p hidden>secret</p>"
        "<div style='display: none'>ad</div><div role='navigation'>more</div><footer>Imprint</footer></body></html>",
    )
    assert [text for _, text in said(document)] == ["By Anna", "The story."]


def test_the_main_part_stands_for_the_page(parsed):
    document = parsed("a.html", "<html><body><div>menu</div><main><p>The text of the page.</p></main></body></html>")
    assert [text for _, text in said(document)] == ["The text of the page."]


def test_an_empty_main_part_does_not(parsed):
    document = parsed("a.html", "<html><body><main></main><p>All the text is out here.</p></body></html>")
    assert [text for _, text in said(document)] == ["All the text is out here."]


def test_a_table_that_arranges_the_page_is_read_as_text(parsed):
    document = parsed("a.html", "<html><table><tr><td><h2>News</h2><p>Today.</p></td></tr></table></html>")
    assert said(document) == [("heading", "News"), ("paragraph", "Today.")]


@pytest.mark.parametrize(
    "content",
    [
        "<html><meta charset='iso-8859-1'><p>Größe</p></html>".encode("latin-1"),
        '<html><meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>Größe</p>'.encode("cp1252"),
        '<?xml version="1.0" encoding="utf-8"?><html><p>Größe</p></html>'.encode(),
        "<html><p>Größe</p></html>".encode("utf-16"),
    ],
)
def test_the_encoding_is_found(parsed, content: bytes):
    assert [text for _, text in said(parsed("a.html", content))] == ["Größe"]


def test_entities_and_files_are_not_fetched(parsed, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    document = parsed(
        "a.html",
        f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]><html><body><p>a &x; b</p></body></html>',
    )
    assert "secret" not in document.pages[0].text


def test_a_page_without_text_is_empty(parsed):
    with pytest.raises(DocumentEmpty):
        parsed("a.html", "<html><script>x()</script></html>")


def test_deep_nesting_is_survived(parsed):
    document = parsed("a.html", "<html>" + "<div>" * 200 + "deep" + "</div>" * 200 + "</html>")
    assert said(document) == [("paragraph", "deep")]
