"""Outside: files opened with the desktop's programs, or shown in its file manager, without blocking on a drive.

A thread of its own checks whether a file exists, because a hanging share takes minutes to answer. A document inside
another file (a member of an archive, a mail of a mailbox) has no file of its own: the outer file is opened.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from PySide6.QtCore import QObject, QProcess, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from app.printable import printable

Verb = Literal["open", "show"]

_OUTSIDE = "ragdollOutside"
# After this time a message says that nothing answers; a file that answers later is opened nevertheless.
PATIENCE_MS = 4000
_FILE_MANAGER, _FILE_MANAGER_PATH = "org.freedesktop.FileManager1", "/org/freedesktop/FileManager1"
# A file manager that is not running yet has to start first.
_FILE_MANAGER_MS = 10_000
# Files that desktops run instead of showing: not what a click in a list of documents should do.
_RUN_BY: dict[str, tuple[str, ...]] = {
    "win32": (
        *(".exe", ".com", ".scr", ".msi", ".bat", ".cmd", ".ps1", ".vbs", ".vbe", ".js", ".jse", ".wsf", ".wsh"),
        *(".hta", ".reg", ".lnk", ".pif", ".cpl", ".jar", ".py", ".pyw", ".pyz", ".url", ".scf", ".msc", ".msp"),
        *(".chm", ".ws", ".wsc", ".sct", ".application", ".appref-ms", ".settingcontent-ms", ".diagcab"),
    ),
    "darwin": (
        ".app",
        ".command",
        ".tool",
        ".workflow",
        ".scpt",
        ".pkg",
        ".mpkg",
        ".jar",
        ".terminal",
        ".inetloc",
        ".fileloc",
    ),
    "linux": (".desktop", ".appimage", ".jar", ".exe", ".run"),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What to do with a file, and why it cannot be reached, if that is known."""

    verb: Verb
    path: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether a file exists, and whether its folder does."""

    is_there: bool
    has_folder: bool


class Outside(QObject):
    """The application's one instance, see `outside`. Only failures are reported."""

    told = Signal(str, str, str)  # severity (notice, warning), a sentence, a way out
    _seen = Signal(object, object)  # a Wish, Seen; from the thread that looked

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # Whether it was reported that nothing answers.
        self._looking: dict[Wish, bool] = {}
        self._seen.connect(self._on_seen)

    def open_file(self, path: str, reason: str = "") -> None:
        """Opens a file with the desktop's program for it; `reason` says why it may be out of reach."""
        self._look(Wish("open", path, reason))

    def show_in_folder(self, path: str, reason: str = "") -> None:
        """Shows a file in its folder; if the file is gone, opens the folder that it was in."""
        self._look(Wish("show", path, reason))

    # --- looking ---

    def _look(self, wish: Wish) -> None:
        # If a thread hangs on this path, another one would hang as well.
        if wish in self._looking:
            if self._looking[wish]:
                self._tell_silent(wish)
            return
        self._looking[wish] = False
        QTimer.singleShot(PATIENCE_MS, self, lambda: self._tell_silent(wish))
        threading.Thread(target=self._look_on_thread, args=(wish,), name="looking outside", daemon=True).start()

    def _look_on_thread(self, wish: Wish) -> None:
        seen = look_at(wish.path)
        # The window may have been closed in the meantime.
        with suppress(RuntimeError):
            self._seen.emit(wish, seen)

    def _tell_silent(self, wish: Wish) -> None:
        if wish in self._looking:
            self._looking[wish] = True
            words = self.tr("“%1” is not responding yet: its drive may be disconnected or asleep.")
            self.told.emit("notice", words.replace("%1", _name(wish.path)), "")

    def _on_seen(self, wish: Wish, seen: Seen) -> None:
        self._looking.pop(wish, None)
        if seen.is_there and wish.verb == "open" and not is_run(wish.path):
            self._open(wish.path)
        elif seen.is_there:
            self._show(wish.path)
            if wish.verb == "open":
                words = self.tr("“%1” might be run as a program, so it is shown in its folder instead.")
                self.told.emit("notice", words.replace("%1", _name(wish.path)), "")
        elif seen.has_folder and wish.verb == "show":
            if self._open_folder(wish.path):
                words = self.tr("“%1” no longer exists; this is the folder that it was in.")
                self.told.emit("notice", words.replace("%1", _name(wish.path)), "")
        else:
            self._tell_missing(wish)

    def _tell_missing(self, wish: Wish) -> None:
        words = self.tr("“%1” was not found: it was deleted or moved, or its drive is disconnected.")
        sentence = wish.reason or words.replace("%1", _name(wish.path))
        self.told.emit("warning", sentence, self.tr("Connect the drive, or check the library for changes."))

    # --- what the desktop is asked ---

    def _open(self, path: str) -> None:
        if not QDesktopServices.openUrl(url_of(path)):
            words = self.tr("This computer has no program that opens “%1”.")
            self.told.emit("warning", words.replace("%1", _name(path)), self.tr("Show it in its folder instead."))

    def _show(self, path: str) -> None:
        if sys.platform == "darwin":
            QProcess.startDetached("open", ["-R", path])
        elif sys.platform == "win32":
            QProcess.startDetached("explorer", ["/select,", os.path.normpath(path)])
        else:
            self._ask_file_manager(path)

    def _ask_file_manager(self, path: str) -> None:
        """Asks the file manager by the D-Bus name that desktops share; opens the folder if none answers."""
        from PySide6.QtDBus import QDBusConnection, QDBusMessage, QDBusPendingCallWatcher

        bus = QDBusConnection.sessionBus()
        if not bus.isConnected():
            self._open_folder(path)
            return
        wanted = QDBusMessage.createMethodCall(_FILE_MANAGER, _FILE_MANAGER_PATH, _FILE_MANAGER, "ShowItems")
        wanted.setArguments([[bytes(url_of(path).toEncoded().data()).decode("ascii")], ""])
        answered = QDBusPendingCallWatcher(bus.asyncCall(wanted, _FILE_MANAGER_MS), self)

        def on_answered() -> None:
            if answered.isError():
                self._open_folder(path)
            answered.deleteLater()

        answered.finished.connect(on_answered)

    def _open_folder(self, path: str) -> bool:
        """Opens the folder that a file is or was in; returns whether a program exists for it, and reports if not."""
        is_opened = QDesktopServices.openUrl(url_of(os.path.dirname(path)))
        if not is_opened:
            words = self.tr("This computer has no program that shows the folder of “%1”.")
            self.told.emit("warning", words.replace("%1", _name(path)), os.path.dirname(printable(path)))
        return is_opened


def outside() -> Outside:
    """The application's one Outside, made at the first call."""
    app = QApplication.instance()
    assert app is not None, "there is no desktop without an application"
    found = app.property(_OUTSIDE)
    if isinstance(found, Outside):
        return found
    made = Outside(app)
    app.setProperty(_OUTSIDE, made)
    return made


def look_at(path: str) -> Seen:
    """Looks at the disk; may never return if a network share hangs."""
    return Seen(os.path.exists(path), os.path.isdir(os.path.dirname(path)))


def is_run(path: str) -> bool:
    """Whether the desktop would run such a file rather than show it."""
    # Windows ignores dots and spaces at the end of a name.
    name = path.lower().rstrip(". ") if sys.platform == "win32" else path.lower()
    return name.endswith(_RUN_BY.get(sys.platform, ()))


def url_of(path: str) -> QUrl:
    """Returns the URL of a path; bytes that are not UTF-8 are preserved."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return QUrl.fromEncoded(b"file://" + quote(os.fsencode(path)).encode("ascii"))
    return QUrl.fromLocalFile(path)


def _name(path: str) -> str:
    return printable(os.path.basename(path) or path)
