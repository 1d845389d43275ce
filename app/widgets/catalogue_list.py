"""Models that can be got, a card for each, under the words that say where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.catalogue_row import CatalogueRow

if TYPE_CHECKING:
    from app.models.catalogue import CatalogueModel


class CatalogueList(QWidget):
    """Shows a CatalogueModel; hidden until it is known which models there are."""

    def __init__(self, catalogue: CatalogueModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._catalogue = catalogue
        self._rows: dict[str, CatalogueRow] = {}
        words = self.tr(
            "Comes from the Hugging Face hub when you press Get, and stays on this computer. "
            "Sizes and speeds are estimates for this machine."
        )
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 8, 0, 0)
        self._column.setSpacing(12)
        title = bits.label(self.tr("Get a model"), "heading")
        self._column.addLayout(bits.column(title, bits.label(words, "small", wraps=True), spacing=2))
        catalogue.catalogue_changed.connect(self._show)
        catalogue.downloads_changed.connect(self._show_downloads)
        self._show()

    def rows(self) -> tuple[CatalogueRow, ...]:
        return tuple(self._rows.values())

    def take_keyboard(self) -> QWidget | None:
        """Gives the keyboard to the first model that can be got."""
        for row in self._rows.values():
            if row.can_be_got:
                row.action.setFocus()
                return row
        return None

    def _show(self) -> None:
        entries = self._catalogue.entries
        known, self._rows = self._rows, {}
        for entry in entries:
            row = known.pop(entry.source, None)
            if row is None:
                row = CatalogueRow()
                row.get_wanted.connect(self._catalogue.get)
                row.cancel_wanted.connect(self._catalogue.cancel)
                row.discard_wanted.connect(self._catalogue.discard)
                self._column.addWidget(row)
            row.show_entry(entry)
            self._rows[entry.source] = row
        bits.drop(self._column, known.values())
        self._show_downloads()
        self.setVisible(bool(entries))

    def _show_downloads(self) -> None:
        for row in self._rows.values():
            row.show_download(self._catalogue.download_of(row.entry))
