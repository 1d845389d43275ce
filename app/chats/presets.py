"""PresetStore: manners of answering that have a name, to be copied into chats; in the chats' file."""

from __future__ import annotations

import json
import sqlite3
from typing import Any
from uuid import uuid4

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.chats.columns import parsed, storable
from app.chats.errors import Words
from app.chats.records import Json, Preset
from app.chats.runs import Change

_ALL = str(QT_TRANSLATE_NOOP("chats", "The presets"))
_ONCE_THERE_IS_ROOM = str(QT_TRANSLATE_NOOP("chats", "Free some space, then try again."))
_READING = Words(_ALL, str(QT_TRANSLATE_NOOP("chats", "they cannot be read")), _ONCE_THERE_IS_ROOM)
_CHANGING = Words(_ALL, str(QT_TRANSLATE_NOOP("chats", "this preset cannot be saved")), _ONCE_THERE_IS_ROOM)
_DELETING = Words(_ALL, str(QT_TRANSLATE_NOOP("chats", "this preset cannot be deleted")), _ONCE_THERE_IS_ROOM)


class PresetStore:
    """All methods raise ChatsUnusable when the disk or the file does not let them; made by the ChatStore."""

    def __init__(self, connection: sqlite3.Connection, change: Change, telling: Change) -> None:
        """`change` makes a block one transaction; `telling` only converts errors."""
        self._connection, self._change, self._telling = connection, change, telling

    def presets(self) -> tuple[Preset, ...]:
        """Returns all presets, by name."""
        with self._telling(_READING):
            rows = self._connection.execute(
                "SELECT preset_id, name, manner, is_for_new_chats FROM presets ORDER BY number"
            ).fetchall()
        return tuple(sorted(map(_preset, rows), key=lambda preset: preset.name.casefold()))

    def create(self, name: str, manner: Json) -> Preset:
        made = Preset(uuid4().hex, storable(name), manner)
        with self._change(_CHANGING):
            self._connection.execute(
                "INSERT INTO presets (preset_id, name, manner) VALUES (?, ?, ?)",
                (made.preset_id, made.name, json.dumps(manner)),
            )
        return made

    def set_manner(self, preset_id: str, manner: Json) -> None:
        """Changes what is copied from now on; chats that have a copy keep it as it is."""
        with self._change(_CHANGING):
            self._connection.execute(
                "UPDATE presets SET manner = ? WHERE preset_id = ?", (json.dumps(manner), preset_id)
            )

    def rename(self, preset_id: str, name: str) -> None:
        with self._change(_CHANGING):
            self._connection.execute("UPDATE presets SET name = ? WHERE preset_id = ?", (storable(name), preset_id))

    def begin_new_chats_with(self, preset_id: str | None) -> None:
        """Makes new chats begin with a copy of this preset; None: with no preset."""
        with self._change(_CHANGING):
            self._connection.execute("UPDATE presets SET is_for_new_chats = (preset_id IS ?)", (preset_id,))

    def delete(self, preset_id: str) -> None:
        """Deletes a preset; chats that have a copy keep it."""
        with self._change(_DELETING):
            self._connection.execute("DELETE FROM presets WHERE preset_id = ?", (preset_id,))


def _preset(row: tuple[Any, ...]) -> Preset:
    preset_id, name, manner, is_for_new_chats = row
    return Preset(preset_id, name, parsed(manner, {}), bool(is_for_new_chats))
