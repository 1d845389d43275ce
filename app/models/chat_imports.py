"""Imports chats from exported files: all files are read first, then all chats appear at once, or none does."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from app.chats import WholeChat
from app.chats.copies import under_new_ids
from app.chats.exchange import NotImported, chats_in
from app.chats.records import NO_MODEL
from app.printable import printable
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore

log = logging.getLogger(__name__)
# Much more than the chats of years; a file of this size takes some gigabytes of memory to read.
_MOST_BYTES = 256 * 2**20
# What importing takes of the disk at most, as a multiple of the files: the search index takes more than the text, and
# SQLite writes everything twice. Measured with text of documents: 4.6 times, and 5.6 for few large chats. The rest is
# left to the chats that are being written.
_TIMES_ON_DISK, _LEFT_BYTES = 6, 16 * 2**20
# Per step; between steps, the window handles input.
_STEP_S = 0.02
_PAUSE_MS = 5


@dataclass(frozen=True, slots=True)
class _Read:
    """The chats of all chosen files, or why one of them could not be read."""

    chats: tuple[WholeChat, ...] = ()
    problem: RagdollError | None = None


class ChatImports(QObject):
    """Reads files on a thread of its own, because a slow disk may hold them, and adds chats a few at a time.

    It does not begin without room on the disk for all: SQLite cannot erase anything on a full disk. The chats are
    hidden until the last one is stored. If one cannot be stored, those that were are erased; if Ragdoll is closed, the
    next start does that.
    """

    finished = Signal(object)  # ids of the new chats, in the order of the files
    failed = Signal(str, str)  # a sentence, a way out; nothing was imported
    _read = Signal(object)  # a _Read, from the thread

    def __init__(
        self,
        store: ChatStore,
        parent: QObject | None = None,
        *,
        has_model: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """Prepares; `has_model` says of a model's file whether this computer offers it."""
        super().__init__(parent)
        self._store, self._has_model = store, has_model
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._ids: list[str] = []
        self._adding: Iterator[None] = iter(())
        self._timer = QTimer(self, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._on_due)
        self._read.connect(self._on_read)

    @property
    def is_busy(self) -> bool:
        return self._thread is not None or self._timer.isActive()

    def begin(self, paths: Sequence[str]) -> None:
        """Begins to import files, and all JSON files of folders."""
        if self.is_busy:
            self.failed.emit(_tr("Other chats are still being imported."), _tr("Try again when they are there."))
        if self.is_busy or not paths:
            return
        self._thread = threading.Thread(
            target=self._read_on_thread, args=(tuple(paths),), name="reading chats", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops before the store is closed; nothing is imported then."""
        self._is_stopped = True
        self._timer.stop()
        self._adding = iter(())

    # --- inside ---

    def _read_on_thread(self, paths: Sequence[str]) -> None:
        read = _read_all(paths, self._store)
        # The window may have been closed in the meantime.
        with suppress(RuntimeError):
            self._read.emit(read)

    def _on_read(self, read: _Read) -> None:
        if self._thread is not None:
            # It has nothing left to do.
            self._thread.join()
            self._thread = None
        if self._is_stopped:
            return
        if read.problem is not None:
            self.failed.emit(read.problem.sentence, read.problem.way_out)
            return
        self._ids, self._adding = [], self._added(read.chats)
        self._timer.start()

    def _on_due(self) -> None:
        until = time.monotonic() + _STEP_S
        try:
            for _ in self._adding:
                if time.monotonic() >= until:
                    return
            self._timer.stop()
            self._store.restore(*self._ids)
        except RagdollError as error:
            self._give_up()
            self.failed.emit(error.sentence, error.way_out)
        except Exception as error:  # a value that no check foresees must not end the window
            log.exception("chats could not be imported")
            self._give_up()
            self.failed.emit(_tr("The chats could not be imported: %1.").replace("%1", type(error).__name__), "")
        else:
            self.finished.emit(tuple(self._ids))

    def _give_up(self) -> None:
        self._timer.stop()
        self._adding = iter(())
        # If that fails, the next start erases them.
        with suppress(RagdollError):
            self._store.erase(*self._ids)

    def _added(self, chats: Sequence[WholeChat]) -> Iterator[None]:
        """Adds a hidden chat at each step."""
        now = time.time()
        for chat in chats:
            # A date in the future would keep it before all others.
            dated = replace(chat.conversation, updated=min(chat.conversation.updated, now))
            # Nobody else's file is opened because a chat names it.
            if dated.model != NO_MODEL and not self._has_model(dated.model):
                dated = replace(dated, model="")
            made = under_new_ids(dated, chat.turns)
            self._store.add(made.conversation, made.turns, is_hidden=True)
            self._ids.append(made.conversation.conversation_id)
            yield


def _read_all(paths: Sequence[str], store: ChatStore) -> _Read:
    try:
        files = [file for path in paths for file in _files_in(Path(path))]
        _check_room(_checked_bytes(files), store.free_bytes)
        chats = tuple(chat for file in files for chat in chats_in(_content(file), _shown(file)))
    except RagdollError as error:
        return _Read(problem=error)
    except Exception as error:  # the window must hear of it in any case
        log.exception("files of chats could not be read")
        return _Read(problem=NotImported(_tr("The chats could not be imported: %1.").replace("%1", str(error))))
    return _Read(chats) if chats else _Read(problem=_nothing(paths))


def _files_in(path: Path) -> list[Path]:
    """Returns a file, or the JSON files directly in a folder. Raises NotImported."""
    try:
        if not path.is_dir():
            return [path]
        return sorted(file for file in path.iterdir() if _is_json(file))
    except OSError as error:
        raise _unreadable(path, error) from error


def _is_json(file: Path) -> bool:
    # macOS keeps hidden files beside others, with the same suffix.
    return file.suffix.lower() == ".json" and not file.name.startswith(".") and file.is_file()


def _checked_bytes(files: Sequence[Path]) -> int:
    """Returns the size of all files. Raises NotImported if one is too large, or all of them together are."""
    total_bytes = 0
    for file in files:
        num_bytes = _size_bytes(file)
        if num_bytes > _MOST_BYTES:
            sentence = _tr("“%1” is too large, so nothing was imported.").replace("%1", _shown(file))
            raise NotImported(sentence, _tr("Choose JSON files that Ragdoll has exported."))
        total_bytes += num_bytes
    if total_bytes > _MOST_BYTES:
        sentence = _tr("These files are too large together, so nothing was imported.")
        raise NotImported(sentence, _tr("Import a few of them at a time."))
    return total_bytes


def _check_room(num_bytes: int, free_bytes: int | None) -> None:
    """Raises NotImported if the disk has too little room for chats of files of this size; None: they stay in memory."""
    needed_bytes = _TIMES_ON_DISK * num_bytes + _LEFT_BYTES
    if free_bytes is not None and free_bytes < needed_bytes:
        sentence = _tr("The disk has no room for these chats, so nothing was imported.")
        missing_mib = math.ceil((needed_bytes - free_bytes) / 2**20)
        way_out = _tr("Free another %1 MiB on the disk with Ragdoll’s data, or import a few chats at a time.")
        raise NotImported(sentence, way_out.replace("%1", str(missing_mib)))


def _size_bytes(file: Path) -> int:
    try:
        return os.path.getsize(file)
    except OSError as error:
        raise _unreadable(file, error) from error


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: Path, error: OSError) -> NotImported:
    words = _tr("“%1” cannot be read, so nothing was imported: %2.").replace("%1", _shown(path))
    return NotImported(words.replace("%2", str(error.strerror or error)), _tr("Check whether it can be opened."))


def _nothing(paths: Sequence[str]) -> NotImported:
    sentence = _tr("“%1” holds no chats.").replace("%1", _shown(Path(paths[0])))
    return NotImported(sentence, _tr("Choose JSON files that Ragdoll has exported."))


def _shown(path: Path) -> str:
    return printable(path.name or str(path))


def _tr(text: str) -> str:
    return QCoreApplication.translate("chat_imports", text)
