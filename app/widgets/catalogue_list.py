"""Models that can be downloaded, a card for each, below a line that says where they come from; a field for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.another_model import AnotherModel
from app.widgets.catalogue_row import CatalogueRow
from app.widgets.catalogue_rows import CatalogueRows

if TYPE_CHECKING:
    from app.models.catalogue import CatalogueModel
    from app.models.hub_files import HubFilesModel


class CatalogueList(QWidget):
    """Shows a CatalogueModel and a HubFilesModel; hidden until the list of models has arrived."""

    def __init__(self, catalogue: CatalogueModel, found: HubFilesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._catalogue = catalogue
        self._rows = CatalogueRows(catalogue, CatalogueRow)
        self.another = AnotherModel(catalogue, found)
        words = self.tr(
            "Comes from the Hugging Face hub when you press Download, and stays on this computer. Sizes and speeds are "
            "estimates for this machine."
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 0)
        column.setSpacing(12)
        title = bits.label(self.tr("Download a model"), "heading")
        column.addLayout(bits.column(title, bits.label(words, "small", wraps=True), spacing=2))
        column.addWidget(self._rows)
        column.addWidget(self.another)
        catalogue.catalogue_changed.connect(self._show)
        catalogue.downloads_changed.connect(self._show_downloads)
        self._show()

    def rows(self) -> tuple[CatalogueRow, ...]:
        return self._rows.rows()

    def take_keyboard(self) -> QWidget | None:
        """Gives the focus to the first model that can be downloaded."""
        for row in self.rows():
            if row.can_be_got:
                row.action.setFocus()
                return row
        return None

    def _show(self) -> None:
        self._rows.show_entries(self._catalogue.entries)
        self._show_downloads()
        self.setVisible(bool(self._catalogue.entries))

    def _show_downloads(self) -> None:
        for row in self.rows():
            row.show_download(self._catalogue.download_of(row.entry))
