"""What can go wrong with the chats on disk, as a sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from engine.protocol import RagdollError


class ChatsUnusable(RagdollError):
    """The chats cannot be written or read: the disk is full, the folder read-only, the file damaged."""


class ChatGone(ChatsUnusable):
    """What is to be brought back is nowhere any more."""


class ChatsHeld(ChatsUnusable):
    """Another program holds the file: whatever else is to be written would wait for it in vain, seconds each."""


@dataclass(frozen=True, slots=True)
class Words:
    """How people are told: what `all` of its kind is called, what does not happen now, and what there is to do.

    As marked for translation in the context "chats".
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
    """An error of SQLite or of the disk as a sentence and a way out."""
    text = str(error)
    if "full" in text:
        sentence, way_out = _tr("The disk is full, so %2."), _tr(words.once_there_is_room)
    elif "readonly" in text:
        sentence, way_out = _tr("%1 are write-protected, so %2."), _tr("Allow writing there.")
    elif isinstance(error, sqlite3.OperationalError | OSError):
        sentence, way_out = _tr("%1 cannot be used just now (%3)."), _tr("Try again.")
    else:
        sentence, way_out = _tr("%1 on the disk are damaged (%3)."), _tr("Restart Ragdoll: it saves what can be read.")
    of_words = sentence.replace("%1", _tr(words.all)).replace("%2", _tr(words.so))
    return (ChatsHeld if is_held(error) else ChatsUnusable)(of_words.replace("%3", text), way_out)


def is_write_protected(error: ChatsUnusable) -> bool:
    """Whether the disk, the folder or the file lets nothing be written at all."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY


def is_held(error: sqlite3.Error | OSError) -> bool:
    """Whether another program keeps SQLite from the file as a whole."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite found the file itself to be wrong; all else has a kind of its own."""
    return type(error) is sqlite3.DatabaseError


@contextmanager
def telling(words: Words = OF_CHATS) -> Iterator[None]:
    """Has what SQLite or the disk refuses within it raised as ChatsUnusable."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise told(error, words) from error


def _tr(text: str) -> str:
    return QCoreApplication.translate("chats", text)
