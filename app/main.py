"""Start-up and shut-down of the window process, told here in order and done in that order.

Start-up:
 1. The application object; our folders; the lock. A second start hands its paths to the first and ends.
 2. The window's settings are read, the first of them its language; the window is made, dressed and shown. Nothing
    of the engine's protocol, no chat and no Markdown is imported yet: what is seen first must be there at once.
 3. After the first paint: second starts are heard; the log file, signals and uncaught exceptions; the chats are
    opened; the engine's client and the models are made and attached to the window; the engine is started; paths
    from the command line are added; the chats' file is tidied step by step; the stall detector watches from here on.

Shut-down, once the window is closed:
 1. Second starts are no longer heard: they wait for the lock and become the first.
    The engine is asked to end, waited for, and if necessary killed. Its last messages still reach the models.
 2. Questions that are still open end as cancelled, and the chats are saved and closed.
 3. The handlers of signals, exceptions and the log are restored, and the lock is released.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Qt
from PySide6.QtWidgets import QApplication

from app import languages, startup_trace, theme
from app.first_paint import FirstPaint
from app.sentences import joined
from app.settings import AppHome, SettingsStore, WindowSettings
from app.single_instance import SingleInstance
from app.windows.main_window import MainWindow
from engine import __version__

if TYPE_CHECKING:
    import logging

    from app.chats import ChatStore
    from app.engine_client import EngineClient
    from app.garbage import GarbageCollection
    from app.models import AppModels
    from app.models.chat_tidying import ChatTidying
    from app.stalls import StallDetector
    from app.termination import Termination
    from app.uncaught import UncaughtExceptions

# The engine is given some seconds to end before the lock is released.
LONGEST_CLOSING_MS = 10_000
_ASK_AGAIN_MS = 200
_LOG_BYTES, _NUM_LOGS = 2**20, 3


def run(paths: Sequence[str]) -> int:
    """Opens the window and returns its exit code once it is closed; `paths` are added to the library."""
    application = make_application(sys.argv[:1])
    absolute = tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)
    home = AppHome.find()
    instance = SingleInstance(home.lock_file, home.socket_file)
    try:
        home.create()
        is_first = instance.claim()
        deadline = time.monotonic() + LONGEST_CLOSING_MS / 1000
        while not is_first and time.monotonic() < deadline:
            if instance.forward(absolute):
                return 0
            # No answer: the first window is just opening or just closing, or it hangs.
            is_first = instance.claim(_ASK_AGAIN_MS)
    except OSError as error:
        speak_as_set(home)
        return refuse(_tr("Ragdoll cannot keep anything on this disk: %1.").replace("%1", str(error)))
    if not is_first:
        speak_as_set(home)
        return refuse(_tr("Ragdoll is already open, but does not answer. Close it, or wait a moment and try again."))
    session = Session(home, instance, absolute)
    session.show()
    try:
        return application.exec()
    finally:
        session.close()
        leave_clipboard(application)


def leave_clipboard(application: QApplication) -> None:
    """Replaces copied content by text that Qt owns, because the clipboard outlives Python's objects."""
    clipboard = application.clipboard()
    # Offscreen, no other program shares the clipboard, and Qt does not report an owner.
    if clipboard.ownsClipboard() or application.platformName() == "offscreen":
        clipboard.setText(clipboard.text())


def make_application(arguments: Sequence[str]) -> QApplication:
    QCoreApplication.setApplicationName("Ragdoll")
    QCoreApplication.setApplicationVersion(__version__)
    QApplication.setDesktopFileName("io.github.ragdoll_desktop.Ragdoll")
    # Named here and not by `setStyle`, which hands the style to Python: a large class, loaded before the first paint.
    application = QApplication([*arguments, "-style", "fusion"])
    application.setProperty(theme.HAS_OUR_STYLE, True)
    return application


def speak_as_set(home: AppHome) -> None:
    """Sets the language for messages that are shown without a window."""
    languages.speak(SettingsStore(home.settings_file).settings.language)


def refuse(sentence: str) -> int:
    from PySide6.QtWidgets import QMessageBox

    print(sentence, file=sys.stderr)
    QMessageBox.critical(None, "Ragdoll", sentence)
    return 1


