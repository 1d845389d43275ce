"""Tests for engine.library.parsers.docx and archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest

from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentTooLarge, DocumentUnreadable
from engine.library.parsers import families
from engine.library.parsers.limits import Limits
from tests.helpers.documents import Heading, Item, Table, write_docx
from tests.helpers.parsing import check, said

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"


def archive(body: str, namespace: str = WORD, styles: str = "", prologue: bytes = b"", **more: str) -> bytes:
    """A Word file of just the parts that we read, with this body."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        text = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
        file.writestr("word/document.xml", prologue + text.encode())
        if styles:
            file.writestr("word/styles.xml", f'<w:styles xmlns:w="{namespace}">{styles}</w:styles>')
        for name, content in more.items():
            file.writestr(f"word/{name}.xml", f'<w:{name} xmlns:w="{namespace}">{content}</w:{name}>')
    return target.getvalue()


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_the_structure_of_a_document(tmp_path: Path):
    path = write_docx(
        tmp_path / "a.docx",
        Heading("Handbook", 0),
        "Before.",
        Heading("Chapter", 1),
        Heading("Section", 2),
        Item("one"),
        Item("two"),
        Table((("a", "b", "c"), ("1", "", "3"))),
        "After.",
        title="The Handbook",
    )
    document = families.parse(path, Limits())
    check(document)
    assert (document.format, document.title) == ("docx", "The Handbook")
    assert said(document) == [
        ("heading", "Handbook"),
        ("paragraph", "Before."),
        ("heading", "Chapter"),
        ("heading", "Section"),
        ("list_item", "one"),
        ("list_item", "two"),
        ("table_row", "a | b | c"),
        ("table_row", "1 |  | 3"),
        ("paragraph", "After."),
    ]
    assert [block.level for block in document.pages[0].blocks if block.kind == "heading"] == [1, 2, 3]


def test_a_title_that_only_a_program_can_have_set_is_none(tmp_path: Path):
    path = write_docx(tmp_path / "a.docx", "Text.", title="Microsoft Word - report.doc")
    assert families.parse(path, Limits()).title == ""


def test_text_boxes_notes_and_content_controls_are_read_in_place(parsed):
    body = (
        "<w:sdt><w:sdtContent>" + paragraph("In a control.") + "</w:sdtContent></w:sdt>"
        "<w:p><w:r><w:t>Main</w:t><w:footnoteReference w:id='2'/><w:footnoteReference w:id='3'/></w:r>"
        "<w:r><w:pict><w:txbxContent>"
        + paragraph("In a box.")
        + "</w:txbxContent></w:pict></w:r></w:p>"
        + paragraph("End.")
    )
    notes = (
        f'<w:footnote w:id="0" w:type="separator"/><w:footnote w:id="2">{paragraph("A note.")}</w:footnote>'
        f'<w:footnote w:id="3" w:type="normal">{paragraph("Another.")}</w:footnote>'
    )
    document = parsed("a.docx", archive(body, footnotes=notes))
    texts = [text for _, text in said(document)]
    assert texts == ["In a control.", "Main", "In a box.", "A note.", "Another.", "End."]


DRAWN = '<w:r><w:drawing><wp:inline xmlns:wp="wp"><wp:docPr id="1" name="Picture 1" {0}/></wp:inline></w:drawing></w:r>'


def test_comments_follow_the_paragraph_or_the_table_they_are_in(parsed):
    remark = "<w:r><w:commentReference w:id='{0}'/></w:r>"
    body = (
        f"<w:p><w:r><w:t>The rent is due.</w:t></w:r>{remark.format(0)}{remark.format(1)}</w:p>"
        f"<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r>{remark.format(2)}</w:p></w:tc>"
        f"<w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>" + paragraph("End.")
    )
    said_by = '<w:comment w:id="{0}" w:author="{1}">{2}</w:comment>'
    comments = (
        said_by.format(0, "Ada", paragraph("Since") + paragraph("when?"))
        + said_by.format(1, "Author", paragraph("Since May."))
        + said_by.format(2, "Ada", paragraph("Which a?"))
        + said_by.format(3, "Ada", paragraph("Said of nothing."))
    )
    assert said(parsed("a.docx", archive(body, comments=comments))) == [
        ("paragraph", "The rent is due."),
        ("paragraph", "Comment by Ada: Since when?"),
        ("paragraph", "Comment: Since May."),
        ("table_row", "a | b"),
        ("paragraph", "Comment by Ada: Which a?"),
        ("paragraph", "End."),
    ]


