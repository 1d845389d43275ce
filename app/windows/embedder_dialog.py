"""Gets and chooses the embedding model, and says before it is chosen what that means for the library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QScrollArea, QWidget

from app.widgets import bits
from app.widgets.catalogue_rows import CatalogueRows
from app.widgets.embedder_row import EmbedderRow
from app.widgets.figures import bytes_text, printable
from app.windows import file_choices
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.models.embedders import EmbeddersModel
    from app.models.engine_settings import EngineSettingsModel
    from engine.protocol import EmbedderEntry

SETTING = "embedder.model"
_SIZE_PX = (700, 720)
# OWNER/NAME, or an address; a path of this computer begins otherwise or is longer.
_ON_HUB = re.compile(r"\w[\w.+-]*/\w[\w.+@-]*|https?://\S+|(www\.)?(huggingface\.co|hf\.co)/\S+")


class EmbedderDialog(QDialog):
    """`chosen` carries a name or a folder; "" is the model that comes with Ragdoll. What is got is used by the engine.

    It stays open while a model comes; closed, that goes on.
    """

    chosen = Signal(str)

    def __init__(self, engine: EngineSettingsModel, embedders: EmbeddersModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Embedding model"))
        self.resize(*_SIZE_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._engine, self._embedders = engine, embedders
        self._rows = CatalogueRows(embedders, self._make_row)
        layout = bits.column(bits.label(self.tr("Another embedding model"), "heading"), spacing=12)
        layout.addWidget(bits.label(self._consequence(), "small", wraps=True))
        layout.addWidget(self._make_list(), 1)
        self.problem = bits.label("", "problem", wraps=True, selectable=True)
        self.problem.hide()
        layout.addWidget(self.problem)
        what = self.tr(
            "Any other that is made for sentence-transformers: OWNER/NAME or the link of one on the hub; "
            "or a folder that holds one, or the name of one on this computer."
        )
        layout.addWidget(bits.label(what, "small", wraps=True))
        layout.addLayout(self._make_field())
        layout.addSpacing(4)
        layout.addLayout(self._make_buttons())
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.field.setFocus()
        embedders.entries_changed.connect(self._show_entries)
        embedders.downloads_changed.connect(self._show_downloads)
        embedders.message_told.connect(self._on_message)
        engine.settings_changed.connect(self._show_downloads)
        self._show_entries()
        embedders.refresh()

    def rows(self) -> tuple[EmbedderRow, ...]:
        return self._rows.rows()

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

    def _make_field(self) -> QHBoxLayout:
        self.field = QLineEdit(self._current)
        self.field.setPlaceholderText(self.tr("the one that comes with Ragdoll"))
        self.field.setAccessibleName(self.tr("Name, link or folder of the embedding model"))
        self.field.setAcceptDrops(False)
        self.field.textChanged.connect(self._on_typed)
        line = bits.row(self.field, bits.button(self.tr("Folder…"), icon="library", clicked=self._choose_folder))
        line.setStretch(0, 1)
        return line

    def _make_buttons(self) -> QHBoxLayout:
        self.built_in = bits.button(self.tr("Use the built-in one"), clicked=lambda: self._choose(""))
        self.get = bits.button(self.tr("Get and use"), clicked=self._on_get)
        self.use = bits.button(self.tr("Use this model"), "primary", clicked=self.accept)
        self.use.setDefault(True)
        self.get.setEnabled(False)
        self.use.setEnabled(False)
        return bits.row(self.built_in, None, bits.button(self.tr("Close"), clicked=self.reject), self.get, self.use)

    def _consequence(self) -> str:
        return self.tr(
            "All files are embedded again, in the background: that takes about as long as indexing them did, and "
            "longer with a larger model. "
            "The present model answers until all have moved, and you can go back. Other languages than English "
            "are found by meaning only with a multilingual model."
        )

    # --- showing ---

    @property
    def _current(self) -> str:
        return str(self._engine.value(SETTING) or "")

    def _show_entries(self) -> None:
        self._rows.show_entries(self._embedders.entries)
        self._show_downloads()

    def _make_row(self) -> EmbedderRow:
        row = EmbedderRow()
        row.get_wanted.connect(lambda: self._show_problem(""))
        row.delete_wanted.connect(self._ask_about_deleting)
        return row

    def _ask_about_deleting(self, entry: EmbedderEntry) -> None:
        freed = self.tr("%1 come free. To use it again, you have to get it again.")
        ask_first(
            self,
            self.tr("Delete the files of %1?").replace("%1", entry.name),
            f"{printable(entry.path)}\n\n{freed.replace('%1', bytes_text(entry.deletable_bytes))}",
            self.tr("Delete"),
            lambda: self._delete(entry),
        )

    def _delete(self, entry: EmbedderEntry) -> None:
        self._show_problem("")
        self._embedders.delete(entry.source)

    def _show_downloads(self) -> None:
        for row in self.rows():
            row.show_download(self._embedders.download_of(row.entry), is_current=row.entry.path == self._current)
        self.built_in.setVisible(bool(self._current))

    def _on_message(self, severity: str, sentence: str, way_out: str) -> None:
        """What went wrong with a row stands there; this is about what was asked for."""
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
        self._embedders.get(self.field.text().strip())
        self.field.clear()

    def _on_typed(self, text: str) -> None:
        text = text.strip()
        self.use.setEnabled(text not in ("", self._current))
        self.get.setEnabled(_ON_HUB.fullmatch(text) is not None)
        # Enter does what is likely.
        (self.get if self.get.isEnabled() else self.use).setDefault(True)

    def _choose_folder(self) -> None:
        file_choices.choose_folder(self, lambda paths: self.field.setText(paths[0]))
