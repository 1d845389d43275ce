"""Downloads and chooses a model that is a folder, and says in advance what that means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QScrollArea, QWidget

from app.printable import printable
from app.widgets import bits
from app.widgets.catalogue_rows import CatalogueRows
from app.widgets.figures import bytes_text
from app.widgets.folder_row import FolderRow
from app.windows import file_choices
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.models.engine_settings import EngineSettingsModel
    from app.models.hub_folders import HubFoldersModel
    from engine.protocol import HubFolderEntry

_SIZE_PX = (700, 720)
# OWNER/NAME, or an address; a path of this computer begins otherwise or is longer.
_ON_HUB = re.compile(r"\w[\w.+-]*/\w[\w.+@-]*|https?://\S+|(www\.)?(huggingface\.co|hf\.co)/\S+")


@dataclass(frozen=True, slots=True)
class Words:
    """The texts for one kind of models.

    `others` says what else the field accepts, `none` what is in use while it is empty, and `use_none` is the text of
    the button for that.
    """

    title: str
    heading: str
    consequence: str
    others: str
    field: str
    none: str
    use_none: str


class HubFolderDialog(QDialog):
    """`chosen` carries a name or a folder, "" for none or the default one. The engine uses what is downloaded.

    It stays open during a download, which continues when it is closed. Each kind names the `setting` of the model in
    use, its `row_type` and its words.
    """

    setting: str
    row_type: type[FolderRow[Any]]

    chosen = Signal(str)

    def __init__(
        self, engine: EngineSettingsModel, models: HubFoldersModel[Any], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        words = self._words()
        self.setWindowTitle(words.title)
        self.resize(*_SIZE_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._engine, self._models = engine, models
        self._rows: CatalogueRows[FolderRow[Any]] = CatalogueRows(models, self._make_row)
        layout = bits.column(bits.label(words.heading, "heading"), spacing=12)
        self.consequence = bits.label(words.consequence, "small", wraps=True)
        layout.addWidget(self.consequence)
        layout.addWidget(self._make_list(), 1)
        self.problem = bits.label("", "problem", wraps=True, selectable=True)
        self.problem.hide()
        layout.addWidget(self.problem)
        layout.addWidget(bits.label(words.others, "small", wraps=True))
        layout.addLayout(self._make_field(words))
        layout.addSpacing(4)
        layout.addLayout(self._make_buttons(words))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.field.setFocus()
        models.entries_changed.connect(self._show_entries)
        models.downloads_changed.connect(self._show_downloads)
        models.message_told.connect(self._on_message)
        engine.settings_changed.connect(self._show_downloads)
        self._show_entries()
        models.refresh()

    def rows(self) -> tuple[FolderRow[Any], ...]:
        return self._rows.rows()

    def _words(self) -> Words:
        raise NotImplementedError

    # --- building ---

    def _make_list(self) -> QScrollArea:
        inner = QWidget()
        inner.setObjectName("column")
        column = bits.column(self._rows, spacing=0)
        column.setContentsMargins(0, 0, 8, 0)
        column.addStretch(1)
        inner.setLayout(column)
        scroll = QScrollArea()
        scroll.setWidget(inner)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        return scroll

    def _make_field(self, words: Words) -> QHBoxLayout:
        self.field = QLineEdit(self._current)
        self.field.setPlaceholderText(words.none)
        self.field.setAccessibleName(words.field)
        self.field.setAcceptDrops(False)
        self.field.textChanged.connect(self._on_typed)
        line = bits.row(self.field, bits.button(self.tr("Folder…"), icon="library", clicked=self._choose_folder))
        line.setStretch(0, 1)
        return line

    def _make_buttons(self, words: Words) -> QHBoxLayout:
        self.use_none = bits.button(words.use_none, clicked=lambda: self._choose(""))
        self.get = bits.button(self.tr("Download and use"), clicked=self._on_get)
        self.use = bits.button(self.tr("Use this model"), "primary", clicked=self.accept)
        self.use.setDefault(True)
        self.get.setEnabled(False)
        self.use.setEnabled(False)
        return bits.row(self.use_none, None, bits.button(self.tr("Close"), clicked=self.reject), self.get, self.use)

    # --- showing ---

    @property
    def _current(self) -> str:
        return str(self._engine.value(self.setting) or "")

    def _show_entries(self) -> None:
        self._rows.show_entries(self._models.entries)
        self._show_downloads()

    def _make_row(self) -> FolderRow[Any]:
        row = self.row_type()
        row.get_wanted.connect(lambda: self._show_problem(""))
        row.delete_wanted.connect(self._ask_about_deleting)
        return row

    def _ask_about_deleting(self, entry: HubFolderEntry) -> None:
        freed = self.tr("Frees %1. You would have to download it again.")
        ask_first(
            self,
            self.tr("Delete the files of %1?").replace("%1", entry.name),
            f"{printable(entry.path)}\n\n{freed.replace('%1', bytes_text(entry.deletable_bytes))}",
            self.tr("Delete"),
            lambda: self._delete(entry),
        )

    def _delete(self, entry: HubFolderEntry) -> None:
        self._show_problem("")
        self._models.delete(entry.source)

    def _show_downloads(self) -> None:
        for row in self.rows():
            row.show_download(self._models.download_of(row.entry), is_current=row.entry.path == self._current)
        self.use_none.setVisible(bool(self._current))

    def _on_message(self, severity: str, sentence: str, way_out: str) -> None:
        """Shows a problem with the name in the field; a problem of a row is shown there."""
        is_told = any(row.problem.startswith(sentence) for row in self.rows())
        self._show_problem("" if severity != "error" or is_told else f"{sentence} {way_out}".strip())

    def _show_problem(self, words: str) -> None:
        self.problem.setText(words)
        self.problem.setVisible(bool(words))

    # --- choosing ---

    def accept(self) -> None:
        if self.use.isEnabled():
            self._choose(self.field.text().strip())

    def _choose(self, model: str) -> None:
        self.chosen.emit(model)
        super().accept()

    def _on_get(self) -> None:
        self._show_problem("")
        self._models.get(self.field.text().strip())
        self.field.clear()

    def _on_typed(self, text: str) -> None:
        text = text.strip()
        self.use.setEnabled(text not in ("", self._current))
        self.get.setEnabled(_ON_HUB.fullmatch(text) is not None)
        # Enter triggers the likely button.
        (self.get if self.get.isEnabled() else self.use).setDefault(True)

    def _choose_folder(self) -> None:
        file_choices.choose_folder(self, lambda paths: self.field.setText(paths[0]))
