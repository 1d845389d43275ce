"""The presets: named manners of answering; which one the open chat has, and which one new chats start with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.models.turn_records import manner_of, stored_manner
from engine.protocol import Manner, RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore, Preset


class PresetsModel(QObject):
    """`presets` are all, by name. A chat has a copy of the values, so that a change of a preset does not affect it."""

    changed = Signal()
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store.presets
        self.presets: tuple[Preset, ...] = ()
        self._does(lambda: None)

    @property
    def for_new_chats(self) -> Preset | None:
        return next((preset for preset in self.presets if preset.is_for_new_chats), None)

    @property
    def manner_of_new_chats(self) -> Manner:
        preset = self.for_new_chats
        return Manner() if preset is None else self.manner_of(preset)

    def manner_of(self, preset: Preset) -> Manner:
        return manner_of(preset.manner)

    def find(self, preset_id: str) -> Preset | None:
        return next((preset for preset in self.presets if preset.preset_id == preset_id), None)

    def named(self, name: str) -> Preset | None:
        """Returns the preset of that name, ignoring case."""
        wanted = _tidy(name).casefold()
        return next((preset for preset in self.presets if preset.name.casefold() == wanted), None)

    def same_as(self, manner: Manner, preferred: str = "") -> Preset | None:
        """Returns a preset with exactly these values; of several the one with the `preferred` id."""
        same = [preset for preset in self.presets if manner_of(preset.manner) == manner]
        return next((preset for preset in same if preset.preset_id == preferred), same[0] if same else None)

    # --- wishes ---

    def save(self, name: str, manner: Manner) -> None:
        """Saves these values under a name; an existing preset of that name gets them."""
        name, values, there = _tidy(name), stored_manner(manner), self.named(name)
        if there is not None:
            self._does(lambda: self._store.set_manner(there.preset_id, values))
        elif name:
            self._does(lambda: self._store.create(name, values))

    def rename(self, preset_id: str, name: str) -> None:
        """Renames a preset; does nothing if the name is empty or belongs to another preset."""
        name, there = _tidy(name), self.named(name)
        if name and (there is None or there.preset_id == preset_id):
            self._does(lambda: self._store.rename(preset_id, name))

    def begin_new_chats_with(self, preset_id: str | None) -> None:
        """New chats start with a copy of this preset; None: with the settings."""
        self._does(lambda: self._store.begin_new_chats_with(preset_id))

    def delete(self, preset_id: str) -> None:
        self._does(lambda: self._store.delete(preset_id))

    # --- inside ---

    def _does(self, change: Callable[[], object]) -> None:
        try:
            change()
            self.presets = self._store.presets()
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return
        self.changed.emit()


def _tidy(name: str) -> str:
    return " ".join(name.split())
