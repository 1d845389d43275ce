"""Excel workbooks in one XML file ("XML Spreadsheet 2003"), as programs write them under the name .xls."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers.elements import attribute, child, children, whole_number
from engine.library.parsers.limits import Limits
from engine.library.parsers.number_format import GENERAL, day, shown
from engine.library.parsers.sheets import Row, Sheets

_MAX_COLUMNS = 16_384
# Formats that have a name; those of dates are not needed, because such cells have the type DateTime.
_NAMED_FORMATS = {"Percent": "0.00%", "Standard": "#,##0.00", "Fixed": "0.00"}


def parse(path: Path, limits: Limits) -> ParsedDocument:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, recover=True
    )
    root = etree.fromstring(path.read_bytes(), parser)
    if root is None:
        raise DocumentUnreadable("The workbook is damaged: its XML cannot be read.")
    formats = {attribute(style, "ID"): _format(style) for style in children(child(root, "Styles"), "Style")}
    sheets = Sheets(limits)
    for sheet in children(root, "Worksheet"):
        sheets.add(attribute(sheet, "Name"), _rows(sheet, formats))
    return ParsedDocument("xls", "", tuple(sheets.pages), "row")


def _format(style: etree._Element) -> str:
    code = attribute(child(style, "NumberFormat"), "Format")
    return _NAMED_FORMATS.get(code, code) or GENERAL


def _rows(sheet: etree._Element, formats: Mapping[str, str]) -> Iterator[Row]:
    """Yields the rows with their cells in place: an index is written only after empty rows or cells."""
    number = 0
    for row in children(child(sheet, "Table"), "Row"):
        number = _number(row, "Index", number + 1)
        cells: list[str] = []
        for cell in children(row, "Cell"):
            column = min(_number(cell, "Index", len(cells) + 1), _MAX_COLUMNS)
            cells += [""] * (column - 1 - len(cells))
            cells.append(_text(child(cell, "Data"), formats.get(attribute(cell, "StyleID"), GENERAL)))
            cells += [""] * min(_number(cell, "MergeAcross", 0), _MAX_COLUMNS - len(cells))
        yield number, cells
        number += _number(row, "Span", 0)


def _number(element: etree._Element, name: str, otherwise: int) -> int:
    return whole_number(attribute(element, name), otherwise)


def _text(data: etree._Element | None, code: str) -> str:
    if data is None:
        return ""
    said, kind = "".join(map(str, data.itertext())), attribute(data, "Type")
    try:
        if kind == "Number":
            return shown(float(said), code)
        if kind == "DateTime":
            return day(dt.datetime.fromisoformat(said))
    except ValueError:
        return said
    return str(said == "1").upper() if kind == "Boolean" else said
