"""One question to every file as a table: for each file its answer, where it was found, and its state."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.models.documents import shown
from app.models.run_rows import RunRows
from app.models.turns import TurnState, TurnView
from app.tips import plain_tip

Index = QModelIndex | QPersistentModelIndex
FILE, ANSWER, FOUND_AT, STATE = range(4)

_ANSWER_CHARACTERS = 400
# Markdown marks that a plain-text cell should not show.
_MARKUP = re.compile(r"\*\*|`+|^#+\s+", re.MULTILINE)


class RunTable(QAbstractTableModel):
    """Columns FILE, ANSWER, FOUND_AT, STATE; `view` gives the `TurnView` of a row. Subclasses do the asking."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows = RunRows()

    @property
    def num_files(self) -> int:
        return len(self._rows)

    @property
    def num_answered(self) -> int:
        """Returns how many files have answered or failed."""
        return self._rows.num_answered

    @property
    def num_failed(self) -> int:
        return self._rows.num_failed

    def view(self, row: int) -> TurnView | None:
        return self._rows.views[row] if 0 <= row < len(self._rows) else None

    def answer(self, view: TurnView) -> str:
        """Returns the answer of a file as Markdown, or why there is none; "" while nothing is written."""
        if view.state == "failed":
            return view.error_sentence
        nothing = self.tr("Nothing found in this file.") if view.state == "finished" else ""
        return view.text if view.text.strip() else nothing

    def remark(self, view: TurnView) -> str:
        """Returns a remark to show with an answer; "" for none."""
        cut_off = self.tr("This answer was cut off. The settings allow longer ones.")
        return cut_off if view.is_cut_off else ""

    def path(self, row: int) -> str:
        """Returns the path of a row's file."""
        return self._rows.files[row].path

    def rows(self) -> Iterable[tuple[str, TurnView, Sequence[str]]]:
        """Yields each file's path, its answer and where that was found, in the order of the table."""
        for file, view in zip(self._rows.files, self._rows.views, strict=True):
            yield file.path, view, self.found_at(view)

    def found_at(self, view: TurnView) -> Sequence[str]:
        """Returns where in its file an answer was found."""
        return self._rows.found_at(view)

    def state_words(self) -> dict[TurnState, str]:
        """Returns the words of the last column for each state."""
        return {
            "queued": self.tr("waiting"),
            "searching": self.tr("searching"),
            "reading": self.tr("reading"),
            "writing": self.tr("writing"),
            "finished": self.tr("answered"),
            "failed": self.tr("failed"),
            "cancelled": self.tr("waiting"),
        }

    # --- Qt ---

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else 4

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or role != Qt.ItemDataRole.DisplayRole:
            return None
        return (self.tr("File"), self.tr("Answer"), self.tr("Found at"), self.tr("State"))[section]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        view = self.view(index.row())
        if view is None:
            return None
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == FILE:
            return plain_tip(shown(self.path(index.row())))
        if role == Qt.ItemDataRole.DisplayRole:
            return self._cell(index.row(), view, index.column())
        return None

    # --- inside ---

    def _is_asked(self, view: TurnView) -> bool:
        """Returns whether the question to a file has been sent; a table alone never sends any."""
        return False

    def _show_view(self, view: TurnView) -> None:
        if (row := self._rows.put(view)) is not None:
            self._on_row_changed(row)

    def _cell(self, row: int, view: TurnView, column: int) -> str:
        if column == FILE:
            return shown(os.path.basename(self.path(row)))
        if column == ANSWER:
            return " ".join(_MARKUP.sub("", self.answer(view)).split())[:_ANSWER_CHARACTERS]
        if column == FOUND_AT:
            return ", ".join(self.found_at(view))
        if view.is_cut_off:
            return self.tr("cut off")
        # Once passages are found, the file waits for the model.
        searches = view.state == "queued" and view.scope is None and self._is_asked(view)
        return self.state_words()["searching" if searches else view.state]

    def _on_row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row, 0), self.index(row, self.columnCount() - 1))
