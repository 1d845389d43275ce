"""Finds conversations by the words in them: SQLite's trigram index where it exists, a plain scan where not.

Trigrams, because they find parts of words and Chinese text, which has no spaces to split at.
"""

from __future__ import annotations

import logging
import sqlite3
import unicodedata
from collections.abc import Generator
from contextlib import suppress
from typing import Literal

log = logging.getLogger(__name__)
_TRIGRAM = 3
# In one step: some milliseconds.
_STEP_PAGES = 32
_STEP_TURNS = 10
_TRIGGERS = ("turns_added", "turns_answered", "turns_removed")
IndexState = Literal["unusable", "empty", "complete"]


def install(connection: sqlite3.Connection) -> IndexState:
    """Creates the index, or removes its triggers if this SQLite does not support it."""
    try:
        connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS turns_index USING fts5("
            "question, text, content = 'turns', content_rowid = 'number', tokenize = 'trigram')"
        )
        connection.execute("SELECT rowid FROM turns_index LIMIT 0")
    except sqlite3.OperationalError as error:
        log.info("chats are searched without an index: %s", error)
        remove(connection)
        return "unusable"
    if _has_triggers(connection):
        return "complete"
    # What was written while there were no triggers is not in the index yet.
    connection.execute("INSERT INTO turns_index (turns_index) VALUES ('delete-all')")
    return "empty"


def index_some(connection: sqlite3.Connection, numbers: range) -> range:
    """Adds a few turns that no longer change to an empty index; returns the rest of `numbers`.

    The last step adds all newer turns and the triggers, which makes the index complete.
    """
    step, left = numbers[:_STEP_TURNS], numbers[_STEP_TURNS:]
    put = "INSERT INTO turns_index (rowid, question, text) SELECT number, question, text FROM turns WHERE number"
    connection.execute(f"{put} >= ? AND number < ?", (step.start, step.stop))
    if not left:
        connection.execute(f"{put} >= ?", (numbers.stop,))
        _create_triggers(connection)
    return left


def remove(connection: sqlite3.Connection) -> None:
    for trigger in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")


def forget(connection: sqlite3.Connection) -> None:
    """Drops the index, so that `install` rebuilds it; raises sqlite3.DatabaseError if it is damaged itself."""
    remove(connection)
    # An SQLite without FTS5 cannot drop such an index, and does not use it.
    with suppress(sqlite3.OperationalError):
        connection.execute("DROP TABLE IF EXISTS turns_index")


def begin_forgetting(connection: sqlite3.Connection) -> None:
    """Begins to rewrite the index without deleted text, which triggers only mark; `forget_some` continues."""
    connection.execute("INSERT INTO turns_index (turns_index, rank) VALUES ('merge', -1)")


def forget_some(connection: sqlite3.Connection) -> bool:
    """Does a step of what `begin_forgetting` began, now or in an earlier run; returns False if nothing was left."""
    before = connection.total_changes
    connection.execute("INSERT INTO turns_index (turns_index, rank) VALUES ('merge', ?)", (_STEP_PAGES,))
    # One change is the command itself.
    return connection.total_changes - before > 1


def find(connection: sqlite3.Connection, query: str, has_index: bool) -> Generator[None, None, set[str]]:
    """Returns the ids of the conversations with every word of `query` in a title, question or answer.

    Without an index, or for short words, turns are read, which may take a second: it yields before each turn.
    """
    words = query.split()
    names = connection.execute("SELECT conversation_id, title FROM conversations")
    titles = {chat: folded(title) for chat, title in names}
    found = set(titles) if words else set()
    # Long words first: the index finds them, and the short ones are searched only in the remaining chats.
    for word in sorted(words, key=len, reverse=True):
        sought = folded(word)
        named = {chat for chat in found if sought in titles[chat]}
        if has_index and len(word) >= _TRIGRAM:
            found &= named | _indexed(connection, word)
        else:
            found = named | (yield from _read_for(connection, found - named, sought))
        if not found:
            break
    return found


def _indexed(connection: sqlite3.Connection, word: str) -> set[str]:
    phrase = '"' + word.replace('"', '""') + '"'
    rows = connection.execute(
        "SELECT DISTINCT conversation_id FROM turns_index JOIN turns ON number = turns_index.rowid "
        "WHERE turns_index MATCH ? AND deleted_at IS NULL",
        (phrase,),
    )
    return {row[0] for row in rows}


def _read_for(connection: sqlite3.Connection, chats: set[str], sought: str) -> Generator[None, None, set[str]]:
    found = set()
    for chat in chats:
        # SQLite's LIKE ignores case in ASCII only. Fetched at once, so that no cursor is open while others write.
        turns = connection.execute(
            "SELECT question, text FROM turns WHERE conversation_id = ? AND deleted_at IS NULL", (chat,)
        ).fetchall()
        for question, text in turns:
            yield
            if sought in folded(question) or sought in folded(text):
                found.add(chat)
                break
    return found


def folded(text: str) -> str:
    """Returns a text for comparing with what users type, without differences of case and composition."""
    return unicodedata.normalize("NFC", text).casefold()


def _has_triggers(connection: sqlite3.Connection) -> bool:
    marks = ", ".join("?" * len(_TRIGGERS))
    (count,) = connection.execute(
        f"SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN ({marks})", _TRIGGERS
    ).fetchone()
    return bool(count == len(_TRIGGERS))


def _create_triggers(connection: sqlite3.Connection) -> None:
    remove(connection)
    put = "INSERT INTO turns_index (rowid, question, text) VALUES (new.number, new.question, new.text)"
    take = (
        "INSERT INTO turns_index (turns_index, rowid, question, text) "
        "VALUES ('delete', old.number, old.question, old.text)"
    )
    connection.execute(f"CREATE TRIGGER turns_added AFTER INSERT ON turns BEGIN {put}; END")
    connection.execute(
        f"CREATE TRIGGER turns_answered AFTER UPDATE OF question, text ON turns BEGIN {take}; {put}; END"
    )
    connection.execute(f"CREATE TRIGGER turns_removed AFTER DELETE ON turns BEGIN {take}; END")
