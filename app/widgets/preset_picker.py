"""The preset of a chat: a button with a menu, in which presets are chosen, saved, renamed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from app import theme
from app.widgets import bits

if TYPE_CHECKING:
    from app.chats import Preset

_NAME_CHARS = 36


class PresetPicker(QPushButton):
    """Its signals carry a preset's id; `new_chats_chosen` may carry None as well."""

    chosen = Signal(str)
    none_chosen = Signal()  # use the settings for everything
    save_wanted = Signal()  # the present values, under a name
    rename_wanted = Signal(str)
    delete_wanted = Signal(str)
    new_chats_chosen = Signal(object)  # str | None: what new chats begin with

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets: tuple[Preset, ...] = ()
        self._shown: Preset | None = None
        self._has_own = False
        self.setAutoDefault(False)
        theme.dress(self, "chevron-down")
        self._menu = QMenu(self)
        self._menu.aboutToShow.connect(self._fill)
        self.setMenu(self._menu)
        bits.opens_popup(self, self._menu)
        self.show_presets((), None, has_own=False)

    def show_presets(self, presets: Sequence[Preset], shown: Preset | None, *, has_own: bool) -> None:
        """Shows the preset with the chat's values, or None: the chat's own, if it `has_own`, or as in the settings."""
        self._presets, self._shown, self._has_own = tuple(presets), shown, has_own
        own = self.tr("Custom values") if has_own else self._none_text()
        text = own if shown is None else shown.name
        short = text if len(text) <= _NAME_CHARS else f"{text[: _NAME_CHARS - 1]}…"
        self.setText(f" {bits.literal(short)}")
        self.setAccessibleName(self.tr("Preset: %1").replace("%1", text))

    # --- the menu ---

    def _fill(self) -> None:
        menu = self._menu
        for old in (*menu.findChildren(QMenu), *menu.findChildren(QActionGroup)):
            old.deleteLater()
        menu.clear()
        shown = self._shown.preset_id if self._shown is not None else None
        self._add_choices(menu, None if self._has_own and shown is None else (shown,), self._on_chosen)
        menu.addSeparator()
        menu.addAction(self.tr("Save as a preset…"), self.save_wanted.emit).setEnabled(self._has_own)
        if self._presets:
            self._add_names(menu.addMenu(self.tr("Rename")), self.rename_wanted.emit)
            self._add_names(menu.addMenu(self.tr("Delete")), self.delete_wanted.emit)
            for_new = next((preset.preset_id for preset in self._presets if preset.is_for_new_chats), None)
            new_chats = menu.addMenu(self.tr("Start new chats with"))
            self._add_choices(new_chats, (for_new,), self.new_chats_chosen.emit)

    def _add_choices(
        self, menu: QMenu, checked: tuple[str | None] | None, chosen: Callable[[str | None], object]
    ) -> None:
        """Adds "no preset", then each preset; `checked` holds the chosen one, None if it is none of them."""
        group = QActionGroup(menu)
        choices = [(None, self._none_text()), *((preset.preset_id, preset.name) for preset in self._presets)]
        for preset_id, name in choices:
            action: QAction = menu.addAction(bits.literal(name), partial(chosen, preset_id))
            action.setCheckable(True)
            action.setChecked(checked == (preset_id,))
            action.setActionGroup(group)

    def _add_names(self, menu: QMenu, wanted: Callable[[str], object]) -> None:
        for preset in self._presets:
            menu.addAction(f"{bits.literal(preset.name)}…", partial(wanted, preset.preset_id))

    def _none_text(self) -> str:
        return self.tr("As in the settings")

    def _on_chosen(self, preset_id: str | None) -> None:
        if preset_id is None:
            self.none_chosen.emit()
        else:
            self.chosen.emit(preset_id)
