"""Where the window's files live, and its own settings: `window.toml`, written only here, atomically.

Unknown keys are kept as they are, so that an older Ragdoll does not delete the settings of a newer one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QObject, Signal

from app.private import keep_private, private_folder

if TYPE_CHECKING:
    from platformdirs import PlatformDirs
    from tomlkit import TOMLDocument


# More side by side would each be written noticeably slower.
MAX_ANSWERS = 4
MOST_SOURCES_PX = 4000
_UNREADABLE = str(QT_TRANSLATE_NOOP("settings_file", "%1 cannot be read (%2); defaults are used."))
_WRONG = str(
    QT_TRANSLATE_NOOP("settings_file", "%1 has a wrong value (%2); the default is used until it is corrected.")
)
_UNWRITABLE = str(QT_TRANSLATE_NOOP("settings_file", "%1 cannot be written (%2)."))


@dataclass(frozen=True, slots=True)
class AppHome:
    """Our folders, the same as the engine's: below `RAGDOLL_HOME` if it is set, otherwise the platform's."""

    data: Path
    config: Path
    logs: Path
    runtime: Path

    @classmethod
    def find(cls) -> AppHome:
        override = os.environ.get("RAGDOLL_HOME")
        if override:
            return cls.under(Path(override))
        import platformdirs

        dirs = platformdirs.PlatformDirs("ragdoll", appauthor=False)
        return cls(dirs.user_data_path, dirs.user_config_path, dirs.user_log_path, _runtime(dirs))

    @classmethod
    def under(cls, root: Path) -> AppHome:
        root = root.expanduser().absolute()
        return cls(root / "data", root / "config", root / "logs", root / "run")

    @property
    def chats_file(self) -> Path:
        return self.data / "chats.sqlite"

    @property
    def pasted_folder(self) -> Path:
        """Holds pasted texts and pictures; created with the first of them."""
        return self.data / "pasted"

    @property
    def settings_file(self) -> Path:
        return self.config / "window.toml"

    @property
    def lock_file(self) -> Path:
        """Lies beside the chats that it protects, so that other computers that share them share the lock as well."""
        return self.data / "window.lock"

    @property
    def socket_file(self) -> Path:
        """Lets a second start reach the first; in the runtime folder, because not every disk supports sockets."""
        return self.runtime / "window.socket"

    def create(self) -> None:
        """Makes our folders, private to this user. Raises OSError if one cannot be made.

        The data folder keeps its permissions: models in it may be shared by all users of this computer.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        for folder in (self.config, self.logs, self.runtime):
            private_folder(folder)
        keep_private(self.pasted_folder)


def _runtime(dirs: PlatformDirs) -> Path:
    """Returns the platform's runtime folder, or one below our data if it cannot be made, as after the session's end."""
    with warnings.catch_warnings(), suppress(OSError):
        # Sessions without XDG_RUNTIME_DIR (ssh, cron) get a folder in /tmp, which is fine.
        warnings.simplefilter("ignore")
        runtime = dirs.user_runtime_path
        for folder in (runtime.parent, runtime):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return runtime
    return dirs.user_data_path / "run"


def _setting(default: object, *, one_of: tuple[str, ...] = (), within: tuple[float, float] | None = None) -> Any:
    return field(default=default, metadata={"one_of": one_of, "within": within})


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """All that the window remembers. `geometry` is Qt's own form in base64, "" until a window has been closed.

    `language` is a locale name such as "zh_CN", "" for the system's. `last_collection` is one collection; "" stands for
    all, or for the several in `last_collections` (JSON).
    When the window was closed, `unsent_question` was in the prompt of a new chat, `unsent_drafts` (JSON by chat) in
    those of others, `unsent_for_every_file` in the question for each file, and `unsent_edits` (JSON by turn) in edited
    questions. `unsent_choices` (JSON) were made for a new chat before its first question. `unsent_waiting` (JSON by
    chat) are questions that wait for a running answer, kept as soon as they wait.
    `declines_multilingual`: the user does not want to be offered another embedding model.
    A dataclass with its own checks, because importing pydantic would delay the first paint by a quarter.
    """

    theme: Literal["system", "light", "dark"] = _setting("system", one_of=("system", "light", "dark"))
    font_scale: float = _setting(1.0, within=(0.7, 2.5))
    language: str = _setting("")
    geometry: str = _setting("")
    is_sidebar_visible: bool = _setting(True)
    sources_width_px: int = _setting(360, within=(0, MOST_SOURCES_PX))
    last_collection: str = _setting("")
    last_collections: str = _setting("")
    unsent_question: str = _setting("")
    unsent_drafts: str = _setting("")
    unsent_for_every_file: str = _setting("")
    unsent_edits: str = _setting("")
    unsent_choices: str = _setting("")
    unsent_waiting: str = _setting("")
    answers_per_question: int = _setting(1, within=(1, MAX_ANSWERS))
    declines_multilingual: bool = _setting(False)


