"""The known models: what each is, whether it fits, which one answers; download, open, use and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QProgressBar, QScrollArea, QWidget

from app import theme
from app.printable import printable
from app.widgets import bits
from app.widgets.catalogue_list import CatalogueList
from app.widgets.empty_state import EmptyState
from app.widgets.figures import bytes_text, file_name
from app.widgets.model_row import ModelRow
from app.widgets.picture import Picture
from app.windows.page import Page
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.models.catalogue import CatalogueModel
    from app.models.hub_files import HubFilesModel
    from app.models.model_picker import ModelPickerModel
    from engine.protocol import ModelEntry

# The room below the last line of a card.
_BELOW_PX = 12


class ModelsPage(Page):
    """Shows a ModelPickerModel, a CatalogueModel and a HubFilesModel; the file dialog belongs to the window."""

    open_file_wanted = Signal()
    look_around_wanted = Signal()

    def __init__(
        self,
        picker: ModelPickerModel,
        catalogue: CatalogueModel,
        found: HubFilesModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(self.tr("Models"), parent=parent)
        self.subtitle.setText(
            self.tr("GGUF files that can write answers. New chats start with the one in use; a chat keeps its own.")
        )
        self._picker, self._catalogue = picker, catalogue
        self._rows: list[ModelRow] = []
        self.look_around = bits.button(
            self.tr("Find on this computer…"), icon="search", clicked=self.look_around_wanted.emit
        )  # fmt: skip
        self.look_around.setToolTip(self.tr("Finds models that other applications have downloaded"))
        self.buttons.addWidget(self.look_around)
        self.buttons.addWidget(
            bits.button(self.tr("Open a GGUF file…"), "primary", "plus", self.open_file_wanted.emit)
        )  # fmt: skip
        self._build_banner()
        content = QWidget()
        content.setObjectName("column")
        self._column = bits.column(spacing=12)
        self.catalogue = CatalogueList(catalogue, found)
        self._scroll = QScrollArea()
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.empty = EmptyState(
            "models",
            self.tr("Answers are quotes from your files until a model is chosen."),
            self.tr("Download a model"),
        )
        self.empty.chosen.connect(self.show_catalogue)
        column = bits.column(self.empty, spacing=12)
        column.addLayout(self._column)
        column.addWidget(self.catalogue)
        column.addStretch(1)
        content.setLayout(column)
        self.body.addWidget(self._banner)
        self.body.addWidget(self._scroll, 1)
        picker.models_changed.connect(self._show)
        picker.state_changed.connect(self._show)
        self.catalogue.another.looked_up.connect(self._bring)
        self._is_catalogue_wanted = False
        catalogue.catalogue_changed.connect(self._on_catalogue)
        # The catalogue marks models that are on the list, which has changed.
        picker.models_changed.connect(catalogue.refresh)
        self._show()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # The fit of models may have changed: budgets are set on the Memory page.
        self._picker.refresh()
        self._catalogue.refresh()

    def show_catalogue(self) -> None:
        """Goes to the models that can be downloaded."""
        self._is_catalogue_wanted = not self._go_to_catalogue()

    def rows(self) -> tuple[ModelRow, ...]:
        return tuple(self._rows)

    def _go_to_catalogue(self) -> bool:
        """Gives the focus to the catalogue; returns whether it has arrived."""
        first = self.catalogue.take_keyboard()
        if first is not None:
            # After the rows have their places.
            QTimer.singleShot(0, first, lambda: self._scroll.verticalScrollBar().setValue(self.catalogue.y()))
        return bool(self.catalogue.rows())

    def _bring(self, widget: QWidget) -> None:
        # After it has its place.
        QTimer.singleShot(0, widget, lambda: self._scroll.ensureWidgetVisible(widget, 0, _BELOW_PX))

    def _on_catalogue(self) -> None:
        if self._is_catalogue_wanted:
            self.show_catalogue()

    def _build_banner(self) -> None:
        self._banner = QFrame()
        self._icon = Picture("info", "accent")
        self._banner_text = bits.label("", wraps=True, selectable=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Loading the model"))
        line = bits.row(self._icon, spacing=12)
        line.addLayout(bits.column(self._banner_text, self._bar, spacing=8), 1)
        line.setContentsMargins(14, 12, 14, 12)
        self._banner.setLayout(line)

    def _show(self) -> None:
        picker = self._picker
        self._show_banner()
        self.empty.setVisible(not picker.models)
        self._show_rows()

    def _show_banner(self) -> None:
        picker = self._picker
        text, card, icon = self._banner_words()
        self._banner.setVisible(bool(text) and bool(picker.models or picker.state != "none"))
        self._banner_text.setText(text)
        self._icon.show_icon(*icon)
        self._bar.setVisible(picker.state == "loading")
        self._bar.setRange(0, 100)
        self._bar.setValue(round(picker.fraction * 100))
        if self._banner.property("card") != card:
            theme.restyle(self._banner, card=card)

    def _banner_words(self) -> tuple[str, str, tuple[str, str]]:
        picker = self._picker
        if picker.state == "loading":
            words = self.tr("Loading %1… %2 %").replace("%1", picker.name)
            return words.replace("%2", str(round(picker.fraction * 100))), "notice", ("info", "accent")
        if picker.state == "failed":
            return picker.sentence, "error", ("failed", "bad")
        if picker.state == "loaded":
            return picker.sentence, "soft", ("done", "good")
        if picker.current_entry is not None:
            words = self.tr("%1 loads with the next question.").replace("%1", picker.current_entry.name)
            return words, "notice", ("info", "accent")
        return self.tr("Answers are quotes from your files until a model is chosen."), "notice", ("info", "accent")

    def _show_rows(self) -> None:
        """Shows a row for each model; existing rows stay, with the focus and with what is being typed."""
        known = {row.entry.path: row for row in self._rows}
        before, self._rows = self._rows, []
        for position, entry in enumerate(self._picker.models):
            is_current = entry.path == self._picker.current and bool(self._picker.current)
            state = self._state_word(entry.path, is_current)
            row = known.pop(entry.path, None) or self._make_row()
            shown = _without_forecast(entry) if is_current and not state else entry
            row.show_entry(shown, is_current, state, self._picker.file_of(entry.path))
            if self._column.indexOf(row) != position:
                self._column.removeWidget(row)
                self._column.insertWidget(position, row)
            self._rows.append(row)
        bits.drop(self._column, known.values())
        if self._rows != before:
            # The Tab key follows the order in which they are shown, not made.
            bits.chain_tabs(control for row in self._rows for control in row.controls)

    def _make_row(self) -> ModelRow:
        row = ModelRow()
        row.use_wanted.connect(self._picker.use)
        row.forget_wanted.connect(self._picker.forget)
        row.delete_wanted.connect(self._ask_about_deleting)
        row.unload_wanted.connect(self._picker.use_none)
        row.allow_wanted.connect(self._picker.allow_losses)
        return row

    def _ask_about_deleting(self, entry: ModelEntry) -> None:
        name = entry.name or file_name(entry.path)
        freed = self.tr("Frees %1. You would have to download it again.")
        ask_first(
            self,
            self.tr("Delete the file of %1?").replace("%1", name),
            f"{printable(entry.path)}\n\n{freed.replace('%1', bytes_text(entry.deletable_bytes))}",
            self.tr("Delete"),
            lambda: self._picker.delete(entry.path),
        )

    def _state_word(self, path: str, is_current: bool) -> str:
        """Returns the state of the chosen model, "" while it is in use; or that of a model that a single chat uses."""
        state = self._picker.told_of(path).state
        words = {"loading": self.tr("Loading"), "failed": self.tr("Failed")}
        if is_current:
            return words.get(state, self.tr("Chosen") if state == "none" else "")
        return words.get(state, self.tr("Loaded") if state == "loaded" else "")


def _without_forecast(entry: ModelEntry) -> ModelEntry:
    """Returns a loaded model without a forecast: its placement and speed are shown above."""
    return entry.model_copy(update={"fit": "", "fits": True, "tokens_per_s": 0.0})
