"""Instructions and settings of one chat. There is no Save button: changes apply from the next question on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QDialog,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.widgets import bits
from app.widgets.figures import count_text
from app.widgets.preset_picker import PresetPicker
from app.windows import manner_rows
from app.windows.preset_name_dialog import PresetNameDialog
from app.windows.questions import ask_first
from engine.protocol import MAX_INSTRUCTIONS, Manner

if TYPE_CHECKING:
    from app.models.conversation import ConversationModel
    from app.models.engine_settings import EngineSettingsModel
    from app.models.presets import PresetsModel
    from app.widgets.setting_controls import Control

_WIDTH_PX, _HEIGHT_PX = 600, 720
_CONTROL_LETTERS = 15
_INDENT_PX = 24
# Typing emits many changes; only the last one is saved.
_SETTLE_MS = 400


@dataclass(frozen=True, slots=True)
class _Row:
    """A value that a chat may have of its own: the box that says whether, its control, and the widget with both."""

    is_own: QCheckBox
    control: Control
    line: QWidget


class MannerDialog(QDialog):
    """Shows how a conversation is answered, next to the settings; unticked values follow the settings."""

    def __init__(
        self,
        conversation: ConversationModel,
        presets: PresetsModel,
        settings: EngineSettingsModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._conversation, self._presets, self._settings = conversation, presets, settings
        self.setWindowTitle(self.tr("Instructions and settings of this chat"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._tell)
        # The preset that was chosen or saved last; and the unsaved values that it replaced, with the preset chosen
        # before.
        self._preset_id = ""
        self._replaced: tuple[str, Manner] | None = None
        self._left_out: dict[str, object] = {}
        self.picker = PresetPicker()
        self.undo = bits.button(self.tr("Undo"), "link", clicked=self._on_undo)
        self.undo.setToolTip(self.tr("Restores the values from before the preset was chosen"))
        self.note = bits.label(
            self.tr(
                "The next question takes longer once: the model has to read the conversation with the new instructions."
            ),
            "small",
            wraps=True,
        )
        self.problem = bits.label("", "problem", wraps=True)
        # The window's message bar shows it as well, but is behind this dialog.
        self.failure = bits.label("", "problem", wraps=True)
        self.failure.hide()
        self._example = ""
        self._rows = self._made_rows()
        self.close_button = bits.button(self.tr("Close"), clicked=self.accept)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(12)
        layout.addWidget(bits.label(self.windowTitle(), "heading", wraps=True))
        what = self.tr("Unticked values follow the settings. Changes apply from the next question on.")
        layout.addWidget(bits.label(what, "small", wraps=True))
        layout.addLayout(bits.row(bits.label(self.tr("Preset")), self.picker, self.undo, None))
        layout.addWidget(bits.line())
        self._scroll = self._scrolled()
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self.failure)
        layout.addLayout(bits.row(None, self.close_button))
        self._connect()
        self._show()
        self._fit()
        first = self._rows["instructions"]
        (first.control.widget if first.is_own.isChecked() else first.is_own).setFocus()

    def own_box(self, name: str) -> QCheckBox:
        """Returns the box that says whether the chat has its own value, by its name in a Manner."""
        return self._rows[name].is_own

    def control(self, name: str) -> QWidget:
        """Returns the control of that value."""
        return self._rows[name].control.widget

    def done(self, result: int) -> None:
        """Applies edits in progress, as if each field had lost the focus; asks before anything is lost."""
        if (focused := self.focusWidget()) is not None:
            focused.clearFocus()
        self._tell()
        if self._num_too_many > 0:
            ask_first(
                self,
                self.tr("Close without these instructions?"),
                self.tr("They are too long to be saved and would be lost. This chat keeps the previous ones."),
                self.tr("Close"),
                self._leave,
            )
            return
        super().done(result)

    def _leave(self) -> None:
        """Closes without giving the shown values to the conversation, because another one may be open by now."""
        super().done(QDialog.DialogCode.Rejected)

    # --- building ---

    def _made_rows(self) -> dict[str, _Row]:
        made = {}
        for name, row in manner_rows.rows().items():
            is_own, control = QCheckBox(row.name), manner_rows.control_of(name, row)
            is_own.setAccessibleDescription(self.tr("This chat has its own value"))
            control.widget.setAccessibleName(row.name)
            control.widget.setAccessibleDescription(row.words)
            words = bits.label(row.words, "small", wraps=True)
            made[name] = _Row(is_own, control, self._line(name, is_own, words, control.widget))
        return made

    def _line(self, name: str, is_own: QCheckBox, words: QLabel, control: QWidget) -> QWidget:
        below = bits.column(words, spacing=6)
        below.setContentsMargins(_INDENT_PX, 0, 0, 0)
        text = bits.column(is_own, spacing=2)
        text.addLayout(below)
        line = QWidget()
        if isinstance(control, QPlainTextEdit):
            self._example = control.placeholderText()
            for part in (control, self.problem, self.note):
                below.addWidget(part)
            line.setLayout(text)
            return line
        if isinstance(control, QAbstractSpinBox | QComboBox):
            bits.keep_letters(control, _CONTROL_LETTERS)
        inner: QHBoxLayout = bits.row(spacing=24)
        inner.addLayout(text, 1)
        inner.addWidget(control)
        line.setLayout(inner)
        return line

    def _scrolled(self) -> QScrollArea:
        content = QWidget()
        content.setObjectName("column")
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 8, 0)
        column.setSpacing(14)
        for row in self._rows.values():
            column.addWidget(row.line)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return scroll

    def _connect(self) -> None:
        for name, row in self._rows.items():
            row.is_own.clicked.connect(partial(self._on_ticked, name))
            row.control.changed.connect(self._settle.start)
        self.picker.chosen.connect(self._on_chosen)
        self.picker.none_chosen.connect(self._on_none_chosen)
        self.picker.save_wanted.connect(self._on_save_wanted)
        self.picker.rename_wanted.connect(self._on_rename_wanted)
        self.picker.delete_wanted.connect(self._on_delete_wanted)
        self.picker.new_chats_chosen.connect(self._presets.begin_new_chats_with)
        self._presets.changed.connect(self._show)
        self._presets.changed.connect(self.failure.hide)
        for failed in (self._presets.store_failed, self._conversation.store_failed):
            failed.connect(self._on_failed)
        self._settings.settings_changed.connect(self._show_settings)
        self._conversation.manner_changed.connect(self._show)
        self._conversation.conversation_changed.connect(self._leave)

    def _fit(self) -> None:
        parent = self.parentWidget()
        room = parent.window().size() if parent is not None else self.size().expandedTo(self.sizeHint())
        self.resize(min(_WIDTH_PX, room.width()), min(_HEIGHT_PX, room.height()))

    # --- showing ---

    def _show(self) -> None:
        """Shows the conversation's values, unless an edit is about to be applied."""
        if not self._settle.isActive():
            self._show_rows(self._rows)
            self._show_preset()
            self._show_notes()

    def _show_settings(self) -> None:
        """Shows changed settings where the chat follows them; the user cannot be typing there."""
        self._show_rows(name for name, row in self._rows.items() if not row.is_own.isChecked())
        self._show_notes()

    def _show_rows(self, names: Iterable[str]) -> None:
        own = self._conversation.manner.model_dump()
        for name in names:
            if name == "instructions" and self._num_too_many > 0:
                # The text stays, so that it can be corrected.
                continue
            row, setting = self._rows[name], manner_rows.SETTING_OF[name]
            is_own, is_known = own[name] is not None, self._settings.is_known
            row.line.setVisible(is_own or not is_known or self._settings.has(setting))
            row.is_own.setChecked(is_own)
            # Until the settings are known, there is no value to begin with.
            row.is_own.setEnabled(is_own or is_known or name == "instructions" or name in self._left_out)
            row.control.widget.setEnabled(is_own)
            value = own[name] if is_own else self._settings.value(setting)
            if isinstance(row.control.widget, QPlainTextEdit):
                none = self.tr("No instructions in the settings")
                row.control.widget.setPlaceholderText(self._example if is_own else none)
                value = value or ""
            # A number that is being typed is not a value yet, and must not be overwritten by the previous one.
            if value is not None and value != row.control.value():
                row.control.show_value(value)

    def _show_preset(self) -> None:
        manner = self._conversation.manner
        shown = self._presets.same_as(manner, self._preset_id)
        self.picker.show_presets(self._presets.presets, shown, has_own=manner != Manner())
        if self.focusWidget() is self.undo and self._replaced is None:
            self.picker.setFocus()
        self.undo.setVisible(self._replaced is not None)

    def _show_notes(self) -> None:
        words = self.tr("%1 characters too long. Until they are shorter, this chat keeps the previous instructions.")
        self.problem.setText(words.replace("%1", count_text(self._num_too_many)))
        self.problem.setVisible(self._num_too_many > 0)
        now = self._told_with(self._conversation.manner.instructions)
        before = self._told_with(self._conversation.read_with)
        self.note.setVisible(self._conversation.was_read and now != before)

    def _on_failed(self, sentence: str, way_out: str) -> None:
        self.failure.setText(f"{sentence} {way_out}".strip())
        self.failure.show()

    def _told_with(self, own: str | None) -> str:
        """Returns the instructions that a model gets if a chat has these of its own, or None."""
        usual = self._settings.value(manner_rows.SETTING_OF["instructions"]) or ""
        return str(usual if own is None else own).strip()

    @property
    def _num_too_many(self) -> int:
        """Returns by how many characters the instructions are too long."""
        row = self._rows["instructions"]
        return len(str(row.control.value())) - MAX_INSTRUCTIONS if row.is_own.isChecked() else 0

    # --- changing ---

    def _on_ticked(self, name: str) -> None:
        """Enables or disables a value; one that was unticked in this dialog is restored when it is ticked again."""
        row = self._rows[name]
        is_own = row.is_own.isChecked()
        if not is_own:
            self._left_out[name] = row.control.value()
        elif name in self._left_out:
            row.control.show_value(self._left_out[name])
        row.control.widget.setEnabled(is_own)
        self._tell()

    def _tell(self) -> None:
        """Gives the shown values to the conversation."""
        self._settle.stop()
        wanted = {name: row.control.value() for name, row in self._rows.items() if row.is_own.isChecked()}
        if self._num_too_many > 0:
            wanted["instructions"] = self._conversation.manner.instructions
        self._set(Manner.model_validate(wanted))

    def _set(self, manner: Manner, replaced: tuple[str, Manner] | None = None) -> None:
        if manner != self._conversation.manner:
            self._replaced = replaced
            self.failure.hide()
            self._conversation.set_manner(manner)
        self._show_notes()

    def _on_chosen(self, preset_id: str) -> None:
        preset = self._presets.find(preset_id)
        if preset is not None:
            self._replace(preset_id, self._presets.manner_of(preset))

    def _on_none_chosen(self) -> None:
        self._replace("", Manner())

    def _replace(self, preset_id: str, manner: Manner) -> None:
        """Replaces the present values, which can be restored by Undo if no preset has them."""
        self._tell()
        before = self._conversation.manner
        is_lost = before != Manner() and self._presets.same_as(before) is None
        self._put(preset_id, manner, (self._preset_id, before) if is_lost else None)

    def _on_undo(self) -> None:
        if self._replaced is not None:
            self._put(*self._replaced)

    def _put(self, preset_id: str, manner: Manner, replaced: tuple[str, Manner] | None = None) -> None:
        """Replaces all that is shown, applied or not, by these values."""
        self._settle.stop()
        self._preset_id = preset_id
        self._rows["instructions"].is_own.setChecked(False)
        self._set(manner, replaced)
        self._show()

    # --- presets ---

    def _on_save_wanted(self) -> None:
        self._tell()
        if self._num_too_many > 0:
            # Otherwise the previous instructions would be saved under the new name.
            self._rows["instructions"].control.widget.setFocus()
            self._scroll.ensureWidgetVisible(self.problem)
            return
        last = self._presets.find(self._preset_id)
        names = [preset.name for preset in self._presets.presets]
        dialog = PresetNameDialog(last.name if last is not None else "", names, self)
        dialog.given.connect(self._on_name_given)
        dialog.open()

    def _on_name_given(self, name: str) -> None:
        self._presets.save(name, self._conversation.manner)
        saved = self._presets.named(name)
        self._preset_id = saved.preset_id if saved is not None else ""
        self._show_preset()

    def _on_rename_wanted(self, preset_id: str) -> None:
        preset = self._presets.find(preset_id)
        if preset is not None:
            names = [other.name for other in self._presets.presets if other is not preset]
            dialog = PresetNameDialog(preset.name, names, self, is_new=False)
            dialog.given.connect(lambda name: self._presets.rename(preset_id, name))
            dialog.open()

    def _on_delete_wanted(self, preset_id: str) -> None:
        preset = self._presets.find(preset_id)
        if preset is not None:
            stays = self.tr("Chats that have its values keep them.")
            ends = self.tr("New chats then start with the values of the settings.")
            ask_first(
                self,
                self.tr("Delete the preset “%1”?").replace("%1", preset.name),
                f"{stays} {ends}" if preset.is_for_new_chats else stays,
                self.tr("Delete"),
                lambda: self._presets.delete(preset_id),
            )
