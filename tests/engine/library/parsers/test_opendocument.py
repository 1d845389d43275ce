"""Tests for engine.library.parsers.opendocument and opendocument_text."""

from __future__ import annotations

import pytest

from engine.errors import DocumentEmpty, DocumentTooLarge, DocumentUnreadable
from engine.library.parsers import opendocument
from engine.library.parsers.limits import Limits
from tests.helpers.packages import packed
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

NAMES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "style": "style",
        "presentation": "presentation",
    }.items()
)


def content(body: str, kind: str, styles: str = "") -> str:
    return (
        f"<office:document-content {NAMES}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )


def opendocument_file(body: str, kind: str = "text", styles: str = "", title: str = "") -> bytes:
    parts = {
        "content.xml": content(body, kind, styles),
        "meta.xml": '<office:document-meta xmlns:office="o" xmlns:dc="d"><office:meta>'
        f"<dc:title>{title}</dc:title></office:meta></office:document-meta>",
    }
    return packed(parts, f"application/vnd.oasis.opendocument.{kind}")


def test_the_structure_of_a_text(parsed):
    body = (
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:p text:style-name="P1">Handbook</text:p><text:table-of-content><text:p>Chapter 1</text:p>'
        '</text:table-of-content><text:h text:outline-level="1">Chapter</text:h>'
        '<text:p>Two<text:s text:c="3"/>spaces<text:tab/>tab<text:line-break/>line,\n   <text:span>span</text:span>.'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note.</text:p>"
        "</text:note-body></text:note><office:annotation><text:p>remark</text:p></office:annotation></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
        "</text:list-item></text:list></text:list-item></text:list>"
        '<text:p text:style-name="P2">code</text:p><text:p text:style-name="P2">  more</text:p>'
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>a</text:p>"
        "</table:table-cell><table:table-cell><text:p>b</text:p><text:p>c</text:p></table:table-cell>"
        "</table:table-row></table:table-header-rows></table:table>"
        "<text:p>After.<draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame></text:p>"
    )
    styles = (
        '<style:style style:name="P1" style:parent-style-name="Title"/>'
        '<style:style style:name="P2" style:parent-style-name="Preformatted_20_Text"/>'
    )
    document = parsed("a.odt", opendocument_file(body, styles=styles, title="The Handbook"))
    assert (document.format, document.title) == ("odt", "The Handbook")
    assert said(document) == [
        ("heading", "Handbook"),
        ("heading", "Chapter"),
        ("paragraph", "Two   spaces\ttab\nline, span."),
        ("paragraph", "A note."),
        ("paragraph", "Comment: remark"),
        ("list_item", "one"),
        ("list_item", "inner"),
        ("code", "code\n more"),
        ("table_row", "a | b c"),
        ("paragraph", "After."),
        ("paragraph", "In a box."),
    ]
    assert [block.level for block in document.pages[0].blocks][:2] == [1, 2]


def remark(text: str) -> str:
    return (
        '<office:annotation><dc:creator xmlns:dc="dc">Ada</dc:creator><dc:date xmlns:dc="dc">2024</dc:date>'
        f"<text:p>{text}</text:p></office:annotation>"
    )


PICTURE = '<draw:frame><draw:image/><svg:desc xmlns:svg="svg">A map of the lake</svg:desc></draw:frame>'


def test_comments_and_words_for_pictures_stand_where_they_belong(parsed):
    text = (
        f"<text:p>Above.{PICTURE}</text:p><table:table><table:table-row><table:table-cell><text:p>a{remark('Why a?')}"
        "</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell></table:table-row>"
        f"</table:table><text:p text:style-name='Preformatted_20_Text'>one{remark('Which?')}</text:p>"
        "<text:p text:style-name='Preformatted_20_Text'>two</text:p>"
    )
    assert said(parsed("a.odt", opendocument_file(text))) == [
        ("paragraph", "Above."),
        ("paragraph", "Picture: A map of the lake"),
        ("table_row", "a | b"),
        ("paragraph", "Comment by Ada: Why a?"),
        ("code", "one\ntwo"),
        ("paragraph", "Comment by Ada: Which?"),
    ]
    slides = parsed(
        "a.odp", opendocument_file(f"<draw:page/><draw:page>{PICTURE}{remark('So?')}</draw:page>", "presentation")
    )
    assert said(slides, 1) == [("paragraph", "Picture: A map of the lake"), ("paragraph", "Comment by Ada: So?")]
    sheet = SHEET.replace("<text:p>North</text:p>", f"{remark('Or south?')}<text:p>North</text:p>")
    page = parsed("a.ods", opendocument_file(sheet, "spreadsheet")).pages[0]
    assert [(page.text[block.start : block.end], block.line) for block in page.blocks][2:4] == [
        ("North | $5", 5),
        ("Comment by Ada: Or south?", 5),
    ]


def test_slides_begin_with_their_title_and_end_with_their_notes(parsed):
    def frame(text: str, kind: str = "outline") -> str:
        return (
            f'<draw:frame presentation:class="{kind}"><draw:text-box><text:p>{text}</text:p></draw:text-box>'
            "</draw:frame>"
        )

    body = (
        f"<draw:page>{frame('Body')}{frame('Title', 'title')}{frame('7', 'page-number')}<draw:g>"
        "<draw:custom-shape><text:p>In a group</text:p></draw:custom-shape></draw:g>"
        f"<presentation:notes>{frame('Say this.', 'notes')}</presentation:notes></draw:page>"
        f"<draw:page>{frame('Only text')}<presentation:notes>{frame('', 'notes')}</presentation:notes></draw:page>"
    )
    document = parsed("a.odp", opendocument_file(body, "presentation"))
    assert document.format == "odp"
    assert [(page.number, page.place) for page in document.pages] == [(1, "slide 1"), (2, "slide 2")]
    assert said(document) == [
        ("heading", "Title"),
        ("paragraph", "Body"),
        ("paragraph", "In a group"),
        ("heading", "Notes"),
        ("paragraph", "Say this."),
    ]
    assert said(document, 1) == [("paragraph", "Only text")]


def test_a_drawing_is_read_by_page(parsed):
    body = (
        "<draw:page><draw:custom-shape><text:p>Boiler</text:p></draw:custom-shape><draw:g><draw:connector>"
        f"<text:p>feeds</text:p></draw:connector></draw:g>{PICTURE}</draw:page>"
        "<draw:page><draw:frame><draw:text-box><text:p>Pump</text:p></draw:text-box></draw:frame></draw:page>"
    )
    parts = {"content.xml": content(body, "drawing")}
    document = parsed("a.odg", packed(parts, "application/vnd.oasis.opendocument.graphics"))
    assert document.format == "odg"
    assert [(page.number, page.place) for page in document.pages] == [(1, "page 1"), (2, "page 2")]
    assert [text for _, text in said(document)] == ["Boiler", "feeds", "Picture: A map of the lake"]
    assert said(document, 1) == [("paragraph", "Pump")]


def cell(text: str, times: int = 1) -> str:
    return f'<table:table-cell table:number-columns-repeated="{times}"><text:p>{text}</text:p></table:table-cell>'


SHEET = (
    '<table:table table:name="Budget"><table:table-row table:number-rows-repeated="3">'
    '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    f"<table:table-row><table:table-cell/>{cell('Region')}{cell('Amount')}"
    '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
    f"<table:table-row-group><table:table-row>{cell('')}{cell('North')}{cell('$5')}</table:table-row>"
    f'<table:table-row table:number-rows-repeated="2"><table:covered-table-cell/>'
    f"{cell('x', 2)}</table:table-row>"
    '</table:table-row-group><table:table-row table:number-rows-repeated="1000000"><table:table-cell/>'
    "</table:table-row></table:table>"
)


def test_sheets_keep_their_rows_numbers(parsed):
    document = parsed("a.ods", opendocument_file(SHEET, "spreadsheet"))
    assert (document.format, document.line_word, document.pages[0].place) == ("ods", "row", "sheet “Budget”")
    assert said(document) == [
        ("heading", "Budget"),
        ("heading", "Region | Amount"),
        ("table_row", "North | $5"),
        ("table_row", "x | x"),
        ("table_row", "x | x"),
    ]
    assert [block.line for block in document.pages[0].blocks] == [0, 4, 5, 6, 7]


def test_a_cell_or_row_that_claims_to_be_repeated_endlessly_is_refused(parsed):
    trap = (
        '<table:table table:name="T"><table:table-row table:number-rows-repeated="99999999">'
        f"{cell('x', 99999999)}</table:table-row></table:table>"
    )
    with pytest.raises(DocumentTooLarge, match="more than 100,000 filled cells"):
        parsed("a.ods", opendocument_file(trap, "spreadsheet"), Limits(max_cells=100_000))


def test_a_large_spreadsheet_goes_through_calamine(parsed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(opendocument, "_TREE_BYTES", 10)
    document = parsed("real.ods", shared_file("docs/textract/ods/standardized_text.ods").read_bytes())
    assert said(document)[0] == ("heading", "the | quick | brown | fox")


def test_what_holds_no_text_is_refused_with_a_sentence(parsed):
    with pytest.raises(DocumentUnreadable, match="its text is missing"):
        parsed("a.odt", packed({"x": "y"}, "application/vnd.oasis.opendocument.text"))
    with pytest.raises(DocumentEmpty):
        parsed("a.odt", opendocument_file("<text:p/>"))
    with pytest.raises(DocumentUnreadable, match="The document is damaged"):
        parsed("a.odt", packed({"content.xml": "<office"}, "application/vnd.oasis.opendocument.text"))
