"""Old and binary Excel workbooks (.xls, .xlsb), and sheets too long to be streamed: through calamine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import python_calamine as calamine

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentEncrypted, DocumentUnreadable
from engine.library.parsers import encrypted
from engine.library.parsers.limits import Limits, needs_password
from engine.library.parsers.number_format import GENERAL, day, shown
from engine.library.parsers.sheets import Row, Sheets
from engine.library.parsers.xls_formats import Formats, formats_of


def parse(path: Path, limits: Limits) -> ParsedDocument:
    try:
        return ParsedDocument("xls", "", pages(path, limits, formats_of(path)), "row")
    except DocumentEncrypted:
        return encrypted.parse(path, limits)


def pages(path: Path, limits: Limits, formats: Mapping[str, Formats]) -> tuple[ParsedPage, ...]:
    """Returns a page for each worksheet.

    Args:
        path: The workbook.
        limits: How many cells it may fill.
        formats: The number formats of each sheet, as far as they are known.

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
                    rows = _rows(book.get_sheet_by_name(about.name), formats.get(about.name, {}))
                    sheets.add(about.name, rows)
    except calamine.PasswordError as error:
        raise needs_password("The workbook", limits) from error
    except calamine.CalamineError as error:
        raise DocumentUnreadable(f"The workbook is damaged: {str(error).rstrip('.')}.") from error
    except OSError as error:
        # Calamine's error for a part that ends too early has no errno; system errors have one.
        if error.errno is not None:
            raise
        raise DocumentUnreadable("The workbook is damaged: a part of it ends too early.") from error
    except BaseException as error:
        # WORKAROUND calamine 0.9: some damage makes its Rust code panic, and a panic is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DocumentUnreadable("The workbook is damaged: its structure cannot be read.") from error
    return tuple(sheets.pages)


def _rows(sheet: Any, formats: Formats) -> Iterator[Row]:
    # Rows begin with the first of the sheet, cells only with the first used column.
    column = sheet.start[1] if sheet.start else 0
    for row, cells in enumerate(sheet.iter_rows()):
        yield row + 1, [_text(cell, formats.get((row, at), GENERAL)) for at, cell in enumerate(cells, start=column)]


def _text(cell: object, code: str) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, (int, float)):
        return shown(float(cell), code)
    return day(cell) if isinstance(cell, (dt.date, dt.time, dt.timedelta)) else ""