def test_a_comment_on_a_line_of_a_listing_leaves_it_whole(parsed):
    lines = [paragraph(line, "c") for line in ("let a = 1;", "let b = 2;")]
    lines[0] = lines[0].replace("</w:p>", "<w:r><w:commentReference w:id='0'/></w:r></w:p>")
    styles = '<w:style w:styleId="c"><w:name w:val="Code"/></w:style>'
    comments = f'<w:comment w:id="0" w:author="Ada">{paragraph("Why one?")}</w:comment>'
    assert said(parsed("a.docx", archive("".join(lines), styles=styles, comments=comments))) == [
        ("code", "let a = 1;\nlet b = 2;"),
        ("paragraph", "Comment by Ada: Why one?"),
    ]


def test_a_picture_says_what_stands_for_it(parsed):
    old = '<w:r><w:pict><v:shape xmlns:v="v" alt="An okapi in the rain"/></w:pict></w:r>'
    body = (
        f"<w:p><w:r><w:t>Above.</w:t></w:r>{DRAWN.format('descr=&quot;A map of the flat&quot;')}</w:p>"
        f"<w:p>{DRAWN.format('descr=&quot;IMG_20240511.jpg&quot;')}{old}</w:p>"
    ).replace("&quot;", '"')
    assert said(parsed("a.docx", archive(body))) == [
        ("paragraph", "Above."),
        ("paragraph", "Picture: A map of the flat"),
        ("paragraph", "Picture: An okapi in the rain"),
    ]


def test_a_diagram_is_read_where_it_is_shown(parsed):
    drawing = (
        '<w:p><w:r><w:t>Above.</w:t></w:r><w:r><w:drawing><d:relIds xmlns:d="d" xmlns:r="r" r:dm="rId9"/></w:drawing>'
        "</w:r></w:p>" + paragraph("Below.")
    )
    file = io.BytesIO(archive(drawing))
    with zipfile.ZipFile(file, "a") as package:
        relation = '<Relationship Id="rId9" Type="x/diagramData" Target="diagrams/data1.xml"/>'
        package.writestr("word/_rels/document.xml.rels", f"<Relationships>{relation}</Relationships>")
        points = "".join(f"<pt><t><p><r><t>{word}</t></r></p></t></pt>" for word in ("foo", "bar"))
        package.writestr("word/diagrams/data1.xml", f"<dataModel><ptLst>{points}<pt/></ptLst></dataModel>")

    assert said(parsed("a.docx", file.getvalue())) == [
        ("paragraph", "Above."),
        ("list_item", "foo"),
        ("list_item", "bar"),
        ("paragraph", "Below."),
    ]


def numbered(text: str, level: int | str = 0, number: int | str = 1, mark: str = "") -> str:
    place = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    return f"<w:p><w:pPr>{place}{mark}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def numbering(level: int, form: str, pattern: str, start: int | str = 1, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>{more}'
        f'<w:lvlText w:val="{pattern}"/></w:lvl>'
    )


STYLED = '<w:pStyle w:val="Art"/>'
LISTS = (
    f'<w:abstractNum w:abstractNumId="7">{numbering(0, "decimal", "§ %1")}{numbering(1, "decimal", "%1.%2")}'
    f"{numbering(2, 'lowerLetter', '(%3)')}</w:abstractNum>"
    f'<w:abstractNum w:abstractNumId="8">{numbering(0, "upperRoman", "%1.", 3)}'
    f"{numbering(1, 'bullet', 'o')}{numbering(2, 'decimal', '%1.%3', more='<w:isLgl/>')}</w:abstractNum>"
    f'<w:abstractNum w:abstractNumId="9">{numbering(0, "decimal", "Art. %1", more=STYLED)}</w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
    '</w:lvlOverride></w:num><w:num w:numId="4"><w:abstractNumId w:val="8"/></w:num>'
    '<w:num w:numId="5"><w:abstractNumId w:val="9"/></w:num>'
)


