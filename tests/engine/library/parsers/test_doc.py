"""Tests for engine.library.parsers.doc and doc_structure."""

from __future__ import annotations

import struct

import pytest

from engine.errors import DocumentEncrypted, DocumentUnreadable, DocumentUnsupported
from tests.helpers.compound import compound
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

IN_TABLE, ROW_END = struct.pack("<HB", 0x2416, 1), struct.pack("<HB", 0x2416, 1) + struct.pack("<HB", 0x2417, 1)
LEVEL_3 = struct.pack("<HB", 0x2640, 2)
LIST = struct.pack("<HH", 0x460B, 1)
# Built-in numbers of the styles that `word` gives its documents, and the bases they inherit from.
NORMAL, HEADING_1, TITLE, OWN_HEADING, CONTENTS = range(5)
STYLES = ((0, 0xFFF), (1, 0), (62, 0), (0xFFE, 1), (19, 0))
TEXT_AT, PAGE_AT = 0x800, 0x1000


def word(
    *paragraphs: tuple,
    flags: int = 0,
    version: int = 0xC1,
    narrow: bool = False,
    footnote: str = "",
    comments: str = "",
    lead: bytes = b"",
) -> bytes:
    """A Word file of paragraphs as (text with its mark, style, differences from the style)."""
    body = [(*one, *(NORMAL, b"")[len(one) - 1 :]) for one in paragraphs]
    notes = [(said, 0, b"") for said in (footnote, comments) if said]
    texts = [text for text, _, _ in body + notes]
    width = 1 if narrow else 2
    data = "".join(texts).encode("cp1252" if narrow else "utf-16-le")
    lengths = [len(text.encode("utf-16-le")) // 2 for text in texts]
    positions = [TEXT_AT + width * sum(lengths[:index]) for index in range(len(texts) + 1)]
    counts = struct.pack("<7I", sum(lengths[: len(body)]), len(footnote), 0, 0, len(comments), 0, 0)
    piece = TEXT_AT * 2 | 0x40000000 if narrow else TEXT_AT
    pieces = b"\x02" + struct.pack("<I", 16) + struct.pack("<II", 0, sum(lengths)) + struct.pack("<HIH", 0, piece, 0)
    runs = struct.pack("<II", positions[0], positions[-1]) + struct.pack("<I", PAGE_AT // 512)
    styles = lead + _styles()
    table = styles + runs + pieces
    main = bytearray(PAGE_AT)
    struct.pack_into("<HH", main, 0, 0xA5EC, version)
    struct.pack_into("<H", main, 0x0A, flags)
    main[0x4C : 0x4C + len(counts)] = counts
    for at, first, length in (
        (0xA2, len(lead), len(styles) - len(lead)),
        (0x102, len(styles), len(runs)),
        (0x1A2, len(styles) + len(runs), len(pieces)),
    ):
        struct.pack_into("<II", main, at, first, length)
    main[TEXT_AT : TEXT_AT + len(data)] = data
    page = _page(positions, [(number, more) for _, number, more in body + notes])
    return compound({"WordDocument": bytes(main) + page, "1Table" if flags & 0x200 else "0Table": table})


def _page(positions: list[int], paragraphs: list[tuple[int, bytes]]) -> bytes:
    """A page of paragraph properties: positions, then where each paragraph's properties are, then these."""
    page = bytearray(512)
    struct.pack_into(f"<{len(positions)}I", page, 0, *positions)
    at = 510
    for index, (number, more) in enumerate(paragraphs):
        properties = struct.pack("<H", number) + more
        half = len(properties) // 2 + 1
        properties = (bytes([half]) + properties).ljust(2 * half, b"\0")
        at -= len(properties)
        page[at : at + len(properties)] = properties
        page[4 * len(positions) + 13 * index] = at // 2
    page[511] = len(paragraphs)
    return bytes(page)


def _styles() -> bytes:
    table = struct.pack("<HHHH", 6, len(STYLES), 10, 0)
    for built_in, base in STYLES:
        style = struct.pack("<HH", built_in, 1 | base << 4) + bytes(6)
        table += struct.pack("<H", len(style)) + style
    return table


def test_the_structure_of_a_document(parsed):
    document = parsed(
        "a.doc",
        word(
            ("Handbook\r", TITLE),
            ("Contents\r", CONTENTS),
            ("Chapter\r", HEADING_1),
            ("Own style\r", OWN_HEADING),
            ("Third level\r", NORMAL, LEVEL_3),
            ("Größe, 漢字, 😀.\r",),
            ("one\r", NORMAL, LIST),
            ("After.\r",),
        ),
    )
    assert document.format == "doc"
    assert said(document) == [
        ("heading", "Handbook"),
        ("heading", "Chapter"),
        ("heading", "Own style"),
        ("heading", "Third level"),
        ("paragraph", "Größe, 漢字, 😀."),
        ("list_item", "one"),
        ("paragraph", "After."),
    ]
    # Under a title, headings stand one level deeper.
    assert [block.level for block in document.pages[0].blocks][:4] == [1, 2, 2, 4]


def test_tables_keep_their_empty_cells(parsed):
    cell = (NORMAL, IN_TABLE)
    document = parsed(
        "a.doc",
        word(
            ("Before.\r",),
            ("a\x07", *cell),
            ("two\r", *cell),
            ("lines\x07", *cell),
            ("\x07", NORMAL, ROW_END),
            ("1\x07", *cell),
            ("\x07", *cell),
            ("3\x07", *cell),
            ("\x07", NORMAL, ROW_END),
            ("After.\r",),
        ),
    )
    assert said(document) == [
        ("paragraph", "Before."),
        ("table_row", "a | two lines"),
        ("table_row", "1 |  | 3"),
        ("paragraph", "After."),
    ]


def test_fields_show_their_result_and_not_their_code(parsed):
    link = 'See \x13 HYPERLINK "http://x" \x14the \x13 REF \x14site\x15\x15 now.\r'
    spanning = ("\x13 TOC \\o \x14First\r", "Second\x15 end\r")
    document = parsed("a.doc", word((link,), *((text,) for text in spanning), ("\x13 PAGE \x15x\x01\x08\x02y\r",)))
    assert [text for _, text in said(document)] == ["See the site now.", "First", "Second end", "xy"]


def test_one_byte_text_in_the_other_table_is_read_with_its_footnotes(parsed):
    document = parsed("a.doc", word(("Caf\u00e9 – “quoted”.\r",), flags=0x200, narrow=True, footnote="A note.\r"))
    assert [text for _, text in said(document)] == ["Café – “quoted”.", "A note."]


def test_what_cannot_be_read_is_refused_with_a_sentence(parsed):
    with pytest.raises(DocumentUnsupported, match="Word 95 or older"):
        parsed("a.doc", word(("x\r",), version=0x65))
    with pytest.raises(DocumentUnreadable, match="its beginning is missing"):
        parsed("a.doc", compound({"WordDocument": b"short"}))
    main = bytearray(0x400)
    struct.pack_into("<HH", main, 0, 0xA5EC, 0xC1)
    with pytest.raises(DocumentUnreadable, match="its tables are missing"):
        parsed("a.doc", compound({"WordDocument": bytes(main)}))
    struct.pack_into("<II", main, 0x1A2, 0, 0xFFFFFF)
    with pytest.raises(DocumentUnreadable, match="it ends too early"):
        parsed("a.doc", compound({"WordDocument": bytes(main), "0Table": b"\x02" + b"\xff" * 20}))


def test_a_document_with_a_password_asks_for_it(parsed):
    # RC4 of [MS-OFFCRYPTO] 2.3.6, in version 1.1: salt, verifier and its hash, none of which fit together.
    header = struct.pack("<HH", 1, 1) + bytes(range(48))
    with pytest.raises(DocumentEncrypted, match="The document needs a password"):
        parsed("a.doc", word(("x\r",), flags=0x100, lead=header))


@pytest.mark.parametrize("name", ["raw_text", "standardized_text"])
def test_real_documents_are_read(parsed, name: str):
    document = parsed("real.doc", shared_file(f"docs/textract/doc/{name}.doc").read_bytes())
    words = document.pages[0].text.split()
    expected = {"raw_text": "I love word documents.", "standardized_text": "the quick brown fox"}[name]
    assert " ".join(words[:4]) == expected


def test_comments_stand_at_the_end(parsed):
    document = parsed(
        "a.doc", word(("Text\x05.\r",), footnote="A note.\r", comments="\x05Which\rtext?\r\x05This one.\r")
    )
    assert said(document) == [
        ("paragraph", "Text."),
        ("paragraph", "A note."),
        ("paragraph", "Comment: Which text?"),
        ("paragraph", "Comment: This one."),
    ]
