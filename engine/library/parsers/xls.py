"""Old and binary Excel workbooks (.xls, .xlsb), and sheets too long to be streamed: through calamine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import python_calamine as calamine

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentEncrypted, DocumentUnreadable
from engine.library.parsers import encrypted
from engine.library.parsers.limits import Limits, needs_password
from engine.library.parsers.number_format import day, general
from engine.library.parsers.sheets import Row, Sheets


def parse(path: Path, limits: Limits) -> ParsedDocument:
    try:
        return ParsedDocument("xls", "", pages(path, limits), "row")
    except DocumentEncrypted:
        return encrypted.parse(path, limits)


def pages(path: Path, limits: Limits) -> tuple[ParsedPage, ...]:
    """A page for each sheet of cells.

    Raises:
        DocumentEncrypted: The workbook has a password.
        DocumentUnreadable: It is damaged.
    """
    sheets = Sheets(limits)
    try:
        with open(path, "rb") as stream, calamine.CalamineWorkbook.from_filelike(stream) as book:
            for about in book.sheets_metadata:
                if (
                    about.typ == calamine.SheetTypeEnum.WorkSheet
                    and about.visible != calamine.SheetVisibleEnum.VeryHidden
                ):
                    sheets.add(about.name, _rows(book.get_sheet_by_name(about.name)))
    except calamine.PasswordError as error:
        raise needs_password("The workbook", limits) from error
    except calamine.CalamineError as error:
        raise DocumentUnreadable(f"The workbook is damaged: {str(error).rstrip('.')}.") from error
    except BaseException as error:
        # WORKAROUND calamine 0.9: on some damage its Rust code panics, and a panic is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DocumentUnreadable("The workbook is damaged: its structure cannot be read.") from error
    return tuple(sheets.pages)


def _rows(sheet: Any) -> Iterator[Row]:
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        yield number, [_text(cell) for cell in cells]


def _text(cell: object) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, (int, float)):
        return general(float(cell))
    return day(cell) if isinstance(cell, (dt.date, dt.time, dt.timedelta)) else ""