def test_numbers_that_word_counts_stand_before_their_paragraphs(parsed):
    rent = numbered("Rent", 0) + numbered("is paid monthly", 1) + numbered("and on time", 1) + numbered("always", 2)
    notice = numbered("Gone", 0, mark="<w:rPr><w:del/></w:rPr>") + numbered("Notice", 0) + numbered("in months", 1)
    table = f"<w:tbl><w:tr><w:tc>{numbered('Costs', 0, 2)}</w:tc><w:tc>{paragraph('90')}</w:tc></w:tr></w:tbl>"
    others = numbered("Anew", 0, 3) + numbered("Third", 0, 4) + numbered("dot", 1, 4) + numbered("deep", 2, 4)
    styled = '<w:style w:styleId="Art"><w:name w:val="Article"/><w:pPr><w:numPr><w:numId w:val="5"/></w:numPr></w:pPr>'
    document = parsed(
        "a.docx",
        archive(
            rent
            + notice
            + table
            + others
            + paragraph("Scope", "Art")
            + paragraph("Terms", "Art")
            + numbered("-", 0, 0),
            styles=f"{styled}</w:style>",
            numbering=LISTS,
        ),
    )
    assert [text for _, text in said(document)] == [
        "§ 1 Rent",
        "1.1 is paid monthly",
        "1.2 and on time",
        "(a) always",
        "Gone",
        "§ 2 Notice",
        "2.1 in months",
        "§ 3 Costs | 90",
        "§ 1 Anew",
        "III. Third",
        "dot",
        "3.1 deep",
        "Art. 1 Scope",
        "Art. 2 Terms",
        "-",
    ]


def test_a_level_that_only_some_levels_begin_anew_counts_on_after_others(parsed):
    levels = (
        numbering(0, "decimal", "%1"),
        numbering(1, "decimal", "%1.%2"),
        numbering(2, "decimal", "Listing %1-%3", more='<w:lvlRestart w:val="1"/>'),
    )
    lists = f'<w:abstractNum w:abstractNumId="1">{"".join(levels)}</w:abstractNum>'
    body = "".join(numbered("x", level) for level in (0, 1, 2, 1, 2, 0, 2))
    lists += '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    assert [text.removesuffix(" x") for _, text in said(parsed("a.docx", archive(body, numbering=lists)))] == [
        *("1", "1.1", "Listing 1-1", "1.2", "Listing 1-2", "2", "Listing 2-1")
    ]


def test_a_level_that_word_does_not_have_is_its_last(parsed):
    lists = f'<w:abstractNum w:abstractNumId="1">{numbering(8, "lowerRoman", "%9)")}</w:abstractNum>'
    lists += '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    body = numbered("nine", 8) + numbered("none", 10**9)
    assert [text for _, text in said(parsed("a.docx", archive(body, numbering=lists)))] == ["i) nine", "ii) none"]


def test_numbers_that_are_none_or_without_end_lose_nothing(parsed):
    lists = f'<w:abstractNum w:abstractNumId="1">{numbering(0, "decimal", "%1.", "²")}</w:abstractNum>'
    lists += '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    endless = "7" * 5000
    body = numbered("one", 0) + numbered("two", "²") + numbered("deep", endless) + numbered("none", 0, endless)
    document = parsed("a.docx", archive(body, numbering=lists))
    assert [text for _, text in said(document)] == ["1. one", "2. two", "deep", "none"]


def test_what_stands_in_the_margins_of_pages_is_read_once(tmp_path: Path):
    document = docx.Document()
    section = document.sections[0]
    section.different_first_page_header_footer = True
    for header in (section.header, section.first_page_header):
        header.paragraphs[0].text = "Contract No. 77-A"
    section.footer.paragraphs[0].text = "- 1 -"
    section.first_page_footer.paragraphs[0].text = "Draft of May"
    document.add_heading("Scope", 1)
    document.add_paragraph("The words of it.")
    document.save(str(tmp_path / "a.docx"))
    assert said(families.parse(tmp_path / "a.docx", Limits())) == [
        ("paragraph", "Contract No. 77-A"),
        ("paragraph", "Draft of May"),
        ("heading", "Scope"),
        ("paragraph", "The words of it."),
    ]