def faults(values: Mapping[str, object]) -> dict[str, str]:
    """Returns what is wrong with each wrong value, by name; unknown names are ignored."""
    found = {}
    for setting in fields(WindowSettings):
        if setting.name in values and (fault := _fault(setting, values[setting.name])):
            found[setting.name] = fault
    return found


def _fault(setting: Field[Any], value: object) -> str:
    one_of, within = setting.metadata["one_of"], setting.metadata["within"]
    if not _is_of_kind(value, setting.default):
        return f"{value!r} is not of the kind of {setting.default!r}"
    if one_of and value not in one_of:
        return f"{value!r} is none of {', '.join(one_of)}"
    if within and not within[0] <= float(str(value)) <= within[1]:
        return f"{value!r} is not between {within[0]:g} and {within[1]:g}"
    return ""


def _is_of_kind(value: object, default: object) -> bool:
    # In Python True is an int; a whole number will do where a fraction is expected.
    kinds = (int, float) if isinstance(default, float) else (type(default),)
    return isinstance(value, kinds) and isinstance(value, bool) == isinstance(default, bool)


class SettingsStore(QObject):
    """`settings` in force and their file."""

    settings_changed = Signal()  # settings

    def __init__(self, file: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._file = file
        # Translated only when it is read, because the language to use is in the file itself.
        self._problem = ("", "")
        # What could not be written; the next change writes it as well.
        self._unwritten: dict[str, object] = {}
        self.settings = self._read()

    @property
    def problem(self) -> str:
        """A sentence when the file could not be read or written, else ""."""
        words, detail = self._problem
        return _tr(words).replace("%1", self._file.name).replace("%2", detail) if words else ""

    def change(self, **changes: object) -> None:
        """Applies changes by name and writes them. Raises ValueError (then nothing has changed)."""
        settings = replace(self.settings, **changes)  # type: ignore[arg-type]  # checked in the next line
        if wrong := faults(changes):
            raise ValueError("; ".join(f"{name}: {fault}" for name, fault in wrong.items()))
        if settings == self.settings and not self._unwritten:
            return
        self.settings = settings
        self._write({name: getattr(settings, name) for name in (*self._unwritten, *changes)})
        self.settings_changed.emit()

    def has_unwritten(self, *names: str) -> bool:
        """Returns whether one of these has a value that could not be written and differs from the default."""
        new = WindowSettings()
        return any(name in self._unwritten and self._unwritten[name] != getattr(new, name) for name in names)

    def _read(self) -> WindowSettings:
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return WindowSettings()
        except (OSError, UnicodeDecodeError) as error:
            return self._unreadable(error)
        # Imported only if there is something to read, because the first paint waits for it.
        import tomllib

        try:
            return self._validated(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            return self._unreadable(error)

    def _unreadable(self, error: Exception) -> WindowSettings:
        self._problem = (_UNREADABLE, str(error))
        return WindowSettings()

    def _validated(self, values: dict[str, Any]) -> WindowSettings:
        """Returns the settings, with the default for each wrong value: one typing error must not lose the others."""
        if wrong := faults(values):
            self._problem = (_WRONG, ", ".join(sorted(wrong)))
        known = {setting.name for setting in fields(WindowSettings)} - wrong.keys()
        return WindowSettings(**{name: value for name, value in values.items() if name in known})

    def _write(self, changes: dict[str, object]) -> None:
        # Imported at the first write: the first paint does not need it.
        import tomlkit

        try:
            document = self._document()
            document.update(changes)
            # Halves of surrogate pairs can be typed, but not written.
            write_atomically(self._file, tomlkit.dumps(document).encode(errors="replace"))
            self._problem, self._unwritten = ("", ""), {}
        except OSError as error:
            # The window continues with the chosen values.
            self._unwritten = changes
            self._problem = (_UNWRITABLE, str(error.strerror))

    def _document(self) -> TOMLDocument:
        """Returns the file as it is now, with its comments; a file that is not TOML is renamed and kept."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return tomlkit.document()
        except (TOMLKitError, UnicodeDecodeError):
            self._file.replace(self._file.with_suffix(".broken.toml"))
            return tomlkit.document()


def write_atomically(file: Path, content: bytes) -> None:
    """Writes beside `file`, syncs, renames: a reader sees the old content or the new, never half."""
    import tempfile

    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _tr(text: str) -> str:
    return QCoreApplication.translate("settings_file", text)
