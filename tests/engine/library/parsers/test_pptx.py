"""Tests for engine.library.parsers.pptx."""

from __future__ import annotations

import base64
import io
import zipfile

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from engine.errors import DocumentEmpty, DocumentUnreadable
from engine.library.chunker import chunk, estimate_tokens
from tests.helpers.packages import packed
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

TITLE_AND_BODY, TITLE_ONLY, BLANK = 1, 5, 6
# A dot.
PNG = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
BOX = (Inches(1), Inches(1), Inches(4), Inches(1))


def saved(show) -> bytes:
    target = io.BytesIO()
    show.save(target)
    return target.getvalue()


def slide(show, layout: int, title: str = ""):
    added = show.slides.add_slide(show.slide_layouts[layout])
    if title:
        added.shapes.title.text = title
    return added


def test_a_slide_is_a_page_with_its_title_body_table_and_notes(parsed):
    show = Presentation()
    show.core_properties.title = "Plan"
    first = slide(show, TITLE_AND_BODY, "Where we\vstand")
    first.placeholders[1].text = "one\ntwo"
    first.shapes.add_textbox(*BOX).text_frame.text = "In a box."
    table = first.shapes.add_table(2, 2, *BOX).table
    for (row, column), text in zip(((0, 0), (0, 1), (1, 0), (1, 1)), ("a", "b", "1", "2"), strict=True):
        table.cell(row, column).text = text
    first.notes_slide.notes_text_frame.text = "Say it slowly."
    second = slide(show, BLANK)
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(*BOX).text_frame.text = "In a group."
    document = parsed("a.pptx", saved(show))
    assert (document.format, document.title) == ("pptx", "Plan")
    assert [(page.number, page.place) for page in document.pages] == [(1, "slide 1"), (2, "slide 2")]
    assert said(document) == [
        ("heading", "Where we\nstand"),
        ("list_item", "one"),
        ("list_item", "two"),
        ("paragraph", "In a box."),
        ("table_row", "a | b"),
        ("table_row", "1 | 2"),
        ("heading", "Notes"),
        ("paragraph", "Say it slowly."),
    ]
    assert said(document, 1) == [("paragraph", "In a group.")]


def test_pictures_and_groups_say_what_stands_for_them(parsed):
    show = Presentation()
    shapes = slide(show, TITLE_ONLY, "Animals").shapes
    drawn = shapes.add_picture(io.BytesIO(PNG), *BOX)
    drawn._element.nvPicPr.cNvPr.set("descr", "A close up of an okapi Description automatically generated")
    group = shapes.add_group_shape()
    group._element.nvGrpSpPr.cNvPr.set("descr", "Where they live")
    group.shapes.add_textbox(*BOX).text_frame.text = "Congo"
    shapes.add_picture(io.BytesIO(PNG), *BOX)._element.nvPicPr.cNvPr.set("descr", "logo final.png")
    assert said(parsed("a.pptx", saved(show))) == [
        ("heading", "Animals"),
        ("paragraph", "Picture: A close up of an okapi"),
        ("paragraph", "Picture: Where they live"),
        ("paragraph", "Congo"),
    ]


RELATION = '<Relationship Id="{0}" Type="http://schemas/relationships/{1}" Target="{2}"/>'
OLD_COMMENTS = '<cmLst><cm authorId="0" dt="x" idx="1"><pos x="1" y="1"/><text>Too\nmany words.</text></cm></cmLst>'
NEW_COMMENTS = (
    '<cmLst><cm id="c" authorId="{{A}}"><replyLst><reply id="r" authorId="{{B}}"><txBody>{1}</txBody></reply>'
    "</replyLst><txBody>{0}</txBody></cm></cmLst>"
).format(*(f"<p><r><t>{text}</t></r></p>" for text in ("Which year?", "2024.")))


