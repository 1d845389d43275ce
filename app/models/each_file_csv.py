"""What every file answered as CSV, for a spreadsheet; pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from app.models.documents import shown
from app.models.turns import TurnView

HEADER = ("file", "state", "answer", "found at", "seconds", "model")
# A spreadsheet treats a cell that begins like this as a formula, and the text comes from a document. Some accept the
# wide forms as well.
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")


def csv_of(rows: Iterable[tuple[str, TurnView, Sequence[str]]], decimal_point: str = ".") -> str:
    """Returns a line for each file, including waiting ones; a cell that could be a formula begins with an apostrophe.

    Where numbers have a decimal comma, spreadsheets split lines at semicolons only.
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";" if decimal_point == "," else ",")
    writer.writerow(HEADER)
    for path, view, places in rows:
        # A text that is still being written would read like a complete answer.
        answers = {"finished": view.text, "failed": view.error_sentence}
        state = "cut off" if view.is_cut_off else view.state if view.state in answers else "waiting"
        seconds = f"{view.timings.total_s:.1f}".replace(".", decimal_point) if view.timings is not None else ""
        cells = (shown(path), state, answers.get(view.state, ""), "; ".join(places))
        writer.writerow([*map(_harmless, cells), seconds, _harmless(view.model or "")])
    return text.getvalue()


def _harmless(cell: str) -> str:
    is_formula = cell.startswith(_FORMULA_STARTS) or cell.lstrip().startswith(_FORMULA_STARTS)
    return f"'{cell}" if is_formula else cell
