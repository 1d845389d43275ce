"""What can go wrong with the chats on disk, as a sentence."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from engine.protocol import RagdollError

# ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION of Windows.
_IN_USE = (32, 33)


class ChatsUnusable(RagdollError):
    """The chats cannot be written or read: the disk is full, the folder read-only, the file damaged."""


class ChatGone(ChatsUnusable):
    """A deleted chat that is to be restored no longer exists."""


class ChatsHeld(ChatsUnusable):
    """Another program locks the file: each further write would wait seconds for it in vain."""


@dataclass(frozen=True, slots=True)
class Words:
    """The variable parts of an error's sentence: the name of `all` of the kind, what fails now, and what to do.

    All are marked for translation in the context "chats".
    """

    all: str
    so: str
    once_there_is_room: str


OF_CHATS = Words(
    str(QT_TRANSLATE_NOOP("chats", "The chats")),
    str(QT_TRANSLATE_NOOP("chats", "this chat cannot be saved")),
    str(QT_TRANSLATE_NOOP("chats", "Free some space; what is shown stays.")),
)


def told(error: sqlite3.Error | OSError, words: Words = OF_CHATS) -> ChatsUnusable:
    """Returns an error of SQLite or of the disk as a sentence and a way out."""
    if _is_full(error):
        sentence, way_out = _tr("The disk is full, so %2."), _tr(words.once_there_is_room)
    elif _is_protected(error):
        sentence, way_out = _tr("%1 are write-protected, so %2."), _tr("Allow writing there.")
    elif isinstance(error, sqlite3.OperationalError | OSError):
        sentence, way_out = _tr("%1 cannot be used just now (%3)."), _tr("Try again.")
    else:
        sentence, way_out = _tr("%1 on the disk are damaged (%3)."), _tr("Restart Ragdoll: it saves what can be read.")
    of_words = sentence.replace("%1", _tr(words.all)).replace("%2", _tr(words.so))
    return (ChatsHeld if is_held(error) else ChatsUnusable)(of_words.replace("%3", str(error)), way_out)


def is_write_protected(error: ChatsUnusable) -> bool:
    """Returns whether the disk, the folder or the file is write-protected."""
    return _code(error.__cause__) == sqlite3.SQLITE_READONLY


def is_held(error: sqlite3.Error | OSError) -> bool:
    """Returns whether another program locks the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether SQLite found the file damaged; all other errors are subclasses."""
    return type(error) is sqlite3.DatabaseError


@contextmanager
def telling(words: Words = OF_CHATS) -> Iterator[None]:
    """Raises errors of SQLite or of the disk inside the block as ChatsUnusable."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise told(error, words) from error


def _is_full(error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _code(error) == sqlite3.SQLITE_FULL


def _is_protected(error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        # Windows refuses access to a file in use with the same number.
        is_in_use = getattr(error, "winerror", 0) in _IN_USE
        return not is_in_use and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return _code(error) == sqlite3.SQLITE_READONLY


def _code(error: BaseException | None) -> int:
    """Returns SQLite's code of an error without the details in its upper bits; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _tr(text: str) -> str:
    return QCoreApplication.translate("chats", text)
