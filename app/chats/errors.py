"""What can go wrong with the chats on disk, as a sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.protocol import RagdollError


class ChatsUnusable(RagdollError):
    """The chats cannot be written or read: the disk is full, the folder read-only, the file damaged."""


@dataclass(frozen=True, slots=True)
class Words:
    """How people are told: what `all` of its kind is called, what does not happen now, and what there is to do."""

    all: str
    so: str
    once_there_is_room: str


OF_CHATS = Words("The chats", "this chat cannot be saved", "Free some space; what is shown stays.")


def told(error: sqlite3.Error | OSError, words: Words = OF_CHATS) -> ChatsUnusable:
    """An error of SQLite or of the disk as a sentence and a way out."""
    text = str(error)
    if "full" in text:
        return ChatsUnusable(f"The disk is full, so {words.so}.", words.once_there_is_room)
    if "readonly" in text:
        return ChatsUnusable(f"{words.all} are write-protected, so {words.so}.", "Allow writing there.")
    if isinstance(error, sqlite3.OperationalError | OSError):
        return ChatsUnusable(f"{words.all} cannot be used just now ({text}).", "Try again.")
    return ChatsUnusable(
        f"{words.all} on the disk are damaged ({text}).", "Restart Ragdoll: it saves what can be read."
    )


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
