"""Every file: one question to each file of collections, a table of the answers, and the selected answer.

A citation in that answer opens its page beside the table. While one question is being asked, others can be viewed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QDateTime, QLocale, QSize, Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QLineEdit, QMenu, QScrollArea, QSplitter, QVBoxLayout, QWidget

from app.chats.file_stems import file_stem
from app.models.collection_names import those_there
from app.widgets import bits
from app.widgets.asked_line import AskedLine
from app.widgets.collection_picker import CollectionPicker
from app.widgets.empty_state import EmptyState
from app.widgets.every_file_table import EveryFileTable
from app.widgets.figures import count_text
from app.widgets.flow import FlowLayout, put_beside
from app.widgets.markdown_view import MarkdownView
from app.widgets.run_card import RunCard
from app.widgets.source_pane import SourcePane
from app.windows import file_choices
from app.windows.page import Page
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.chats.records import Run
    from app.models.each_file import EachFileModel
    from app.models.library import LibraryModel
    from app.models.sources import SourcesModel

_MOST_RUNS_IN_MENU = 30
_MENU_CHARACTERS = 60
_SIDE_PX = 340
# In a narrower page the question has its own line, and the source is below the table.
_LINE_LETTERS, _TABLE_LETTERS = 90, 70
_READING_LINES = 4


class _Parts(QSplitter):
    """A splitter that asks only for the minimum size of its parts: tables and answers scroll themselves."""

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()


class EveryFilePage(Page):
    """Shows an EachFileModel; `sources` are those of the selected answer."""

    message_told = Signal(str, str, str)  # severity, a sentence, a way out
    ask_wanted = Signal(object)  # the path of a file that is cited

    def __init__(
        self, model: EachFileModel, library: LibraryModel, sources: SourcesModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(self.tr("Every file"), parent=parent)
        self.subtitle.setText(
            self.tr("Puts one question to each file by itself, and gathers what every one of them says.")
        )
        self._model, self._library, self._sources = model, library, sources
        self.earlier = bits.button(self.tr("Earlier questions"), "picker", "pending")
        self._menu = QMenu(self)
        self.earlier.setMenu(self._menu)
        bits.opens_popup(self.earlier, self._menu)
        self.buttons.addWidget(self.earlier)
        self._build_ask()
        self.asked = AskedLine(model)
        self.run = RunCard(model)
        self.table = EveryFileTable(model)
        self.answer = MarkdownView()
        self.side = SourcePane()
        self.side.attach(sources)
        self.empty = EmptyState(
            "table", self.tr("“When can this contract be ended?” Ask it of every contract at once.")
        )
        self._build_body()
        self._connect()
        self._show_collections()
        self._show_runs()
        self._show_state()
        if model.run is None and model.state == "none" and model.runs:
            model.open(model.runs[0].run_id)

    # --- building ---

    def _build_ask(self) -> None:
        self.question = QLineEdit()
        self.question.setPlaceholderText(self.tr("A question for each file"))
        self.question.setAccessibleName(self.tr("A question for each file"))
        # Files go to the window, not into the question as text.
        self.question.setAcceptDrops(False)
        self.collection = CollectionPicker()
        self.ask = bits.button(self.tr("Ask every file"), "primary", "send", self._on_ask)
        self.ask.setEnabled(False)
        self._ask_line = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._ask_line.setSpacing(8)
        self._ask_line.addWidget(self.question, 1)
        self._ask_buttons = QWidget()
        flow = FlowLayout(self._ask_buttons, spacing=8)
        flow.addWidget(self.collection)
        flow.addWidget(self.ask)
        self._ask_line.addWidget(self._ask_buttons)

    def _build_body(self) -> None:
        inner = QWidget()
        inner.setObjectName("column")
        column = QVBoxLayout(inner)
        column.setContentsMargins(4, 12, 12, 12)
        column.addWidget(self.answer)
        column.addStretch(1)
        self._reading = QScrollArea()
        self._reading.setWidget(inner)
        self._reading.setWidgetResizable(True)
        self._reading.setAccessibleName(self.tr("The answer of the selected file"))
        self._left = QSplitter(Qt.Orientation.Vertical)
        self._left.addWidget(self.table)
        self._left.addWidget(self._reading)
        self._left.setStretchFactor(0, 3)
        self._left.setStretchFactor(1, 2)
        self._split = _Parts(Qt.Orientation.Horizontal)
        self._split.addWidget(self._left)
        self._split.addWidget(self.side)
        self._split.setStretchFactor(0, 1)
        self._split.setSizes([_SIDE_PX, _SIDE_PX])
        for split in (self._left, self._split):
            split.setChildrenCollapsible(False)
        self._reading.hide()
        self.side.hide()
        content = QWidget()
        content.setObjectName("column")
        parts = bits.column(spacing=self.body.spacing())
        parts.addLayout(self._ask_line)
        parts.addWidget(self.asked)
        parts.addWidget(self.run)
        parts.addWidget(self._split, 1)
        parts.addWidget(self.empty, 1)
        content.setLayout(parts)
        # Keeps parts from being squeezed in a low window or with large text.
        self._scroll = QScrollArea()
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.body.addWidget(self._scroll)

    def _connect(self) -> None:
        model = self._model
        self.question.textChanged.connect(self._show_ask)
        self.collection.chosen.connect(self._show_ask)
        self.question.returnPressed.connect(self._on_ask)
        self._library.collections_changed.connect(self._show_collections)
        model.run_changed.connect(self._show_state)
        model.runs_changed.connect(self._show_runs)
        model.begun.connect(self._on_begun)
        model.told.connect(lambda sentence: self.message_told.emit("notice", sentence, ""))
        # Their progress changes with every answer.
        self._menu.aboutToShow.connect(self._show_runs)
        self.asked.focus_left.connect(self._keep_keyboard)
        model.dataChanged.connect(lambda first, _last: self._on_row_changed(first.row()))
        self.table.selected.connect(self._on_selected)
        self.side.closed.connect(self.side.hide)
        self.side.ask_wanted.connect(self.ask_wanted)
        self.answer.citation_clicked.connect(lambda number: self._open_source(number - 1))
        self.run.export_wanted.connect(self._on_export)
        self.run.delete_wanted.connect(self._on_delete)

    @property
    def starting_point(self) -> QWidget:
        return self.question

    @property
    def unsent(self) -> str:
        """Returns the text in the question field: being typed, or asked and not saved yet."""
        return self.question.text()

    def take_back(self, question: str) -> None:
        """Restores a question that was typed before the window was closed; text that is being typed stays."""
        if not self.question.text():
            self.question.setText(question)

    def fit(self) -> None:
        super().fit()
        metrics = self.fontMetrics()
        letter, width = metrics.averageCharWidth(), self.width()
        put_beside(self._ask_line, self._ask_buttons, is_beside=width >= _LINE_LETTERS * letter)
        is_stacked = width < _SIDE_PX + _TABLE_LETTERS * letter
        self._split.setOrientation(Qt.Orientation.Vertical if is_stacked else Qt.Orientation.Horizontal)
        self.side.setMinimumHeight(_SIDE_PX if is_stacked else 0)
        self._reading.setMinimumHeight(_READING_LINES * metrics.height())

    # --- what is shown ---

    def _show_state(self) -> None:
        is_empty = self._model.state == "none"
        self.empty.setVisible(is_empty)
        self._split.setVisible(not is_empty)

    def _on_begun(self, run: Run) -> None:
        # Only once it is saved: its files may not be available, or the disk may be full.
        if self.question.text().strip() == run.question:
            self.question.clear()

    def _keep_keyboard(self) -> None:
        """Moves the focus from a hidden button, because the next one in order does something else."""
        (self.question if self._model.state == "none" else self.table).setFocus()

    def _show_collections(self) -> None:
        names = [collection.name for collection in self._library.collections]
        current = tuple(dict.fromkeys(map(self._library.name_now, self.collection.current)))
        # A chosen collection that is gone stays chosen: asking all files instead is not what the user wanted.
        self.collection.show_collections(names, current, gone=tuple(filter(self._library.is_gone, current)))
        self._show_ask()

    def _show_ask(self) -> None:
        self.ask.setEnabled(bool(self.question.text().strip()) and not self.collection.is_gone)

    def _show_runs(self) -> None:
        self._menu.clear()
        runs, mark = self._model.runs, self._marks()
        for run in runs[:_MOST_RUNS_IN_MENU]:
            self._menu.addAction(bits.literal(_title(run) + mark(run)), partial(self._model.open, run.run_id))
        if len(runs) > _MOST_RUNS_IN_MENU:
            words = self.tr("All %1 questions…").replace("%1", count_text(len(runs)))
            self._menu.addAction(words, self._open_all_runs)
        self.earlier.setVisible(bool(runs))

    def _marks(self) -> Callable[[Run], str]:
        """Returns a function for the remark behind a question's title: asked or paused, and the progress."""
        unfinished, asked = self._model.unfinished(), self._model.asked

        def mark(run: Run) -> str:
            if run.run_id not in unfinished:
                return ""
            answered, total = unfinished[run.run_id]
            is_asked = asked is not None and run.run_id == asked.run_id
            words = self.tr("being asked, %1 %") if is_asked else self.tr("paused, %1 %")
            return " · " + words.replace("%1", str(100 * answered // total))

        return mark

    def _open_all_runs(self) -> None:
        from app.windows.command_palette import Command, CommandPalette

        mark = self._marks()
        runs = [
            Command(_title(run) + mark(run), partial(self._model.open, run.run_id), "table") for run in self._model.runs
        ]
        palette = CommandPalette(runs, self, self.tr("Search earlier questions"))
        palette.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        corner = self.earlier.mapToGlobal(self.earlier.rect().bottomRight())
        palette.move(corner.x() - palette.width(), corner.y())
        palette.show()
        palette.field.setFocus()

    def _show_row(self, row: int) -> None:
        view = self._model.whole_view(row)
        self._reading.setVisible(view is not None)
        self._sources.show_turn(view)
        if view is None or not view.passages:
            self.side.hide()
        if view is not None:
            self.answer.set_num_passages(len(view.passages))
            remark, text = self._model.remark(view), self._model.answer(view) or self.tr("No answer yet.")
            # Above the text, because a cut-off text may end within code.
            self.answer.show_text(f"*{remark}*\n\n{text}" if remark else text)

    def _on_selected(self, row: int) -> None:
        self._show_row(row)
        if self._reading.isVisible():
            # In a low window it may be out of view.
            self._scroll.ensureWidgetVisible(self._reading, 0, 0)

    def _on_row_changed(self, row: int) -> None:
        if row == self.table.current_row:
            self._show_row(row)

    # --- wishes ---

    def _on_ask(self) -> None:
        if self.ask.isEnabled():
            self._model.begin(self.question.text(), those_there(self.collection.current, self._library.is_gone))

    def _open_source(self, index: int) -> None:
        was_hidden = not self.side.isVisible()
        self.side.show()
        self.side.open_passage(index)
        if self._split.orientation() == Qt.Orientation.Vertical:
            self._bring_source()
        if was_hidden and self._split.orientation() == Qt.Orientation.Vertical:
            # Below the table, it can be scrolled to only once it is laid out.
            once = Qt.ConnectionType.SingleShotConnection
            self._scroll.verticalScrollBar().rangeChanged.connect(self._bring_source, once)

    def _bring_source(self) -> None:
        if self.side.isVisible():
            self._scroll.ensureWidgetVisible(self.side, 0, 0)

    def _on_export(self) -> None:
        run = self._model.run
        if run is not None:
            name = file_stem(run.question[:_MENU_CHARACTERS], instead="answers")
            file_choices.choose_table(self, f"{name}.csv", lambda paths: self.export_to(Path(paths[0])))

    def export_to(self, file: Path) -> None:
        """Writes the table to a file; a message says if that fails."""
        from app.exports import write_export
        from app.models.each_file_csv import csv_of

        try:
            # The mark at the beginning tells spreadsheets that it is UTF-8.
            write_export(file, csv_of(self._model.rows(), QLocale.system().decimalPoint()).encode("utf-8-sig"))
        except OSError as error:
            sentence = self.tr("The table could not be written: %1.").replace("%1", str(error.strerror or error))
            self.message_told.emit("error", sentence, self.tr("Choose another folder."))

    def _on_delete(self) -> None:
        ask_first(
            self,
            self.tr("Delete these answers?"),
            self.tr("What the files answered to this question is lost; the files stay."),
            self.tr("Delete"),
            self._delete,
        )

    def _delete(self) -> None:
        self._model.delete()
        # The focused button is hidden now, and the next question is asked here.
        self.question.setFocus()


def _title(run: Run) -> str:
    """Returns the question and its time, in one line."""
    asked = QDateTime.fromSecsSinceEpoch(int(run.created))
    when = QLocale().toString(asked, QLocale.FormatType.ShortFormat)
    return f"{run.question[:_MENU_CHARACTERS]} · {when}"
