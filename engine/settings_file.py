"""The settings file, `engine.toml`: written only here and only by the engine; an error in it affects one value only.

It is written whole or not at all, and unknown keys are kept as they are, so that an older Ragdoll does not delete
a newer one's settings.
"""

from __future__ import annotations

import copy
import shutil
import threading
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from pydantic import BaseModel, ValidationError
from tomlkit.exceptions import TOMLKitError

from engine.config import Settings, in_our_folder, write_atomically
from engine.errors import BadRequest, first_fault


class SettingsStore:
    """The settings in force and their file; every change is validated as a whole before it is written."""

    def __init__(self, file: Path) -> None:
        """Reads the file; `problem` says which part of it is not used."""
        self._file = file
        self._stamp = _stamp(file)
        self._document, self._unreadable = _read(file)
        self._changing = threading.Lock()
        self._assumed: dict[str, Any] = {}
        self.settings, self._faults = _without_faults(self._document.unwrap())

    @property
    def problem(self) -> str:
        """Which part of the file is not used, in a sentence; "" if all of it is."""
        if self._unreadable:
            return f"{self._file} cannot be read {self._unreadable}"
        if self._faults:
            # The file is left as it is until the user corrects it.
            fault = self._faults[0].told
            return f"{self._file} has a wrong value ({fault}); the default is used until it is corrected."
        return ""

    def knows(self, name: str) -> bool:
        """Returns whether the file determines a setting, also by omitting it; False where it could not be read."""
        table, _, key = name.partition(".")
        return not self._unreadable and not any(fault.place[:2] in ((table,), (table, key)) for fault in self._faults)

    def assume(self, changes: Mapping[str, Any]) -> None:
        """Replaces settings that could not be read by these, and writes them with the next change."""
        self.settings = self._changed(changes)
        self._assumed = dict(changes)

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Applies changes by dotted name (`{"generation.temperature": 0.7}`); all of them, or none. From any thread.

        Edits of the file since it was read take effect with them.

        Raises:
            BadRequest: A name is unknown or a value out of range; the sentence says which.
            DiskFull, HomeUnusable: They could not be saved; nothing has changed.
        """
        with self._changing:
            before = self._document, self._unreadable, self._stamp, self.settings, self._faults, self._assumed
            try:
                return self._change(changes)
            except BaseException:
                # Edits of the file take effect with the next change that succeeds.
                self._document, self._unreadable, self._stamp, self.settings, self._faults, self._assumed = before
                raise

    def _change(self, changes: Mapping[str, Any]) -> Settings:
        self._take_in()
        settings = self._changed(changes)
        self._write({**self._assumed, **changes})
        self.settings, self._assumed = settings, {}
        _, self._faults = _without_faults(self._document.unwrap())
        return settings

    def _take_in(self) -> None:
        """Reads the file again if it changed since we read or wrote it: the user corrected it, or is about to."""
        stamp = _stamp(self._file)
        if stamp in (self._stamp, None):
            return
        document, self._unreadable = _read(self._file)
        self._stamp = stamp
        if not self._unreadable:
            self._document = document
            self.settings, self._faults = _without_faults(document.unwrap())
            self._assumed = {name: value for name, value in self._assumed.items() if not self.knows(name)}
            self.settings = self._changed(self._assumed)

    def _changed(self, changes: Mapping[str, Any]) -> Settings:
        tables = self.settings.model_dump()
        for name, value in changes.items():
            table, _, key = name.partition(".")
            if key not in getattr(Settings.model_fields.get(table), "annotation", BaseModel).model_fields:
                raise BadRequest(f"There is no setting named {name!r}.")
            tables[table][key] = value
        try:
            return Settings.model_validate(tables)
        except ValidationError as error:
            raise BadRequest(f"That setting cannot be used: {first_fault(error)}.") from error

    def _write(self, changes: Mapping[str, Any]) -> None:
        # A copy, so that a change that could not be written is not written with the next one.
        document = copy.deepcopy(self._document)
        for name, value in changes.items():
            table, _, key = name.partition(".")
            section = document.get(table)
            if not isinstance(section, MutableMapping):
                document[table] = section = tomlkit.table()
            if value is None:
                section.pop(key, None)
            else:
                section[key] = list(value) if isinstance(value, tuple) else value
        with in_our_folder(self._file.parent):
            if self._unreadable:
                # Kept for the user. A copy, so that nothing is changed if there is no room for the new file.
                shutil.copyfile(self._file, _aside(self._file))
            write_atomically(self._file, tomlkit.dumps(document).encode())
        self._document, self._unreadable, self._stamp = document, "", _stamp(self._file)


class Fault(NamedTuple):
    """An invalid value of the file: where it is, and what is wrong with it."""

    place: tuple[int | str, ...]
    told: str


def _without_faults(tables: dict[str, Any]) -> tuple[Settings, list[Fault]]:
    """Returns the settings without the invalid values, and what is wrong with these.

    A mistake in a hand-edited file, or a bound that a newer Ragdoll tightened, affects that value only: without the
    others the chosen model would be gone, and the library would begin to move to the default embedder.
    """
    faults: list[Fault] = []
    while True:
        try:
            return Settings.model_validate(tables), faults
        except ValidationError as error:
            place = error.errors()[0]["loc"]
            faults.append(Fault(place, first_fault(error)))
            if not _drop(tables, place):
                return Settings(), faults


def _drop(tables: Any, place: tuple[int | str, ...]) -> bool:
    """Deletes the value at a place, or its nearest existing parent; False if there is none."""
    inner, holders = tables, list[tuple[Any, int | str]]()
    for part in place:
        # Only keys of tables and indices of lists: other parts of a place name the type that was tried.
        if not (part in inner if isinstance(inner, dict) else isinstance(inner, list) and isinstance(part, int)):
            break
        holders.append((inner, part))
        inner = inner[part]
    for holder, part in holders[-1:]:
        del holder[part]
    return bool(holders)


def _aside(file: Path) -> Path:
    return file.with_suffix(".broken.toml")


def _stamp(file: Path) -> tuple[int, int] | None:
    """Returns a value that differs once the file was written; None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(file: Path) -> tuple[tomlkit.TOMLDocument, str]:
    """Returns the content of the file; and why it cannot be read and what follows, "" if it can."""
    try:
        return tomlkit.parse(file.read_text(encoding="utf-8")), ""
    except FileNotFoundError:
        return tomlkit.document(), ""
    except (TOMLKitError, UnicodeDecodeError) as error:
        return (
            tomlkit.document(),
            f"({error}); defaults are used. It becomes {_aside(file).name} when a setting is changed.",
        )
    except OSError as error:
        return tomlkit.document(), f"({error.strerror}); defaults are used, and none can be changed until it can be."
