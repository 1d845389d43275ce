"""Tests for engine.library.parsers.xlsx, xls and sheets."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from openpyxl import Workbook
from openpyxl.comments import Comment

from engine.errors import DocumentTooLarge, DocumentUnreadable
from engine.library.chunker import chunk, estimate_tokens
from engine.library.parsers import xlsx
from engine.library.parsers.limits import Limits
from engine.library.parsers.sheets import Sheets
from tests.helpers.packages import packed
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

HEAD = ("Region", "Manager", "Budget")
ROWS = (("North", "Ada", 1200.5), ("South", "Charles", 800), ("West", "Mary", 0.25))


def saved(book: Workbook) -> bytes:
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def budget() -> Workbook:
    book = Workbook()
    sheet = book.active
    sheet.title = "Budget"
    for row in (("Plan for 2024",), (), HEAD, *ROWS):
        sheet.append(row)
    sheet["C4"].number_format = '"$"#,##0.00'
    sheet["C6"].number_format = "0%"
    book.properties.title = "The plan"
    return book


def package(sheet: str, strings: str = "", prologue: str = "") -> bytes:
    """A workbook of one sheet "S" with these rows."""
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rels = "http://schemas.openxmlformats.org/package/2006/relationships"
    text = f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
    return packed(
        {
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
            '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{rels}"><Relationship Id="r1"'
            f' Type="{office}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2"'
            f' Type="{office}/sharedStrings" Target="/xl/sharedStrings.xml"/></Relationships>',
            "xl/sharedStrings.xml": f'<sst xmlns="{main}">{strings}</sst>',
            "xl/worksheets/sheet1.xml": prologue + text,
        }
    )


def test_a_sheet_is_a_page_of_rows_under_the_head_of_their_table(parsed):
    document = parsed("a.xlsx", saved(budget()))
    assert (document.format, document.title, document.line_word) == ("xlsx", "The plan", "row")
    (page,) = document.pages
    assert (page.number, page.place) == (1, "sheet “Budget”")
    assert said(document) == [
        ("heading", "Budget"),
        ("paragraph", "Plan for 2024"),
        ("heading", "Region | Manager | Budget"),
        ("table_row", "North | Ada | $1,200.50"),
        ("table_row", "South | Charles | 800"),
        ("table_row", "West | Mary | 25%"),
    ]
    assert [block.line for block in page.blocks] == [0, 1, 3, 4, 5, 6]


def test_comments_follow_their_rows_and_say_their_cells(parsed):
    book = budget()
    book.active["C5"].comment = Comment("Ada:\nIs this enough?", "Ada")
    book.active["A4"].comment = Comment("The north, by the lake.", "Author")
    book.active["A9"].comment = Comment("Nothing is here.", "Ada")
    document = parsed("a.xlsx", saved(book))
    assert [*zip(said(document), (block.line for block in document.pages[0].blocks), strict=True)][3:] == [
        (("table_row", "North | Ada | $1,200.50"), 4),
        (("paragraph", "Comment on A4: The north, by the lake."), 4),
        (("table_row", "South | Charles | 800"), 5),
        (("paragraph", "Comment on C5 by Ada: Is this enough?"), 5),
        (("table_row", "West | Mary | 25%"), 6),
        (("paragraph", "Comment on A9 by Ada: Nothing is here."), 9),
    ]
    chunks = chunk(document, estimate_tokens, 60, 0)
    assert chunks[-1].text.endswith("Nothing is here.")
    assert chunks[-1].place.endswith("9")


def test_a_conversation_is_read_once_and_drawings_say_what_stands_for_or_in_them(parsed):
    relation = '<Relationship Id="{0}" Type="http://schemas/relationships/{1}" Target="{2}"/>'
    with zipfile.ZipFile(io.BytesIO(package('<row r="2"><c r="B2"><v>7</v></c></row>'))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    related = (
        ("r1", "comments", "../comments1.xml"),
        ("r2", "threadedComment", "../threadedComments/t.xml"),
        ("r3", "drawing", "../drawings/d.xml"),
    )
    links = "".join(relation.format(*one) for one in related)
    parts |= {
        "xl/worksheets/_rels/sheet1.xml.rels": f"<Relationships>{links}</Relationships>",
        "xl/_rels/workbook.xml.rels": parts["xl/_rels/workbook.xml.rels"].replace(
            "</Relationships>", relation.format("r9", "person", "persons/p.xml") + "</Relationships>"
        ),
        "xl/persons/p.xml": '<personList><person displayName="Ada" id="{A}"/></personList>',
        "xl/comments1.xml": "<comments><authors><author>tc={1}</author></authors><commentList>"
        '<comment ref="B2" authorId="0"><text><t>[Threaded comment] Your version of Excel</t></text></comment>'
        "</commentList></comments>",
        "xl/threadedComments/t.xml": "<ThreadedComments>"
        '<threadedComment ref="B2" personId="{A}"><text>Why seven?</text></threadedComment>'
        '<threadedComment ref="B2" personId="{B}"><text>It was five.</text></threadedComment></ThreadedComments>',
        "xl/drawings/d.xml": "<wsDr><twoCellAnchor><from><col>0</col><row>4</row></from><pic><nvPicPr>"
        '<cNvPr id="1" name="Picture 1" descr="The lake"/></nvPicPr></pic></twoCellAnchor>'
        "<twoCellAnchor><from><row>5</row></from><AlternateContent><Choice><sp><txBody><p><r><t>Note: the deadline</t>"
        "</r></p><p><r><t>is in June.</t></r></p></txBody></sp></Choice><Fallback><sp><txBody><p><r><t>Not available"
        "</t></r></p></txBody></sp></Fallback></AlternateContent></twoCellAnchor></wsDr>",
    }
    document = parsed("a.xlsx", packed(parts))
    assert [*zip(said(document), (block.line for block in document.pages[0].blocks), strict=True)] == [
        (("heading", "S"), 0),
        (("paragraph", "7"), 2),
        (("paragraph", "Comment on B2 by Ada: Why seven?"), 2),
        (("paragraph", "Comment on B2: It was five."), 2),
        (("paragraph", "Picture: The lake"), 5),
        (("paragraph", "Note: the deadline is in June."), 6),
    ]


def test_every_chunk_of_a_long_table_knows_its_columns_and_rows(parsed):
    book = Workbook()
    book.active.title = "Ledger"
    book.active.append(("Account", "Text", "Amount"))
    for number in range(300):
        book.active.append((f"A{number:03}", "something was bought for the office", number))
    chunks = chunk(parsed("a.xlsx", saved(book)), estimate_tokens, 120, 16)
    assert len(chunks) > 20
    assert {one.heading for one in chunks} == {"Ledger › Account | Text | Amount"}
    assert chunks[0].place.startswith("sheet “Ledger”, rows 1–")
    for one in chunks[1:]:
        first, last = (int(number) for number in one.place.rpartition(" ")[2].split("–"))
        # The first row names the columns, so account 000 stands in the second.
        lines = one.text.splitlines()
        assert lines[-1].startswith(f"A{last - 2:03} |")
        assert f"A{first - 1:03} |" in one.text or lines[0].startswith(f"A{first - 2:03} |")


def test_dates_truths_and_empty_cells_read_as_shown(parsed):
    book = Workbook()
    book.active.append((dt.date(2024, 3, 5), dt.datetime(2024, 3, 5, 14, 2), True, None, "end"))
    book.active.append((None, None, "only"))
    (page,) = parsed("a.xlsx", saved(book)).pages
    assert page.text == "2024-03-05 | 2024-03-05 14:02 | TRUE | end\n |  | only".replace("\n |  | ", "\n|  | ")


def test_only_sheets_of_cells_that_a_person_can_show_are_read(parsed):
    book = budget()
    book.create_sheet("Empty")
    hidden, secret = book.create_sheet("Hidden"), book.create_sheet("Secret")
    hidden["A1"], secret["A1"] = "hidden words", "secret words"
    hidden.sheet_state, secret.sheet_state = "hidden", "veryHidden"
    document = parsed("a.xlsx", saved(book))
    assert [page.place for page in document.pages] == ["sheet “Budget”", "sheet “Empty”", "sheet “Hidden”"]
    assert [page.text for page in document.pages][1:] == ["", "Hidden\n\nhidden words"]


def test_a_sheet_that_nobody_named_names_nothing(parsed):
    book = Workbook()
    book.active["A1"] = "words"
    assert said(parsed("a.xlsx", saved(book))) == [("paragraph", "words")]


@pytest.mark.parametrize(
    ("rows", "has_head"),
    [
        ([["Name", "City"], ["Ada", "London"], ["Mary", "Paris"]], True),
        ([["Country", "2023", "2024"], ["Chad", "1", "2"], ["Peru", "3", "4"]], True),
        ([["Revenue", "500,000"], ["Costs", "300,000"], ["Profit", "200,000"]], False),
        ([["Name", "City"], ["Ada", "London"]], False),
        ([["x", "x"], ["1", "2"], ["3", "4"]], False),
        ([["A", "B", ""], ["1", "2", "3", "4"], ["1", "2", "3", "4"]], False),
        ([["word " * 20, "b"], ["1", "2"], ["3", "4"]], False),
    ],
)
def test_what_counts_as_the_head_of_a_table(rows: list[list[str]], has_head: bool):
    sheets = Sheets(Limits())
    sheets.add("Sheet1", list(enumerate(rows, start=1)))
    assert (sheets.pages[0].blocks[0].kind == "heading") == has_head


def test_rich_ruby_escaped_and_inline_texts(parsed):
    strings = (
        "<si><r><t>two </t></r><r><rPr/><t>runs</t></r></si>"
        "<si><t>漢字</t><rPh sb='0' eb='2'><t>かんじ</t></rPh></si><si><t>line_x000A_end</t></si>"
    )
    rows = (
        '<row r="7"><c r="A7" t="s"><v>0</v></c><c r="C7" t="s"><v>1</v></c><c r="D7" t="s"><v>99</v></c></row>'
        '<row><c t="inlineStr"><is><t>inline</t></is></c><c t="str"><f>A1</f><v>formula</v></c>'
        '<c t="s"><v>2</v></c><c t="e"><v>#N/A</v></c></row>'
    )
    document = parsed("a.xlsx", package(rows, strings))
    assert said(document)[-2:] == [
        ("table_row", "two runs |  | 漢字"),
        ("table_row", "inline | formula | line end | #N/A"),
    ]
    assert [block.line for block in document.pages[0].blocks][-2:] == [7, 8]


def test_large_and_binary_workbooks_go_through_calamine(parsed, monkeypatch: pytest.MonkeyPatch):
    content = saved(budget())
    streamed = parsed("a.xlsx", content)
    monkeypatch.setattr(xlsx, "_STREAMED_BYTES", 10)
    document = parsed("a.xlsx", content)
    assert [block.line for block in document.pages[0].blocks] == [0, 1, 3, 4, 5, 6]
    # The same but for the formats of numbers.
    assert document.pages[0].text == streamed.pages[0].text.replace("$1,200.50", "1200.5").replace("25%", "0.25")


def test_more_cells_than_the_limit_are_refused_with_figures(parsed):
    with pytest.raises(DocumentTooLarge, match="more than 5 filled cells"):
        parsed("a.xlsx", saved(budget()), Limits(max_cells=5))


def test_entities_are_not_resolved_and_bombs_do_not_go_off(parsed):
    bomb = "<!DOCTYPE x [" + '<!ENTITY a "word ">' + "".join(
        f'<!ENTITY {name} "{"&" + before + ";" + "&" + before + ";"}">' for before, name in pairwise("abcdefghi")
    ) + '<!ENTITY f SYSTEM "file:///etc/hostname">]>'  # fmt: skip
    rows = '<row r="1"><c t="inlineStr"><is><t>safe &i; &f;</t></is></c></row>'
    assert parsed("a.xlsx", package(rows, prologue=bomb)).pages[0].text == "S\n\nsafe"


def test_damaged_workbooks_are_refused_with_a_sentence(parsed):
    content = saved(budget())
    with pytest.raises(DocumentUnreadable, match="is damaged"):
        parsed("a.xlsx", content[: len(content) // 2])
    with pytest.raises(DocumentUnreadable, match="The workbook is damaged"):
        parsed("a.xlsx", package('<row r="1"><c t="inlineStr"><is><t>cut'))


def test_real_old_workbooks_are_read(parsed):
    path: Path = shared_file("docs/textract/xls/raw_text.xls")
    document = parsed("named_wrongly.txt", path.read_bytes())
    assert (document.format, document.line_word) == ("xls", "row")
    assert said(document)[0] == ("heading", "Category | Function | Description | New? | Help Topic | Help")
    assert document.pages[0].blocks[1].line == 2


def test_a_workbook_in_one_xml_file_is_read_as_others_are(parsed):
    rows = (
        '<Row><Cell><Data ss:Type="String">Name</Data></Cell>'
        '<Cell ss:Index="3"><Data ss:Type="String">Share</Data></Cell>'
        '<Cell><Data ss:Type="String">Since</Data></Cell></Row>'
        '<Row><Cell ss:MergeAcross="1"><ss:Data ss:Type="String" xmlns="http://www.w3.org/TR/REC-html40">An<B>n</B>'
        '</ss:Data></Cell><Cell ss:StyleID="s1"><Data ss:Type="Number">0.25</Data></Cell>'
        '<Cell><Data ss:Type="DateTime">2024-03-05T00:00:00.000</Data></Cell></Row>'
        '<Row ss:Index="7"><Cell><Data ss:Type="Boolean">1</Data></Cell><Cell ss:Index="9"/>'
        '<Cell><Data ss:Type="Number">n/a</Data></Cell></Row>'
    )
    document = parsed(
        "a.xls",
        '<?xml version="1.0"?>\n<?mso-application progid="Excel.Sheet"?>\n'
        '<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"'
        ' xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Styles><Style ss:ID="s1">'
        '<NumberFormat ss:Format="0%"/></Style></Styles>'
        f'<Worksheet ss:Name="Staff"><Table>{rows}</Table></Worksheet><Worksheet ss:Name="Sheet2"/></Workbook>',
    )
    assert (document.format, document.line_word) == ("xls", "row")
    assert [page.place for page in document.pages] == ["sheet “Staff”", "sheet “Sheet2”"]
    assert said(document) == [
        ("heading", "Staff"),
        ("table_row", "Name | Share | Since"),
        ("table_row", "Ann | 25% | 2024-03-05"),
        ("table_row", "TRUE | n/a"),
    ]
    assert [block.line for block in document.pages[0].blocks] == [0, 1, 2, 7]
