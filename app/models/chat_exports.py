"""Chats as files, Markdown to read or JSON to import again: one of them, or several into a new folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from app.chats import Conversation, markdown_of
from app.chats.branches import branch
from app.chats.columns import storable
from app.chats.exchange import json_of
from app.chats.file_stems import compared, file_stem
from app.exports import write_export
from app.models.whole_chats import whole_chat
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.models.conversation import ConversationModel
    from app.models.turns import TurnView

Format = Literal["md", "json"]

log = logging.getLogger(__name__)
# Per step; between steps, the window handles input.
_STEP_S = 0.02
_PAUSE_MS = 5


class ChatExports(QObject):
    """Reads chats as stored and the open one as shown.

    Markdown has the shown branch of each, JSON all that is known of it.
    """

    progressed = Signal(int, int)  # chats that are written, of how many
    finished = Signal(int, str)  # how many there are now, the folder they are in
    failed = Signal(int, int, str)  # how many had been written, of how many, what went wrong
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        store: ChatStore,
        open_chat: ConversationModel,
        parent: QObject | None = None,
        latest: Callable[[str], TurnView | None] = lambda _turn_id: None,
    ) -> None:
        """Exports chats of `store`; `latest` knows turns that are open or not saved yet."""
        super().__init__(parent)
        self._store, self._open_chat, self._latest = store, open_chat, latest
        self._num_written = self._num_chats = 0
        self._writing: Iterator[int] | None = None
        self._folder = Path()
        self._timer = QTimer(self, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._on_due)

    @property
    def is_writing(self) -> bool:
        return self._writing is not None

    def markdown(self, conversation_id: str) -> str | None:
        """Returns a chat as Markdown; None if it is gone or cannot be read, which is reported."""
        content = self.content(conversation_id, "md")
        return None if content is None else content.decode()

    def content(self, conversation_id: str, form: Format) -> bytes | None:
        """Returns what a file of a chat holds; None if it is gone or cannot be read, which is reported."""
        try:
            chat = self._store.conversation(conversation_id)
            return None if chat is None else self._content(chat, form)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return None

    def write_all(self, parent: Path, form: Format = "md", among: Collection[str] | None = None) -> None:
        """Begins to write all chats, or those `among` ids, into a new folder below `parent`.

        Existing files are not touched. Does nothing while others are being written.
        """
        if self._writing is None:
            self._num_written = self._num_chats = 0
            self._writing = self._written(parent, form, among)
            self._timer.start()

    def stop(self) -> None:
        """Stops writing, before the store is closed; written files stay."""
        self._timer.stop()
        self._writing = None

    # --- inside ---

    def _on_due(self) -> None:
        until = time.monotonic() + _STEP_S
        try:
            self._write_until(until)
        except Exception as error:  # noqa: BLE001 - the next step would find the generator at its end, and call it done
            self.stop()
            self.failed.emit(self._num_written, self._num_chats, _reason(error))

    def _write_until(self, until: float) -> None:
        for num_written in self._writing or ():
            self._num_written = num_written
            if time.monotonic() >= until:
                self.progressed.emit(self._num_written, self._num_chats)
                return
        self.stop()
        self.finished.emit(self._num_written, str(self._folder))

    def _written(self, parent: Path, form: Format, among: Collection[str] | None) -> Iterator[int]:
        """Writes a chat at each step and reports the number so far."""
        chats, taken = self._store.conversations(among), set[str]()
        if not chats:
            return
        self._num_chats = len(chats)
        self._folder = _new_folder(parent)
        for place, chat in enumerate(chats, start=1):
            stem = file_stem(chat.title, taken)
            taken.add(compared(stem))
            write_export(self._folder / f"{stem}.{form}", self._content(chat, form))
            yield place

    def _content(self, chat: Conversation, form: Format) -> bytes:
        if form == "json":
            return json_of([whole_chat(self._store, chat, self._open_chat.late_writes, self._latest)])
        return self._markdown(chat).encode()

    def _markdown(self, chat: Conversation) -> str:
        """Returns a chat as valid UTF-8: a sentence of the open chat may contain a file name that is not."""
        if chat.conversation_id == self._open_chat.conversation_id:
            return storable(self._open_chat.export_markdown())
        turns = branch(self._store.turns(chat.conversation_id), chat.leaf_id)
        return storable(markdown_of(chat.title, turns, chat.manner))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error.strerror or error)
    if isinstance(error, RagdollError):
        return error.sentence.rstrip(".")
    log.error("chats could not be exported", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _new_folder(parent: Path) -> Path:
    """Makes a new folder below `parent`. Raises OSError."""
    name, number = _tr("Ragdoll chats"), 1
    while True:
        folder = parent / (name if number == 1 else f"{name} ({number})")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def _tr(text: str) -> str:
    return QCoreApplication.translate("chat_exports", text)
