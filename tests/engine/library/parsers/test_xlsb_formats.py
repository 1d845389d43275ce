"""Tests for engine.library.parsers.xlsb_formats, on workbooks that are written here record by record."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.errors import DocumentUnreadable
from engine.library.parsers.archive import opened
from engine.library.parsers.limits import Limits
from engine.library.parsers.number_format import BUILT_IN
from engine.library.parsers.xlsb_formats import formats_of
from tests.helpers.packages import packed
from tests.helpers.parsing import said

GENERAL, PERCENT, MONEY = range(3)
EUROS = '#,##0.00" €"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def varying(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varying(rest) if rest else bytes([low])


def record(kind: int, data: bytes = b"") -> bytes:
    return varying(kind) + varying(len(data)) + data


def text(words: str) -> bytes:
    return struct.pack("<I", len(words)) + words.encode("utf-16-le")


def number(column: int, value: float, style: int) -> bytes:
    return record(5, struct.pack("<IId", column, style | 1 << 24, value))


def row(index: int, *cells: bytes) -> bytes:
    return record(0, struct.pack("<IIH", index, 0, 0) + bytes(7)) + b"".join(cells)


def sheet(*rows: bytes) -> bytes:
    return (
        record(129)
        + record(148, struct.pack("<IIII", 0, 9, 0, 9))
        + record(145)
        + b"".join(rows)
        + record(146)
        + record(130)
    )


def workbook(*sheets: tuple[str, bytes]) -> dict[str, bytes | str]:
    """The parts of a workbook; style 0 is General, 1 a percentage, 2 an amount in euros."""
    names = [f"r{number}" for number in range(len(sheets))]
    listed = b"".join(
        record(156, struct.pack("<II", 0, place) + text(names[place]) + text(name))
        for place, (name, _) in enumerate(sheets)
    )
    styles = (struct.pack("<HH12x", 0, code) for code in (0, 9, 164))
    links = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/worksheet" Target="worksheets/{name}.bin"/>' for name in names
    )
    styled = f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.bin"/>'
    main = f'<Relationship Id="m" Type="{OFFICE}/officeDocument" Target="xl/workbook.bin"/>'
    return {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}">{main}</Relationships>',
        "xl/workbook.bin": record(131) + record(143) + listed + record(144) + record(132),
        "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{RELATIONS}">{links}{styled}</Relationships>',
        "xl/styles.bin": record(278)
        + record(615, struct.pack("<I", 1))
        + record(44, struct.pack("<H", 164) + text(EUROS))
        + record(616)
        # The styles that others are made of are no cell's own.
        + record(626, struct.pack("<I", 1))
        + record(47, struct.pack("<HH12x", 0xFFFF, 10))
        + record(627)
        + record(617, struct.pack("<I", 3))
        + b"".join(record(47, style) for style in styles)
        + record(618)
        + record(279),
        **{f"xl/worksheets/{name}.bin": cells for name, (_, cells) in zip(names, sheets, strict=True)},
    }


def test_numbers_are_shown_as_their_sheet_shows_them(parsed):
    short = record(2, struct.pack("<III", 2, PERCENT, 2 << 2 | 2))
    computed = record(9, struct.pack("<IId", 3, MONEY, 7.5) + struct.pack("<HII", 0, 0, 0))
    cells = sheet(row(2, number(2, 0.25, PERCENT), number(3, 1234.5, MONEY)), row(3, short, computed))
    read = parsed("a.xlsb", packed(workbook(("Übersicht", cells), ("Other", sheet(row(0, number(0, 0.25, GENERAL)))))))
    assert said(read) == [
        ("heading", "Übersicht"),
        ("table_row", "25% | 1,234.50 €"),
        ("table_row", "200% | 7.50 €"),
    ]
    assert [block.line for block in read.pages[0].blocks] == [0, 3, 4]
    assert said(read, 1)[1:] == [("paragraph", "0.25")]


@pytest.mark.parametrize("name", ["xl/workbook.bin", "xl/styles.bin", "xl/worksheets/r0.bin"])
def test_spoiled_formats_are_none_of_the_numbers(tmp_path: Path, name: str):
    good = workbook(("S", sheet(row(2, number(2, 0.25, PERCENT)))))
    part = good[name]
    assert isinstance(part, bytes)
    for at in range(len(part)):
        path = tmp_path / "a.xlsb"
        path.write_bytes(packed({**good, name: part[:at] + b"\xff" + part[at + 1 :]}))
        with opened(path, Limits(), "The workbook") as package:
            found = formats_of(package, "xl/workbook.bin")
        assert {code for of_sheet in found.values() for code in of_sheet.values()} <= {*BUILT_IN.values(), EUROS}


def test_a_workbook_that_is_cut_short_is_damaged(parsed):
    parts = workbook(("S", sheet(row(2, number(2, 0.25, PERCENT)))))
    cells = parts["xl/worksheets/r0.bin"]
    assert isinstance(cells, bytes)
    with pytest.raises(DocumentUnreadable, match="ends too early"):
        parsed("a.xlsb", packed({**parts, "xl/worksheets/r0.bin": cells[:-20]}))
