"""Tests for engine.library.parsers.msg, compound and compressed_rtf."""

from __future__ import annotations

import datetime as dt
import struct

import pytest

from engine.errors import DocumentUnreadable
from engine.library.parsers.compressed_rtf import unpacked
from tests.helpers.compound import compound
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

SENT = 0x0039
# In steps of 100 ns since 1601.
TICKS = (dt.datetime(2024, 3, 5, 14, 2) - dt.datetime(1601, 1, 1)) // dt.timedelta(microseconds=1) * 10


def text(tag: str, content: str) -> dict[str, bytes]:
    return {f"__substg1.0_{tag}001F": content.encode("utf-16-le")}


def fixed(*properties: tuple[int, int, bytes], header_bytes: int = 32) -> dict[str, bytes]:
    entries = (struct.pack("<HHI8s", kind, tag, 6, value) for tag, kind, value in properties)
    return {"__properties_version1.0": bytes(header_bytes) + b"".join(entries)}


def message(header_bytes: int = 32, **more) -> dict:
    return {
        **fixed((SENT, 0x40, struct.pack("<Q", TICKS)), header_bytes=header_bytes),
        **text("0037", "Quarterly figures"),
        **text("0C1A", "Ada Lovelace"),
        **text("5D01", "ada@example.org"),
        **text("0E04", "Charles; Mary"),
        **text("1000", "The figures are attached.\r\n\r\nAda"),
        **more,
    }


def attachment(name: str, data: bytes) -> dict:
    return {**fixed(header_bytes=8), **text("3707", name), "__substg1.0_37010102": data}


def test_a_message_reads_like_a_mail(parsed):
    document = parsed("a.msg", compound(message()))
    assert (document.format, document.title) == ("mail", "Quarterly figures")
    assert [page.number for page in document.pages] == [None]
    assert said(document) == [
        ("heading", "Quarterly figures"),
        (
            "paragraph",
            "From: Ada Lovelace <ada@example.org>\nTo: Charles; Mary\nDate: 2024-03-05 14:02 UTC",
        ),
        ("paragraph", "The figures are attached."),
        ("paragraph", "Ada"),
    ]


def test_attachments_are_read_and_named(parsed):
    tree = message()
    tree["__attach_version1.0_#00000000"] = attachment("notes.md", b"# Notes\n\nRemember the milk.")
    tree["__attach_version1.0_#00000001"] = attachment("a.bin", b"\0\1\2" * 50)
    inner = message(24)
    tree["__attach_version1.0_#00000002"] = {
        **fixed(header_bytes=8), **text("3001", "An older one"), "__substg1.0_3701000D": inner,
    }  # fmt: skip
    document = parsed("a.msg", compound(tree))
    assert [page.place for page in document.pages] == [
        "message",
        "attachment “notes.md”",
        "attachment “An older one”",
    ]
    assert "Attachments: notes.md, a.bin, An older one" in document.pages[0].text
    assert ("paragraph", "Remember the milk.") in said(document, 1)
    assert said(document, 2)[0] == ("heading", "Quarterly figures")
    assert document.remark.startswith("1 part could not be read in full: a.bin (This is a file of binary data")


def test_a_body_that_is_only_html_or_rtf_is_read(parsed):
    tree = message()
    del tree["__substg1.0_1000001F"]
    html = "<html><body><p>Caf\u00e9 <b>terrace</b></p></body></html>".encode("cp1252")
    codepage = (0x3FDE, 3, struct.pack("<II", 1252, 0))
    document = parsed("a.msg", compound({**tree, **fixed(codepage), "__substg1.0_10130102": html}))
    assert said(document)[-1] == ("paragraph", "Café terrace")
    rtf = rb"{\rtf1\ansi Only \b formatted\b0 .\par}"
    packed = struct.pack("<IIII", len(rtf) + 12, len(rtf), 0x414C454D, 0) + rtf
    document = parsed("b.msg", compound({**tree, "__substg1.0_10090102": packed}))
    assert said(document)[-1] == ("paragraph", "Only formatted.")


def test_a_message_cut_short_is_refused_with_a_sentence(parsed):
    whole = compound(message())
    with pytest.raises(DocumentUnreadable, match="The message is damaged"):
        parsed("a.msg", whole[:700])


def test_compressed_rtf_says_what_the_specification_says():
    # The examples of [MS-OXRTFCP], 4.1 and 4.2.
    simple = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert unpacked(simple, 1000) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    crossing = bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")
    assert unpacked(crossing, 1000) == b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"
    assert unpacked(crossing, 5) == b"{\\rtf"
    assert unpacked(b"no compressed RTF at all", 1000) == unpacked(b"", 1000) == b""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("docs/markitdown/markitdown/tests/test_files/test_outlook_msg.msg", "This is the body of the test email"),
        ("docs/textract/msg/raw_text.msg", "experiment with the MS Outlook MSG Extractor"),
    ],
)
def test_real_messages_are_read(parsed, name: str, words: str):
    assert words in parsed("real.msg", shared_file(name).read_bytes()).pages[0].text
