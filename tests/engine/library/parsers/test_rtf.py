"""Tests for engine.library.parsers.rtf, rtf_words and paragraphs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from engine.errors import DocumentEmpty
from tests.helpers.parsing import said
from tests.helpers.shared_data import SHARED_DATA, shared_file

FONTS = r"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}{\f2\fcharset128 Mincho;}{\f3\cpg1250 X;}}"


def rtf(body: str, head: str = "") -> str:
    return r"{\rtf1\ansi\ansicpg1252\deff0" + FONTS + head + "\n" + body + "}"


def texts(document) -> list[str]:
    return [text for _, text in said(document)]


def test_the_structure_of_a_document(parsed):
    head = (
        r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 heading 2;}{\s9 Title;}{\*\cs10 Heading 9;}}"
        r"{\info{\title The {\b Handbook}}{\author heading}}"
    )
    body = (
        r"\pard\s9 Handbook\par\pard\s1 Chapter\par\pard\s2 Section\par\pard Body text"
        "\r\n"
        r" goes on.\par {\listtext\bullet\tab}\pard\ls1 one\par\pard\ls1 two\par"
        r"\pard\outlinelevel2 Third\par\pard After."
    )
    document = parsed("a.rtf", rtf(body, head))
    assert (document.format, document.title) == ("rtf", "The Handbook")
    assert said(document) == [
        ("heading", "Handbook"),
        ("heading", "Chapter"),
        ("heading", "Section"),
        ("paragraph", "Body text goes on."),
        ("list_item", "one"),
        ("list_item", "two"),
        ("heading", "Third"),
        ("paragraph", "After."),
    ]
    assert [block.level for block in document.pages[0].blocks] == [1, 2, 3, 0, 0, 0, 4, 0]


def test_tables_are_rows_and_nested_ones_too(parsed):
    body = (
        r"Before.\par\trowd\intbl a\par b\cell\cell c\cell\row\pard Between.\par"
        r"\trowd\intbl x\nestcell y\nestcell{\*\nesttableprops\trowd\nestrow}{\nonesttables\par}\intbl z\cell\row"
    )
    assert said(parsed("a.rtf", rtf(body))) == [
        ("paragraph", "Before."),
        ("table_row", "a b |  | c"),
        ("paragraph", "Between."),
        ("table_row", "x | y"),
        ("table_row", "z"),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"\'e4\'f6 caf\'e9", "äö café"),
        (r"\f1 \'cf\'f0\'e8\'e2\'e5\'f2 \f0 \'e4", "Привет ä"),
        (r"\f2 \'83\'65\'83X\'83g", "テスト"),
        (r"\f3 \'b3\'f3d\'9f", "łódź"),
        (r"\u1055?\u1088?\u1080?", "При"),
        (r"\uc2\u20320\'c4\'e3\u22909\'ba\'c3!", "你好!"),
        (r"\uc0\u233 t\u233", "été"),
        (r"\u-10179?\u-8704?", "😀"),
        (r"{\upr{old}{\*\ud{new}}}", "new"),
        (r"a\~b\_c\-d\{e\}\\", "a\u00a0b-cd{e}\\"),
        (r"a\emdash b\ldblquote c\rdblquote\line d\tab e", "a—b“c”\nd\te"),
    ],
)
def test_signs_in_any_encoding(parsed, body: str, text: str):
    assert texts(parsed("a.rtf", rtf(body))) == [text]


@pytest.mark.parametrize(
    "hidden",
    [
        r"{\v secret}",
        r"\v secret\v0 ",
        r"{\deleted secret}",
        r"{\*\unknown secret}",
        r"{\header secret}",
        r"{\field{\*\fldinst secret}}",
        r"{\*\bkmkstart secret}",
        r"{\pict\bin6 secret}",
        r"{\*\shppict{\pict 7365637265}}",
        r"{\shp{\*\shpinst{\sp{\sn secret}{\sv 1}}}}",
    ],
)
def test_what_is_hidden_deleted_or_for_programs_is_left_out(parsed, hidden: str):
    assert texts(parsed("a.rtf", rtf(rf"Shown{hidden} too.\par"))) == ["Shown too."]


def test_fields_notes_and_boxes_show_their_text(parsed):
    body = (
        r'See {\field{\*\fldinst HYPERLINK "http://x"}{\fldrslt this}}{\footnote A note\par of two lines.}.\par'
        r"{\shp{\*\shpinst{\shptxt In a box.\par}}}After.\par"
    )
    assert texts(parsed("a.rtf", rtf(body))) == ["See this.", "A note\nof two lines.", "After.", "In a box."]


def test_braces_too_many_and_too_few_are_forgiven(parsed):
    assert texts(parsed("a.rtf", rtf(r"One.\par}Two.\par{\*\themedata 00}"))) == ["One.", "Two."]
    assert texts(parsed("b.rtf", rtf(r"{\b One.\par {Two.")[:-1])) == ["One.", "Two."]
    assert texts(parsed("c.rtf", rtf(r"One.\par\'zz\x99999999999 Two.") + "\\")) == ["One.", "zz9 Two."]


def test_an_rtf_of_nothing_is_empty(parsed):
    with pytest.raises(DocumentEmpty):
        parsed("a.rtf", rtf(r"\par"))


def real_documents() -> list[str]:
    return sorted(path.stem for path in (SHARED_DATA / "docs/striprtf/text").glob("*.txt"))


@pytest.mark.parametrize("name", real_documents() or ["hello"])
def test_real_documents_say_what_others_read_in_them(parsed, name: str):
    content = shared_file(f"docs/striprtf/rtf/{name}.rtf").read_bytes()
    expected = _words(shared_file(f"docs/striprtf/text/{name}.txt"))
    try:
        found = parsed("real.rtf", content).pages[0].text
    except DocumentEmpty:
        found = ""
    missing = expected - Counter(re.findall(r"\w+", found))
    # The others show where a link leads, and a list's numbers.
    allowed = {"hyperlink", "hyperlinks", "mac_textedit_hyperlink", "issue_63", "specialchars"}
    assert not missing or name in allowed


def _words(path: Path) -> Counter[str]:
    return Counter(re.findall(r"\w+", path.read_text(encoding="utf-8")))
