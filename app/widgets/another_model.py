"""The field for a model outside the catalogue: a link, OWNER/NAME or words; what was found, and its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget

from app.widgets import bits
from app.widgets.catalogue_row import CatalogueRow
from app.widgets.catalogue_rows import CatalogueRows
from app.widgets.hub_repository_row import HubRepositoryRow

if TYPE_CHECKING:
    from app.models.catalogue import CatalogueModel
    from app.models.hub_files import HubFilesModel


class AnotherModel(QWidget):
    """Shows a HubFilesModel, and unfinished downloads of a CatalogueModel that are not in the catalogue."""

    looked_up = Signal(object)  # the widget that shows the results or the problem

    def __init__(self, catalogue: CatalogueModel, found: HubFilesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._catalogue, self._found = catalogue, found
        self._was_asking = False
        self.field = QLineEdit()
        self.field.setPlaceholderText(self.tr("OWNER/NAME, a link, or words to search for"))
        self.field.setAccessibleName(self.tr("Another model: link, OWNER/NAME, or words to search for"))
        self.field.setAcceptDrops(False)
        self.button = bits.button(self.tr("Download"), clicked=self._on_button)
        words = self.tr(
            "The link of its page or of its GGUF file on the Hugging Face hub, or its name there: OWNER/NAME. Other "
            "words are searched for there when you press Enter."
        )
        self._problem = bits.label("", "problem", wraps=True, selectable=True)
        entry = bits.row(spacing=8)
        entry.addWidget(self.field, 1)
        entry.addWidget(self.button)
        card = bits.card()
        inside = bits.column(bits.label(self.tr("Another model"), "strong"), spacing=6)
        inside.addWidget(bits.label(words, "small", wraps=True))
        inside.addLayout(entry)
        inside.addWidget(self._problem)
        inside.setContentsMargins(16, 12, 12, 12)
        card.setLayout(inside)
        self._title = bits.label("", "small", wraps=True)
        self.back_button = bits.button(self.tr("Back"), "ghost", clicked=self._on_back)
        self.hide_button = bits.button(self.tr("Hide"), "ghost", clicked=self._on_hide)
        line = bits.row(spacing=8)
        line.addWidget(self._title, 1)
        line.addWidget(self.back_button)
        line.addWidget(self.hide_button)
        self._head = QWidget()
        self._head.setLayout(line)
        self._repositories = bits.column(spacing=12)
        self._rows = CatalogueRows(catalogue, CatalogueRow)
        layout = bits.column(card, self._head, spacing=12)
        layout.addLayout(self._repositories)
        layout.addWidget(self._rows)
        self.setLayout(layout)
        self.field.returnPressed.connect(self._look_up)
        self.field.textEdited.connect(self._on_edited)
        found.found_changed.connect(self._on_found)
        found.file_named.connect(self._on_file_named)
        found.downloads_changed.connect(self._show_downloads)
        catalogue.catalogue_changed.connect(self._show)
        self._show()

    def rows(self) -> tuple[CatalogueRow, ...]:
        return self._rows.rows()

    def repository_rows(self) -> tuple[HubRepositoryRow, ...]:
        """Returns the rows of the search results; none while one of them is opened."""
        items = (self._repositories.itemAt(place) for place in range(self._repositories.count()))
        return tuple(row for item in items if item and isinstance(row := item.widget(), HubRepositoryRow))

    @property
    def problem(self) -> str:
        return "" if self._problem.isHidden() else self._problem.text()

    @property
    def title(self) -> str:
        return "" if self._head.isHidden() else self._title.text()

    def _show(self) -> None:
        found = self._found
        self.button.setText(self.tr("Cancel") if found.is_asking else self.tr("Download"))
        spoken = (
            self.tr("Cancel the search for the model")
            if found.is_asking
            else self.tr("Download or search for this model")
        )
        self.button.setAccessibleName(spoken)
        self._problem.setText(found.problem)
        self._problem.setVisible(bool(found.problem))
        self._show_head()
        listed = {entry.source for entry in found.entries}
        others = [entry for entry in self._catalogue.others if entry.source not in listed]
        focused = QApplication.focusWidget()
        is_in_rows = focused is not None and focused is not self.field and self.isAncestorOf(focused)
        self._rows.show_entries((*found.entries, *others))
        self._show_repositories()
        if focused is not None and is_in_rows and not focused.isVisibleTo(self):
            # Otherwise the focus would move to the button of another model.
            self.field.setFocus()
        self._show_downloads()

    def _show_head(self) -> None:
        found = self._found
        self._head.setVisible(bool(found.folder or found.repositories))
        self.back_button.setVisible(bool(found.folder and found.repositories))
        back = self.tr("Back to the results for “%1”")
        self.back_button.setAccessibleName(back.replace("%1", found.words))
        if found.folder:
            count = len(found.entries)
            words = self.tr("1 model in %2") if count == 1 else self.tr("%1 models in %2")
            hide = self.tr("Hide the models in %1").replace("%1", found.folder)
        else:
            count = len(found.repositories)
            one, many = self.tr("1 found for “%2”"), self.tr("%1 found for “%2”, the most downloaded first")
            words, hide = one if count == 1 else many, self.tr("Hide the results")
        self._title.setText(words.replace("%1", str(count)).replace("%2", found.folder or found.words))
        self.hide_button.setAccessibleName(hide)

    def _show_repositories(self) -> None:
        wanted = () if self._found.folder else self._found.repositories
        shown = self.repository_rows()
        if wanted == tuple(row.repository for row in shown):
            return
        bits.drop(self._repositories, shown)
        for repository in wanted:
            row = HubRepositoryRow(repository)
            row.chosen.connect(self._found.choose)
            self._repositories.addWidget(row)

    def _show_downloads(self) -> None:
        for row in self.rows():
            row.show_download(self._found.download_of(row.entry))

    def _look_up(self) -> None:
        if self.field.text().strip():
            self._found.look_up(self.field.text())

    def _on_button(self) -> None:
        if self._found.is_asking:
            # The earlier results stay, to choose from.
            self._found.back()
        else:
            self._look_up()

    def _on_found(self) -> None:
        was_asking, self._was_asking = self._was_asking, self._found.is_asking
        self._show()
        # The results appear below the field, where a screen reader is not, and maybe below the visible part.
        if was_asking and not self._was_asking and (words := self.problem or self.title):
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.field, words))
            self.looked_up.emit(self._problem if self.problem else self._head)

    def _on_edited(self) -> None:
        # A problem with an earlier text is obsolete; the results stay, to choose from.
        if not self.field.text():
            self._found.clear()
        elif self._found.problem:
            self._found.back()

    def _on_back(self) -> None:
        self.field.setFocus()
        self._found.back()

    def _on_hide(self) -> None:
        self.field.clear()
        self.field.setFocus()
        self._found.clear()

    def _on_file_named(self, source: str) -> None:
        self.field.clear()
        self._catalogue.get(source)
