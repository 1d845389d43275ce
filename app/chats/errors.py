"""What can go wrong with the chats on disk, as a sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from engine.protocol import RagdollError


class ChatsUnusable(RagdollError):
    """The chats cannot be written or read: the disk is full, the folder read-only, the file damaged."""


def told(error: sqlite3.Error | OSError) -> ChatsUnusable:
    """An error of SQLite or of the disk as a sentence and a way out."""
    text = str(error)
    if "full" in text:
        return ChatsUnusable("The disk is full, so this chat cannot be saved.", "Free some space; what is shown stays.")
    if "readonly" in text:
        return ChatsUnusable("The chats are write-protected, so this chat cannot be saved.", "Allow writing there.")
    if isinstance(error, sqlite3.OperationalError | OSError):
        return ChatsUnusable(f"The chats cannot be used just now ({text}).", "Try again.")
    return ChatsUnusable(f"The chats on the disk are damaged ({text}).", "Restart Ragdoll: it sets the file aside.")


@contextmanager
def telling() -> Iterator[None]:
    """Has what SQLite or the disk refuses within it raised as ChatsUnusable."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise told(error) from error
