"""Cards of models that can be got, one below the other; each stays in its place while it is told of anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.widgets import bits
from app.widgets.catalogue_row import CatalogueRow

if TYPE_CHECKING:
    from app.models.catalogue import CatalogueModel
    from engine.protocol import CatalogueEntry, Download


class CatalogueRows(QWidget):
    """Hands what is wished at a row to a CatalogueModel."""

    def __init__(self, catalogue: CatalogueModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._catalogue = catalogue
        self._rows: dict[str, CatalogueRow] = {}
        self._column = bits.column(spacing=12)
        self.setLayout(self._column)

    def rows(self) -> tuple[CatalogueRow, ...]:
        return tuple(self._rows.values())

    def show_entries(self, entries: Iterable[CatalogueEntry]) -> None:
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

    def show_downloads(self, download_of: Callable[[CatalogueEntry], Download]) -> None:
        for row in self._rows.values():
            row.show_download(download_of(row.entry))

    def _make_row(self) -> CatalogueRow:
        row = CatalogueRow()
        row.get_wanted.connect(self._catalogue.get)
        row.cancel_wanted.connect(self._catalogue.cancel)
        row.discard_wanted.connect(self._catalogue.discard)
        return row