def test_deleted_text_is_gone_and_alternatives_are_read_once(parsed):
    body = (
        "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:r><w:instrText>PAGE</w:instrText><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t></w:r>"
        "<mc:AlternateContent xmlns:mc='m'><mc:Choice><w:r><w:t> once</w:t></w:r></mc:Choice>"
        "<mc:Fallback><w:r><w:t> twice</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"
    )
    assert said(parsed("a.docx", archive(body))) == [("paragraph", "new\ttab\nline once")]


def test_headings_are_known_by_outline_level_inheritance_and_publishers_names(parsed):
    styles = (
        '<w:style w:styleId="A"><w:name w:val="My Own"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:styleId="B"><w:name w:val="Derived"/><w:basedOn w:val="A"/></w:style>'
        '<w:style w:styleId="C"><w:name w:val="HeadC"/><w:basedOn w:val="C"/></w:style>'
        '<w:style w:styleId="T"><w:name w:val="toc 1"/></w:style>'
    )
    body = "".join(paragraph(f"In {style}", style) for style in "ABCT")
    document = parsed("a.docx", archive(body, styles=styles))
    assert [(block.kind, block.level) for block in document.pages[0].blocks] == [
        ("heading", 2),
        ("heading", 2),
        ("heading", 3),
    ]


def test_paragraphs_in_a_code_style_are_one_listing(parsed):
    styles = '<w:style w:styleId="K"><w:name w:val="CodeWide"/></w:style>'
    lines = "".join(paragraph(line, "K") for line in ("fn main() {", "}"))
    assert said(parsed("a.docx", archive(paragraph("See:") + lines, styles=styles))) == [
        ("paragraph", "See:"),
        ("code", "fn main() {\n}"),
    ]


def test_a_frame_of_one_column_is_no_table(parsed):
    body = f"<w:tbl><w:tr><w:tc>{paragraph('Boxed.')}{paragraph('Text.')}</w:tc></w:tr></w:tbl>"
    assert said(parsed("a.docx", archive(body))) == [("paragraph", "Boxed."), ("paragraph", "Text.")]


def test_strict_office_files_and_byte_order_marks_are_read(parsed):
    assert said(parsed("a.docx", archive(paragraph("Strict."), STRICT))) == [("paragraph", "Strict.")]
    assert said(parsed("b.docx", archive(paragraph("Marked."), prologue=b"\xef\xbb\xbf"))) == [("paragraph", "Marked.")]


def test_entities_are_not_resolved(parsed, tmp_path: Path):
    (tmp_path / "secret.txt").write_text("secret")
    prologue = f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]>'.encode()
    document = parsed("a.docx", archive(paragraph("a &x; b"), prologue=prologue))
    assert "secret" not in document.pages[0].text


def test_an_empty_document_says_so(tmp_path: Path):
    with pytest.raises(DocumentEmpty):
        families.parse(write_docx(tmp_path / "a.docx"), Limits())


def test_a_torn_document_says_so(tmp_path: Path, parsed):
    whole = write_docx(tmp_path / "whole.docx", "Text. " * 50).read_bytes()
    for torn in (whole[: len(whole) // 2], archive("<w:p>"), archive("").replace(b"PK\x01\x02", b"PK\x01\x03")):
        with pytest.raises(DocumentUnreadable, match="damaged"):
            parsed("a.docx", torn)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path):
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", b" " * (70 * 2**20))
    with pytest.raises(DocumentTooLarge, match=r"unpacks to 70 MB"):
        families.parse(path, Limits())
    path.write_bytes(archive(paragraph("Text.")))
    with pytest.raises(DocumentTooLarge, match=r"more than the limit of 10 bytes"):
        families.parse(path, Limits(max_unpacked_bytes=10))


def test_a_document_whose_parts_are_locked_says_so(parsed):
    flagged = archive(paragraph("Text.")).replace(b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\x01\0")
    with pytest.raises(DocumentEncrypted, match="password"):
        parsed("b.docx", flagged)


def test_python_docx_reads_the_same_words(tmp_path: Path):
    path = write_docx(tmp_path / "a.docx", Heading("One", 1), "Two words.", Item("three"))
    ours = families.parse(path, Limits())
    assert [text for _, text in said(ours)] == [part.text for part in docx.Document(str(path)).paragraphs]
