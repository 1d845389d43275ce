"""Tests for engine.library.parsers.svg."""

from __future__ import annotations

import gzip

import pytest

from engine.errors import DocumentEmpty, DocumentUnreadable
from tests.helpers.parsing import said

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</svg>'


def texts(document) -> list[str]:
    return [text for _, text in said(document)]


def test_what_is_written_is_read_in_the_order_of_the_file(parsed):
    body = (
        "<title>The mill</title><desc>How water drives it.</desc><style>text {}</style><script>no()</script>"
        "<g><text x='1'>Wheel <tspan font-weight='bold'>and</tspan> axle</text><title>A tip</title></g>"
        "<text><tspan x='0' y='1'>First line</tspan><tspan x='0' dy='9'>second line</tspan></text>"
        "<text>H<tspan dy='3'>2</tspan>O</text><text>H<tspan dy='3'>2</tspan>O</text>"
        "<a xlink:href='x'><text>A link</text></a><metadata>none of it</metadata>"
    )
    document = parsed("a.svg", SVG.format(body))

    assert (document.format, document.title) == ("picture", "The mill")
    assert texts(document) == [
        "The mill", "How water drives it.", "Wheel and axle", "A tip", "First line\nsecond line", "H2O", "A link",
    ]  # fmt: skip


def test_boxes_of_html_are_read_once(parsed):
    box = '<foreignObject><div xmlns="http://www.w3.org/1999/xhtml"><p>Order</p><p>placed</p></div></foreignObject>'
    body = f"<switch>{box}<text>Order plac…</text></switch>"
    body += "<switch><g/><text>Text is not SVG - cannot display</text></switch>"
    assert texts(parsed("a.svg", SVG.format(body))) == ["Order placed"]


def test_a_packed_one_is_read_as_well(parsed):
    document = parsed("mill.svgz", gzip.compress(SVG.format("<text>Wheel</text>").encode()))
    assert (document.pages[0].text, document.pages[0].place) == ("Wheel", "mill")


def test_one_without_text_says_so_and_what_to_do(parsed):
    with pytest.raises(DocumentEmpty, match=r"no text in the SVG picture\. .*PNG"):
        parsed("a.svg", SVG.format("<path d='M0 0'/>"))


def test_a_damaged_one_says_so(parsed):
    with pytest.raises(DocumentUnreadable, match="SVG picture is damaged"):
        parsed("a.svg", "<svg><text>Wheel</svg>")


def test_nothing_is_fetched_and_no_entity_grows(parsed, tmp_path):
    (tmp_path / "secret.txt").write_text("a secret")
    prologue = f'<!DOCTYPE svg [<!ENTITY s SYSTEM "{(tmp_path / "secret.txt").as_uri()}"><!ENTITY t "grown">]>'
    document = parsed("a.svg", prologue + SVG.format("<text>Wheel &s; &t;</text>"))
    assert document.pages[0].text == "Wheel"


def test_what_is_only_for_the_program_that_wrote_it_is_left_out(parsed):
    own = '<foreignObject requiredExtensions="http://example.org/ours"><p>packed</p></foreignObject>'
    document = parsed("a.svg", SVG.format(f"<switch>{own}<g><text>Wheel</text></g><text>Less</text></switch>"))
    assert texts(document) == ["Wheel"]
