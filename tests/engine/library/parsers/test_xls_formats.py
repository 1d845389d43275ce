"""Tests for engine.library.parsers.xls_formats, on workbooks that are written here record by record."""

from __future__ import annotations

import contextlib
import struct

import pytest

from engine.errors import DocumentUnreadable
from tests.helpers.compound import compound
from tests.helpers.parsing import said

PERCENT, MONEY, GENERAL = 1, 2, 0
BEGIN, END = 0x0809, 0x000A


def record(kind: int, data: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def begin(kind: int, version: int = 0x0600) -> bytes:
    return record(BEGIN, struct.pack("<HHHHII", version, kind, 0, 0, 0, 0))


def number(row: int, column: int, value: float, style: int) -> bytes:
    return record(0x0203, struct.pack("<HHHd", row, column, style, value))


def whole(value: int) -> int:
    """A number as a short cell holds it."""
    return value << 2 | 2


def workbook(*sheets: tuple[str, bytes], version: int = 0x0600) -> bytes:
    """Sheets of these cells; style 0 is General, 1 a percentage, 2 an amount in euros."""
    money = '#,##0.00" €"'.encode("utf-16-le")
    shared = begin(5, version) + record(0x041E, struct.pack("<HHB", 164, len(money) // 2, 1) + money)
    shared += b"".join(record(0x00E0, struct.pack("<HH16x", 0, code)) for code in (0, 9, 164))
    names = [name.encode("utf-16-le") for name, _ in sheets]
    at = len(shared) + sum(4 + 8 + len(name) for name in names) + len(record(END))
    bodies = b""
    for (_, cells), name in zip(sheets, names, strict=True):
        shared += record(0x0085, struct.pack("<IBBBB", at + len(bodies), 0, 0, len(name) // 2, 1) + name)
        bodies += begin(0x10, version) + cells + record(END)
    return compound({"Workbook": shared + record(END) + bodies})


def test_numbers_are_shown_as_their_sheet_shows_them(parsed):
    shorts = struct.pack("<HH", 4, 3) + struct.pack("<HIHIH", MONEY, whole(1200), GENERAL, whole(7), 4)
    cells = (
        number(2, 3, 0.25, PERCENT)
        + number(2, 4, 1234.5, MONEY)
        + record(0x027E, struct.pack("<HHHI", 3, 3, PERCENT, whole(2)))
        + number(3, 4, 0.5, GENERAL)
        # A chart in the sheet has records of its own.
        + begin(0x20)
        + number(2, 3, 0.25, GENERAL)
        + record(END)
        + record(0x00BD, shorts)
    )
    read = parsed("a.xls", workbook(("Übersicht", cells), ("Other", number(2, 3, 0.25, GENERAL))))
    assert [page.place for page in read.pages] == ["sheet “Übersicht”", "sheet “Other”"]
    assert said(read)[1:] == [
        ("table_row", "25% | 1,234.50 €"),
        ("table_row", "200% | 0.5"),
        ("table_row", "1,200.00 € | 7"),
    ]
    assert [block.line for block in read.pages[0].blocks] == [0, 3, 4, 5]
    assert said(read, 1)[1:] == [("paragraph", "0.25")]


def test_whatever_is_spoiled_it_is_read_or_refused_with_a_sentence(parsed):
    good = workbook(("S", number(2, 3, 0.25, PERCENT)))
    for at in range(512, good.index(struct.pack("<d", 0.25)) + 20, 2):
        with contextlib.suppress(DocumentUnreadable):
            parsed("a.xls", good[:at] + b"\xff\x7f" + good[at + 2 :])


@pytest.mark.parametrize("version", [0x0500, 0x0600])
def test_an_older_workbook_shows_its_numbers_bare(parsed, version: int):
    read = parsed("a.xls", workbook(("S", number(0, 0, 0.25, PERCENT)), version=version))
    assert said(read)[-1][1] == ("25%" if version == 0x0600 else "0.25")