class Session(QObject):
    """Everything that lives as long as the window; `close` closes in order whatever has been set up."""

    def __init__(
        self, home: AppHome, instance: SingleInstance, paths: tuple[str, ...], engine_command: Sequence[str] = ()
    ) -> None:
        """`engine_command` replaces the program and arguments of the engine process."""
        super().__init__()
        self.home = home
        self.settings = SettingsStore(home.settings_file, self)
        languages.speak(self.settings.settings.language)
        self.window = dressed_window(self.settings.settings)
        self.models: AppModels | None = None
        self._instance = instance
        self._engine_command = tuple(engine_command)
        self._waiting_paths = paths
        self._client: EngineClient | None = None
        self._chats: ChatStore | None = None
        self._tidying: ChatTidying | None = None
        self._log: logging.Handler | None = None
        self._termination: Termination | None = None
        self._uncaught: UncaughtExceptions | None = None
        self._stalls: StallDetector | None = None
        self._garbage: GarbageCollection | None = None
        self._first_paint = FirstPaint(self.window)
        self._first_paint.painted.connect(self._on_painted)

    def show(self) -> None:
        """Shows the window; all else follows its first paint."""
        self.window.show()

    def close(self) -> None:
        self._instance.stop_listening()
        if self._stalls is not None:
            self._stalls.stop()
        if self._garbage is not None:
            self._garbage.stop()
        if self._client is not None:
            self._client.stop()
        if self._tidying is not None:
            self._tidying.stop()
        if self.models is not None:
            self.models.close()
        if self._chats is not None:
            self._chats.close()
        for taken in (self._termination, self._uncaught):
            if taken is not None:
                taken.release()
        if self._log is not None:
            import logging

            logging.getLogger().removeHandler(self._log)
            self._log.close()
        self._instance.release()

    # --- after the first paint ---

    def _on_painted(self) -> None:
        startup_trace.tell("first_paint_s")
        # Imported here, because the first paint does not need them.
        from app.garbage import GarbageCollection
        from app.stalls import StallDetector
        from app.termination import Termination
        from app.uncaught import UncaughtExceptions

        self._instance.called.connect(self._on_called)
        self._instance.listen()
        self._log = log_to(self.home.logs / "window.log")
        self._uncaught = UncaughtExceptions(self._tell_error)
        self._termination = Termination(self._on_terminated, self)
        self._bring_to_life()
        # Before there is another thread.
        self._garbage = GarbageCollection(self)
        self._garbage.start()
        self._stalls = StallDetector(parent=self)
        self._stalls.start()

    def _bring_to_life(self) -> None:
        # Imported here, because these bring pydantic, the protocol and SQLite with them.
        from app.engine_client import EngineClient
        from app.models import AppModels
        from app.models.chat_tidying import ChatTidying

        self._chats = open_chats(self.home.chats_file)
        self._client = EngineClient(self.home.logs, self._engine_command or None, parent=self)
        self.models = AppModels(self._client, self._chats, self.settings, self, self.home.pasted_folder)
        self.window.attach(self.models)
        if problems := joined(self.settings.problem, self._chats.problem):
            self.models.message_told.emit("warning", problems, "")
        self._client.start()
        self._tidying = ChatTidying(self._chats, self)
        # One of them may have been deleted.
        self.models.each_file.runs_changed.connect(self._tidying.begin)
        if self._waiting_paths:
            self.window.adding.add(self._waiting_paths)
            self._waiting_paths = ()
        startup_trace.tell("attached_s")

    def _on_called(self, paths: tuple[str, ...]) -> None:
        """Brings the window to the front and adds the paths of a second start."""
        self.window.setWindowState(self.window.windowState() & ~Qt.WindowState.WindowMinimized)
        self.window.raise_()
        self.window.activateWindow()
        if self.models is None:
            self._waiting_paths += paths
        elif paths:
            self.window.adding.add(paths)

    def _on_terminated(self) -> None:
        self.window.close_whatever_is_lost()
        QApplication.quit()

    def _tell_error(self, sentence: str, way_out: str) -> None:
        self.window.message_bar.show_message("error", sentence, way_out)


def dressed_window(settings: WindowSettings) -> MainWindow:
    """Returns the window as it was left. The theme is set before its first widget, the style sheet after the last."""
    look = theme.appearance(settings.theme, settings.font_scale, has_sheet=False)
    window = MainWindow()
    window.apply_settings(settings)
    look.put_sheet()
    return window


def open_chats(file: Path) -> ChatStore:
    """Opens the chats; if the disk prevents that, returns chats that last only as long as the window, which says so.

    They include those of the file if it can be read: the disk may be read-only, or another program may lock the file.
    """
    import logging

    from app.chats import ChatStore
    from app.chats.errors import ChatsUnusable
    from app.chats.schema import is_noted_as_damaged

    problem = ""
    for _ in range(2):
        try:
            return ChatStore(file)
        except ChatsUnusable as error:
            problem = str(error)
        # Damage to a large file may show only when it is used; it is then checked as a whole and set aside.
        if not is_noted_as_damaged(file):
            break
    log = logging.getLogger(__name__)
    log.error("the chats cannot be opened: %s", problem)
    told = _tr("Chats of this session will not be kept. %1").replace("%1", problem)
    if file.exists():
        try:
            return ChatStore.copy_of(file, told)
        except ChatsUnusable as error:
            log.error("nor can they be read: %s", error)
    return ChatStore.in_memory(told)


def log_to(file: Path) -> logging.Handler:
    """Writes what our loggers say to a rotated file; to standard error where the file cannot be written."""
    import logging
    from logging.handlers import RotatingFileHandler

    handler: logging.Handler
    try:
        handler = RotatingFileHandler(file, maxBytes=_LOG_BYTES, backupCount=_NUM_LOGS)
    except OSError:
        handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    return handler


def _tr(text: str) -> str:
    return QCoreApplication.translate("main", text)
