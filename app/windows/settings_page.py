"""Settings: how it looks, how answers are written, where the data lives. Nothing to save: each takes effect at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.models.engine_settings import EngineSettingsModel
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.windows.page import Page

if TYPE_CHECKING:
    from app.models import AppModels

_CONTROL_PX = 160
_SETTLE_MS = 500
_PERCENT = (70, 250)
_WIDEST_PX = 760


class SettingsPage(Page):
    """The window's settings through AppModels.settings, the engine's through the engine."""

    message_told = Signal(str, str, str)  # severity, sentence, way out

    def __init__(self, models: AppModels, data_folder: str, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Settings"), "", parent)
        self.subtitle.hide()
        self._window = models.settings
        self._engine = EngineSettingsModel(models.client, self)
        self._engine_controls: dict[str, QSpinBox | QDoubleSpinBox] = {}
        self._turned: set[str] = set()
        # A spin box that is being turned is many changes; the engine is told the last one.
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._send_engine_settings)
        content = QWidget()
        content.setObjectName("column")
        content.setMaximumWidth(_WIDEST_PX)
        self._column = QVBoxLayout(content)
        self._column.setContentsMargins(0, 0, 8, 0)
        self._column.setSpacing(12)
        self._add_appearance()
        self._add_answers()
        self._add_data(data_folder)
        self._column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.body.addWidget(scroll, 1)
        self._engine.settings_changed.connect(self._show_engine_settings)
        self._engine.request_failed.connect(lambda *words: self.message_told.emit("error", *words))
        self._window.settings_changed.connect(self._show_window_settings)
        self._show_window_settings()
        self._show_engine_settings()

    @property
    def engine_settings(self) -> EngineSettingsModel:
        return self._engine

    def engine_control(self, name: str) -> QSpinBox | QDoubleSpinBox:
        """The control of an engine setting by its dotted name."""
        return self._engine_controls[name]

    # --- building ---

    def _add_appearance(self) -> None:
        self.theme_choice = QComboBox()
        self.theme_choice.view().setAccessibleName(self.tr("Themes"))
        for name, text in (
            ("system", self.tr("As the system")),
            ("light", self.tr("Light")),
            ("dark", self.tr("Dark")),
        ):
            self.theme_choice.addItem(text, name)
        self.theme_choice.activated.connect(
            lambda row: self._window.change(theme=self.theme_choice.itemData(row))
        )  # fmt: skip
        self.font_size = QSpinBox()
        self.font_size.setRange(*_PERCENT)
        self.font_size.setSingleStep(10)
        self.font_size.setSuffix(" %")
        self.font_size.setKeyboardTracking(False)
        self.font_size.valueChanged.connect(lambda percent: self._window.change(font_scale=percent / 100))
        section = self._section(self.tr("Appearance"))
        self._line(section, self.tr("Theme"), "", self.theme_choice)
        self._line(section, self.tr("Text size"), "", self.font_size)
        if theme.lacks_cjk_font():
            hint = self.tr("No font for Chinese, Japanese or Korean is installed; such text shows as boxes.")
            section.addWidget(bits.label(f"{hint} (fonts-noto-cjk)", "small", wraps=True))

    def _add_answers(self) -> None:
        section = self._section(self.tr("Answers"))
        temperature = QDoubleSpinBox()
        temperature.setRange(0.0, 2.0)
        temperature.setSingleStep(0.1)
        temperature.setDecimals(2)
        self._engine_line(
            section, "generation.temperature", self.tr("Temperature"),
            self.tr("0 always chooses the likeliest word; higher is livelier and less exact."), temperature,
        )  # fmt: skip
        self._engine_line(
            section, "generation.max_answer_tokens", self.tr("Longest answer"),
            self.tr("Tokens; about three quarters of a word each."), _spin(16, 8192, 64),
        )  # fmt: skip
        self._engine_line(
            section, "retrieval.passages", self.tr("Passages an answer reads"),
            self.tr("More passages cover more files and take longer to read."), _spin(1, 64, 1),
        )  # fmt: skip
        self._engine_line(
            section, "generation.max_context", self.tr("Context"),
            self.tr("Tokens that question, passages and answer share; takes effect when a model is loaded."),
            _spin(256, 131_072, 1024),
        )  # fmt: skip

    def _add_data(self, data_folder: str) -> None:
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

    def _section(self, title: str) -> QVBoxLayout:
        card = QFrame()
        card.setProperty("card", True)
        layout = QVBoxLayout(card)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(14)
        layout.addWidget(bits.label(title, "heading"))
        self._column.addWidget(card)
        return layout

    def _line(self, section: QVBoxLayout, name: str, words: str, control: QWidget) -> None:
        control.setAccessibleName(name)
        control.setAccessibleDescription(words)
        control.setFixedWidth(_CONTROL_PX)
        if isinstance(control, QAbstractSpinBox):
            bits.tame(control)
        text = bits.column(bits.label(name), spacing=2)
        if words:
            text.addWidget(bits.label(words, "small", wraps=True))
        line = bits.row(spacing=24)
        line.addLayout(text, 1)
        line.addWidget(control)
        section.addLayout(line)

    def _engine_line(
        self, section: QVBoxLayout, setting: str, name: str, words: str, control: QSpinBox | QDoubleSpinBox
    ) -> None:
        control.setKeyboardTracking(False)
        control.valueChanged.connect(lambda: self._on_engine_control(setting))
        self._engine_controls[setting] = control
        self._line(section, name, words, control)

    # --- showing and changing ---

    def _show_window_settings(self) -> None:
        settings = self._window.settings
        self.theme_choice.setCurrentIndex(max(0, self.theme_choice.findData(settings.theme)))
        self.font_size.blockSignals(True)
        self.font_size.setValue(round(settings.font_scale * 100))
        self.font_size.blockSignals(False)

    def _show_engine_settings(self) -> None:
        for name, control in self._engine_controls.items():
            control.setEnabled(self._engine.is_known)
            value = self._engine.value(name)
            if value is not None and not self._settle.isActive():
                control.blockSignals(True)
                control.setValue(value)
                control.blockSignals(False)

    def _on_engine_control(self, setting: str) -> None:
        self._turned.add(setting)
        self._settle.start()

    def _send_engine_settings(self) -> None:
        turned, self._turned = self._turned, set()
        for name in turned:
            self._engine.change(name, round(self._engine_controls[name].value(), 2))


def _spin(lowest: int, highest: int, step: int) -> QSpinBox:
    control = QSpinBox()
    control.setRange(lowest, highest)
    control.setSingleStep(step)
    control.setGroupSeparatorShown(True)
    return control