@pytest.mark.parametrize(
    ("comments", "authors", "kind", "expected"),
    [
        (OLD_COMMENTS, '<l><cmAuthor id="0" name="Ada"/></l>', "commentAuthors", ["Comment by Ada: Too many words."]),
        (
            NEW_COMMENTS,
            '<l><author id="{A}" name="Ada"/><author id="{B}" name="Grace"/></l>',
            "authors",
            ["Comment by Ada: Which year?", "Comment by Grace: 2024."],
        ),
    ],
)
def test_comments_stand_below_their_slide(parsed, comments: str, authors: str, kind: str, expected: list[str]):
    show = Presentation()
    slide(show, TITLE_ONLY, "Costs")
    slide(show, TITLE_ONLY, "Other")
    file = io.BytesIO(saved(show))
    with zipfile.ZipFile(file) as package:
        parts = {name: package.read(name).decode("latin-1") for name in package.namelist()}
    for rels, relation in (
        ("ppt/slides/_rels/slide1.xml.rels", RELATION.format("rId90", "comments", "../comments/one.xml")),
        ("ppt/_rels/presentation.xml.rels", RELATION.format("rId91", kind, "who.xml")),
    ):
        parts[rels] = parts[rels].replace("</Relationships>", f"{relation}</Relationships>")
    parts |= {"ppt/comments/one.xml": comments, "ppt/who.xml": authors}
    document = parsed("a.pptx", packed({name: text.encode("latin-1") for name, text in parts.items()}))
    assert said(document) == [
        ("heading", "Costs"),
        ("heading", "Comments"),
        *(("paragraph", text) for text in expected),
    ]
    assert said(document, 1) == [("heading", "Other")]
    assert document.pages[0].place == "slide 1"


def test_a_slide_without_a_title_is_under_none(parsed):
    show = Presentation()
    slide(show, TITLE_ONLY, "Costs")
    slide(show, BLANK).shapes.add_textbox(*BOX).text_frame.text = "Something else."
    chunks = chunk(parsed("a.pptx", saved(show)), estimate_tokens, 100, 10)
    assert [(one.place, one.heading) for one in chunks] == [("slide 1", "Costs"), ("slide 2", "")]


def test_a_chart_says_its_figures(parsed):
    show = Presentation()
    data = CategoryChartData()
    data.categories = ["2023", "2024"]
    data.add_series("North", (1.5, 2))
    slide(show, BLANK).shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, *BOX, data)
    assert said(parsed("a.pptx", saved(show))) == [("table_row", "| 2023 | 2024"), ("table_row", "North | 1.5 | 2")]


def test_slides_come_in_the_order_of_the_show(parsed):
    show = Presentation()
    for title in ("one", "two", "three"):
        slide(show, TITLE_ONLY, title)
    order = show.slides._sldIdLst
    order.insert(0, order[2])
    assert [page.text for page in parsed("a.pptx", saved(show)).pages] == ["three", "one", "two"]


def test_shows_and_templates_and_macros_are_presentations_by_any_name(parsed):
    show = Presentation()
    slide(show, TITLE_ONLY, "Title")
    for name in ("a.ppsx", "a.potx", "a.pptm", "a.txt"):
        assert parsed(name, saved(show)).format == "pptx"


def test_a_show_of_nothing_is_empty_and_a_broken_one_damaged(parsed):
    with pytest.raises(DocumentEmpty):
        parsed("a.pptx", saved(Presentation()))
    with pytest.raises(DocumentUnreadable, match="the list of its slides is missing"):
        parsed("a.pptx", packed({"ppt/presentation.bin": "x"}))
    with pytest.raises(DocumentUnreadable, match="The presentation is damaged"):
        parsed("a.pptx", packed({"ppt/presentation.xml": "<p:pres"}))


def test_slides_are_found_even_where_their_list_is_lost(parsed):
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    page = (
        f'<p:sld xmlns:p="p" xmlns:a="{drawing}"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>Slide %d</a:t></a:r>'
        "</a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    slides = {f"ppt/slides/slide{number}.xml": page % number for number in (10, 9, 1)}
    document = parsed("a.pptx", packed({"ppt/presentation.xml": "<presentation/>", **slides}))
    assert [page.text for page in document.pages] == ["Slide 1", "Slide 9", "Slide 10"]


def test_a_real_presentation_is_read(parsed):
    content = shared_file("docs/markitdown/markitdown/tests/test_files/test.pptx").read_bytes()
    document = parsed("real.pptx", content)
    assert len(document.pages) == 6
    assert "1b92870d-e3b5-4e65-8153-919f4ff45592" in document.pages[2].text
