"""Settings: looks, answers, library, search, data, other applications. All but the language take effect at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QLineEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app import languages, theme
from app.models.embedders import EmbeddersModel
from app.models.engine_settings import EngineSettingsModel
from app.models.local_server import LocalServerModel
from app.models.rerankers import RerankersModel
from app.printable import printable
from app.settings import MAX_ANSWERS
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import seconds_text
from app.widgets.setting_controls import Control
from app.windows import engine_rows
from app.windows.chosen_model import ChosenModel
from app.windows.embedder_dialog import SETTING as _EMBEDDER
from app.windows.embedder_dialog import EmbedderDialog
from app.windows.engine_rows import Row
from app.windows.export_line import ExportLine
from app.windows.file_choices import choose_folder
from app.windows.page import Page
from app.windows.reranker_dialog import SETTING as _RERANKER
from app.windows.reranker_dialog import RerankerDialog
from app.windows.server_lines import ServerLines
from app.windows.text_size import LEAST_PERCENT, MOST_PERCENT, STEP_PERCENT

if TYPE_CHECKING:
    from app.models import AppModels
    from app.models.chat_exports import ChatExports

_CONTROL_LETTERS = 15
_MODELS_FOLDER = "models.folder"
_SETTLE_MS = 500
_WIDEST_PX = 760


def _same(told: object, shown: object) -> bool:
    """Returns whether a control shows the engine's value; JSON turns tuples into lists."""
    return (tuple(told) if isinstance(told, list) else told) == shown


