"""Choices for chats that could not be written: they are in force, and writing is tried again until it succeeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from app.chats.errors import ChatsHeld
from engine.protocol import RagdollError

Value = TypeVar("Value")
Write = Callable[[], None]

AGAIN_MS = 5000


class LateWrites(QObject):
    """The newest value of each kind for each chat that is not on the disk yet."""

    failed = Signal(str, str)  # a sentence, a way out; not for repeated tries

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: dict[tuple[str, str], tuple[object, Write]] = {}
        self._problem: RagdollError | None = None
        self._again = QTimer(self, singleShot=True, interval=AGAIN_MS)
        self._again.timeout.connect(self.write)

    def put(self, chat: str, kind: str, value: object, write: Write) -> bool:
        """Writes a value, replacing an earlier one that waits; returns whether it was written."""
        self._waiting.pop((chat, kind), None)
        try:
            write()
        except RagdollError as error:
            self._waiting[chat, kind] = value, write
            self._again.start()
            self._problem = error
            self.failed.emit(error.sentence, error.way_out)
            return False
        return True

    def newest(self, chat: str, kind: str, stored: Value) -> Value:
        """Returns the value in force: one that waits, else the stored one."""
        value, _ = self._waiting.get((chat, kind), (stored, None))
        return value  # type: ignore[return-value]  # each kind has values of one type

    def write(self) -> None:
        """Tries to write all that wait, even if one fails; stops if another program locks the file."""
        problem: RagdollError | None = None
        for place, (_, write) in list(self._waiting.items()):
            try:
                write()
            except RagdollError as error:
                problem = problem or error
                if isinstance(error, ChatsHeld):
                    break
            else:
                del self._waiting[place]
        self._problem = problem
        if problem is None:
            self._again.stop()
        else:
            self._again.start()

    @property
    def problem(self) -> RagdollError | None:
        """Returns why something is not on the disk yet; None if everything is."""
        return self._problem if self._waiting else None
