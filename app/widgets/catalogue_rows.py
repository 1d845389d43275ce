"""Cards of models that can be downloaded, one below the other; each stays in its place while it is updated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from PySide6.QtWidgets import QWidget

from app.widgets import bits
from app.widgets.download_row import DownloadRow

if TYPE_CHECKING:
    from engine.protocol import CatalogueEntry, HubFolderEntry

Row = TypeVar("Row", bound=DownloadRow[Any])


class Getting(Protocol):
    """Carries out the wishes of a row, by its source."""

    def get(self, source: str) -> None: ...
    def cancel(self, source: str) -> None: ...
    def discard(self, source: str) -> None: ...


class CatalogueRows(QWidget, Generic[Row]):
    """Passes the wishes of its rows to a model; hidden while there is no row."""

    def __init__(self, getting: Getting, make_row: Callable[[], Row], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._getting, self._make = getting, make_row
        self._rows: dict[str, Row] = {}
        self._column = bits.column(spacing=12)
        self.setLayout(self._column)

    def rows(self) -> tuple[Row, ...]:
        return tuple(self._rows.values())

    def show_entries(self, entries: Iterable[CatalogueEntry | HubFolderEntry]) -> None:
        known, self._rows = self._rows, {}
        for position, entry in enumerate(entries):
            row = known.pop(entry.source, None) or self._make_row()
            row.show_entry(entry)
            if self._column.indexOf(row) != position:
                self._column.removeWidget(row)
                self._column.insertWidget(position, row)
            self._rows[entry.source] = row
        bits.drop(self._column, known.values())
        self.setVisible(bool(self._rows))

    def _make_row(self) -> Row:
        row = self._make()
        row.get_wanted.connect(self._getting.get)
        row.cancel_wanted.connect(self._getting.cancel)
        row.discard_wanted.connect(self._getting.discard)
        return row