class SettingsPage(Page):
    """The window's settings through AppModels.settings, the engine's through the engine."""

    message_told = Signal(str, str, str)  # severity, sentence, way out
    import_wanted = Signal()  # of chats, from files
    folder_import_wanted = Signal()

    def __init__(self, models: AppModels, data_folder: str, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Settings"), "", parent)
        self.subtitle.hide()
        self._window = models.settings
        self._engine = EngineSettingsModel(models.client, self)
        self._embedders = EmbeddersModel(models.client, self)
        self._rerankers = RerankersModel(models.client, self)
        self._controls: dict[str, Control] = {}
        self._lines: dict[str, QWidget] = {}
        self._turned: set[str] = set()
        # The engine's value of each setting when its control was last set.
        self._shown: dict[str, object] = {}
        self._reranker = ""
        # Turning a spin box emits many changes; only the last one is sent to the engine.
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._send_engine_settings)
        content = QWidget()
        content.setObjectName("column")
        content.setMaximumWidth(_WIDEST_PX)
        self._column = QVBoxLayout(content)
        self._column.setContentsMargins(0, 0, 8, 0)
        self._column.setSpacing(12)
        self._add_appearance()
        self._add_answers_per_question(self._add_rows(self.tr("Answers"), engine_rows.answers()))
        self._add_rows(self.tr("Sampling"), engine_rows.sampling())
        self._add_rows(self.tr("Reading"), engine_rows.reading())
        library = self._add_rows(self.tr("Library"), engine_rows.library())
        self._add_embedder(library)
        self._add_reranker(library)
        self._add_rows(self.tr("Search"), engine_rows.search())
        section = self._add_rows(self.tr("Models"), engine_rows.models())
        self._add_models_folder(section, os.path.join(data_folder, "models"))
        self._add_server(LocalServerModel(models.client, self))
        self._add_data(data_folder, models.exports)
        self._column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.body.addWidget(scroll, 1)
        self._engine.settings_changed.connect(self._show_engine_settings)
        for got in (self._embedders, self._rerankers):
            got.arrived.connect(self._engine.refresh)
            got.message_told.connect(self.message_told)
        self._rerankers.reading_changed.connect(self._show_reading)
        self._engine.change_refused.connect(self._on_refused)
        self._engine.request_failed.connect(lambda *words: self.message_told.emit("error", *words))
        self._window.settings_changed.connect(self._show_window_settings)
        self._show_window_settings()
        self._show_engine_settings()

    @property
    def engine_settings(self) -> EngineSettingsModel:
        return self._engine

    def engine_control(self, name: str) -> QWidget:
        """Returns the control of an engine setting by its dotted name."""
        return self._controls[name].widget

    def shows(self, name: str) -> bool:
        """Returns whether an engine setting is offered: those that this engine does not know are not."""
        return not self._lines[name].isHidden()

    # --- building ---

    def _add_appearance(self) -> None:
        self.theme_choice = QComboBox()
        bits.pass_wheel(self.theme_choice)
        self.theme_choice.view().setAccessibleName(self.tr("Themes"))
        for name, text in (
            ("system", self.tr("System default")),
            ("light", self.tr("Light")),
            ("dark", self.tr("Dark")),
        ):
            self.theme_choice.addItem(text, name)
        self.theme_choice.activated.connect(
            lambda row: self._window.change(theme=self.theme_choice.itemData(row))
        )  # fmt: skip
        self.font_size = QSpinBox()
        self.font_size.setRange(LEAST_PERCENT, MOST_PERCENT)
        self.font_size.setSingleStep(STEP_PERCENT)
        self.font_size.setSuffix(" %")
        self.font_size.setKeyboardTracking(False)
        self.font_size.valueChanged.connect(lambda percent: self._window.change(font_scale=percent / 100))
        self.language = QComboBox()
        bits.pass_wheel(self.language)
        self.language.view().setAccessibleName(self.tr("Languages"))
        for locale, text in (("", self.tr("System default")), *languages.NAMES.items()):
            self.language.addItem(text, locale)
        self.language.activated.connect(lambda row: self._window.change(language=self.language.itemData(row)))
        section = self._section(self.tr("Appearance"))
        words = self.tr("Takes effect when Ragdoll is restarted.")
        self._line(section, self.tr("Language"), words, self.language)
        self._line(section, self.tr("Theme"), "", self.theme_choice)
        bits.tame(self.font_size)
        self._line(section, self.tr("Text size"), "", self.font_size)
        if theme.lacks_cjk_font():
            hint = self.tr("No font for Chinese, Japanese or Korean is installed; such text shows as boxes.")
            section.addWidget(bits.label(f"{hint} (fonts-noto-cjk)", "small", wraps=True))

    def _add_rows(self, title: str, rows: Sequence[Row]) -> QVBoxLayout:
        section = self._section(title)
        for row in rows:
            control = row.make_control()
            control.widget.setObjectName(row.setting)
            control.changed.connect(partial(self._on_engine_control, row.setting))
            self._controls[row.setting] = control
            line = self._line(section, row.name, row.words, control.widget, is_wide=row.is_wide)
            self._lines[row.setting] = line
        return section

    def _add_answers_per_question(self, section: QVBoxLayout) -> None:
        self.answers_per_question = QSpinBox()
        self.answers_per_question.setRange(1, MAX_ANSWERS)
        self.answers_per_question.setKeyboardTracking(False)
        bits.tame(self.answers_per_question)
        self.answers_per_question.valueChanged.connect(
            lambda number: self._window.change(answers_per_question=number)
        )  # fmt: skip
        words = self.tr(
            "Written in parallel from one reading of the passages; the arrows below an answer switch between them. At "
            "temperature 0 all are the same."
        )
        self._line(section, self.tr("Answers per question"), words, self.answers_per_question)

    def _add_embedder(self, section: QVBoxLayout) -> None:
        self._chosen_embedder = ChosenModel(self._embedders, self.tr("Change…"), self.choose_embedder, self)
        self.embedder, self.embedder_name = self._chosen_embedder.button, self._chosen_embedder.name
        self.embedder_coming = self._chosen_embedder.coming
        words = self.tr(
            "Finds passages by meaning; the built-in one understands only English. Another one re-indexes all files in "
            "the background."
        )
        name = self.tr("Embedding model")
        more = self.embedder_name, self.embedder_coming
        self._lines[_EMBEDDER] = self._line(section, name, words, self.embedder, *more)

    def _add_reranker(self, section: QVBoxLayout) -> None:
        self._chosen_reranker = ChosenModel(self._rerankers, self.tr("Choose…"), self.choose_reranker, self)
        self.reranker, self.reranker_name = self._chosen_reranker.button, self._chosen_reranker.name
        words = self.tr(
            "A reranker reads each of the best passages together with the question and puts those that answer it "
            "first. Results are better, but each search takes longer and uses more memory."
        )
        self.reranker_told = bits.label("", "small", wraps=True)
        self.reranker_told.hide()
        name = self.tr("Reranker")
        more = self.reranker_name, self._chosen_reranker.coming, self.reranker_told
        self._lines[_RERANKER] = self._line(section, name, words, self.reranker, *more)

    def _add_models_folder(self, section: QVBoxLayout, usual: str) -> None:
        self._usual_models_folder = usual
        self.models_folder = bits.button(self.tr("Change…"), clicked=self._choose_models_folder)
        words = self.tr("New downloads are saved here. Models that you already have stay where they are.")
        self.models_folder_name = ElidedLabel("", "small")
        self.usual_models_folder = bits.button(
            self.tr("Use the default folder"), "link", clicked=lambda: self._engine.change(_MODELS_FOLDER, "")
        )  # fmt: skip
        back = QWidget()
        back.setLayout(bits.row(self.usual_models_folder, None))
        self._lines[_MODELS_FOLDER] = self._line(
            section,
            self.tr("Folder of models"),
            words,
            self.models_folder,
            self.models_folder_name,
            back,
        )

    def _add_server(self, server: LocalServerModel) -> None:
        section = self._add_rows(self.tr("Other applications"), engine_rows.server())
        self.server = ServerLines(server, self._engine)
        section.addWidget(self.server)

    def _add_data(self, data_folder: str, exports: ChatExports) -> None:
        section = self._section(self.tr("Your data"))
        folder = ElidedLabel(data_folder, "muted")
        show = bits.button(
            self.tr("Show folder"),
            icon="open-external",
            clicked=lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(data_folder)),
        )
        line = bits.row(spacing=16)
        line.addWidget(folder, 1)
        line.addWidget(show)
        section.addLayout(line)
        promise = self.tr("The index and your chats are kept here and nowhere else. No account, no telemetry.")
        section.addWidget(bits.label(promise, "small", wraps=True))
        self.export = ExportLine(exports)
        self.export.message_told.connect(self.message_told)
        self.export.import_wanted.connect(self.import_wanted)
        self.export.folder_import_wanted.connect(self.folder_import_wanted)
        section.addWidget(self.export)

    def _section(self, title: str) -> QVBoxLayout:
        card = QFrame()
        card.setProperty("card", True)
        layout = QVBoxLayout(card)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(14)
        layout.addWidget(bits.label(title, "heading"))
        self._column.addWidget(card)
        return layout

    def _line(
        self,
        section: QVBoxLayout,
        name: str,
        words: str,
        control: QWidget,
        *more: QWidget,
        is_wide: bool = False,
    ) -> QWidget:
        control.setAccessibleName(name)
        control.setAccessibleDescription(words)
        if isinstance(control, QAbstractSpinBox | QComboBox | QLineEdit) and not is_wide:
            bits.keep_letters(control, _CONTROL_LETTERS)
        text = bits.column(bits.label(name), spacing=2)
        if words:
            text.addWidget(bits.label(words, "small", wraps=True))
        for part in more:
            text.addWidget(part)
        if is_wide:
            text.addSpacing(6)
            text.addWidget(control)
        inner = bits.row(spacing=24)
        inner.addLayout(text, 1)
        if not is_wide:
            inner.addWidget(control)
        line = QWidget()
        line.setLayout(inner)
        section.addWidget(line)
        return line

    # --- showing and changing ---

    def _show_window_settings(self) -> None:
        settings = self._window.settings
        self.theme_choice.setCurrentIndex(max(0, self.theme_choice.findData(settings.theme)))
        self.language.setCurrentIndex(max(0, self.language.findData(settings.language)))
        for spin, value in (
            (self.font_size, round(settings.font_scale * 100)),
            (self.answers_per_question, settings.answers_per_question),
        ):
            spin.blockSignals(True)
            spin.setValue(value)
            spin.blockSignals(False)

    def _show_engine_settings(self) -> None:
        engine = self._engine
        for name, line in self._lines.items():
            line.setVisible(engine.has(name) or not engine.is_known)
        for name, control in self._controls.items():
            control.widget.setEnabled(engine.is_known)
            # A user who is typing is not disturbed by unchanged values, nor by an earlier version of the same text.
            if engine.has(name) and name not in self._turned:
                self._show_told(name, control)
        self.embedder.setEnabled(engine.is_known)
        current = engine.value(_EMBEDDER) or self.tr("the built-in one")
        self._chosen_embedder.show_name(current)
        self.reranker.setEnabled(engine.is_known)
        reranker = str(engine.value(_RERANKER) or "")
        self._chosen_reranker.show_name(_last_part(reranker) or self.tr("none"))
        if reranker != self._reranker:
            self._reranker = reranker
            self._rerankers.forget_reading()
            if reranker and self.isVisible():
                self._rerankers.refresh()
        self._show_reading()
        folder = engine.value(_MODELS_FOLDER)
        self.models_folder.setEnabled(engine.is_known)
        self.models_folder_name.setText(
            self.tr("Now: %1").replace("%1", printable(folder or self._usual_models_folder))
        )
        if self.usual_models_folder.hasFocus() and not folder:
            self.models_folder.setFocus()
        self.usual_models_folder.setVisible(bool(folder))

    def _show_told(self, name: str, control: Control) -> None:
        value = self._engine.value(name)
        is_new = name not in self._shown or value != self._shown[name]
        if name in self._shown and _same(value, control.value()):
            self._shown[name] = value
        elif is_new and not (name in self._shown and control.is_typed and control.widget.hasFocus()):
            self._shown[name] = value
            control.show_value(value)

    def _on_refused(self, name: str) -> None:
        """Shows the real value again; a long text is kept, so that it can be corrected."""
        control = self._controls.get(name)
        if control is not None and not control.keeps_refused:
            self._shown[name] = self._engine.value(name)
            control.show_value(self._engine.value(name))

    def _on_engine_control(self, setting: str) -> None:
        self._turned.add(setting)
        self._settle.start()

    def settle(self) -> None:
        self._settle.stop()
        self._send_engine_settings()

    def _send_engine_settings(self) -> None:
        turned, self._turned = self._turned, set()
        for name in turned:
            self._engine.change(name, self._controls[name].value())

    def _choose_models_folder(self) -> None:
        choose_folder(self, lambda paths: self._engine.change(_MODELS_FOLDER, paths[0]))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._engine.value(_RERANKER):
            # How long it took recently.
            self._rerankers.refresh()

    def _show_reading(self) -> None:
        told = self._rerankers
        words = told.problem
        if not words and told.seconds:
            words = self.tr("The last reranking took %1.").replace("%1", seconds_text(told.seconds))
        self.reranker_told.setText(words)
        self.reranker_told.setVisible(bool(words and self._engine.value(_RERANKER)))

    def choose_embedder(self) -> None:
        """Opens the choice of embedding models."""
        dialog = EmbedderDialog(self._engine, self._embedders, self)
        dialog.chosen.connect(lambda model: self._engine.change(_EMBEDDER, model))
        dialog.open()

    def choose_reranker(self) -> None:
        """Opens the choice of rerankers."""
        dialog = RerankerDialog(self._engine, self._rerankers, self)
        dialog.chosen.connect(lambda model: self._engine.change(_RERANKER, model))
        dialog.open()


def _last_part(folder: str) -> str:
    """Returns the name of a folder, with either kind of separators."""
    return folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
