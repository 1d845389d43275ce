"""The settings' file, `engine.toml`: written only here and only by the engine, and a slip in it costs only itself.

It is written whole or not at all, and with keys we do not know kept as they are, so that an older Ragdoll does not eat
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
        """`problem` is what of the file is not used, in a sentence."""
        self._file = file
        self._stamp = _stamp(file)
        self._document, self._unreadable = _read(file)
        self._changing = threading.Lock()
        self._assumed: dict[str, Any] = {}
        self.settings, self._faults = _without_faults(self._document.unwrap())

    @property
    def problem(self) -> str:
        """What of the file is not used, in a sentence; "" where all of it is."""
        if self._unreadable:
            return f"{self._file} cannot be read {self._unreadable}"
        if self._faults:
            # The file is left as it is until somebody mends it.
            return f"{self._file} has a wrong value ({self._faults[0].told}); the default is used until it is mended."
        return ""

    def knows(self, name: str) -> bool:
        """Whether the file says what a setting is to be, if by saying nothing; False where it could not be read."""
        table, _, key = name.partition(".")
        return not self._unreadable and not any(fault.place[:2] in ((table,), (table, key)) for fault in self._faults)

    def assume(self, changes: Mapping[str, Any]) -> None:
        """Has settings that could not be read be these, and writes them with the next change."""
        self.settings = self._changed(changes)
        self._assumed = dict(changes)

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Applies changes by dotted name (`{"generation.temperature": 0.7}`); all of them, or none. From any thread.

        What somebody has written into the file meanwhile comes into force with them.

        Raises:
            BadRequest: A name is unknown or a value out of range; the sentence says which.
            DiskFull, HomeUnusable: They could not be saved; nothing has changed.
        """
        with self._changing:
            before = self._document, self._unreadable, self._stamp, self.settings, self._faults, self._assumed
            try:
                return self._change(changes)
            except BaseException:
                # What somebody has written into the file waits for a change that can be made.
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
        """Follows a file that is another than we read or wrote: somebody mended it, or is about to."""
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
        # A copy, so that a change that could not be written does not come along with the next one.
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
                # For the user to look at. A copy: without room for what comes in its place, nothing is changed.
                shutil.copyfile(self._file, _aside(self._file))
            write_atomically(self._file, tomlkit.dumps(document).encode())
        self._document, self._unreadable, self._stamp = document, "", _stamp(self._file)


class Fault(NamedTuple):
    """A value of the file that cannot be: where it is, and what is wrong with it."""

    place: tuple[int | str, ...]
    told: str


def _without_faults(tables: dict[str, Any]) -> tuple[Settings, list[Fault]]:
    """Settings without the values that cannot be, and what is wrong with these.

    A slip in a hand-edited file, or a bound that a newer Ragdoll draws closer, costs that value only: without the
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
    """Takes out what lies at a place, or as near to it as there is anything; False where there is nothing."""
    inner, holders = tables, list[tuple[Any, int | str]]()
    for part in place:
        # Only keys of tables and places in lists: what else a place names is the type that was tried.
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
    """Differs once somebody has written the file; None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(file: Path) -> tuple[tomlkit.TOMLDocument, str]:
    """What the file says; and why it cannot be read and what comes of that, "" where it can."""
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
