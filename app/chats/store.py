"""ChatStore: the one owner of the chats' file. Every call is a transaction; once it returns, its change is on disk."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.chats import schema, search
from app.chats.branches import without
from app.chats.columns import (
    OUTCOME,
    OUTCOME_PLACES,
    collections_from,
    columns_of,
    columns_of_collections,
    outcome_from,
    parsed,
    storable,
)
from app.chats.errors import OF_CHATS, ChatGone, ChatsUnusable, Words, is_damage, is_write_protected, telling
from app.chats.presets import PresetStore
from app.chats.records import INTERRUPTED, OUTCOME_FIELDS, Conversation, Json, Outcome, Turn
from app.chats.runs import RunStore
from app.sentences import joined

_CONVERSATION = (
    "conversation_id, title, created, updated, is_pinned, collection, collections, leaf_id, filters, model, searches, "
    "manner"
)
_TURN = "turn_id, conversation_id, parent_id, question, created, filters, searches"
_NUM_TURN = len(_TURN.split(", "))
_TIDYING = Words(
    OF_CHATS.all,
    str(QT_TRANSLATE_NOOP("chats", "nothing new can be saved of the chats")),
    str(QT_TRANSLATE_NOOP("chats", "Free some space.")),
)


class ChatStore:
    """Conversations and turns. All methods raise ChatsUnusable when the disk or the file does not let them.

    `problem` is a sentence if an earlier file could not be used and was set aside, or the disk is full. Opening fails
    turns that were open when the last window ended, and erases deleted chats and turns; `tidy_some` erases them from
    the search index, and deleted `runs`. `runs` are the questions to every file, `presets` named manners of answering.
    Unless it `is_kept`, everything is lost when the window closes.
    """

    def __init__(self, file: Path, *, has_full_text: bool = True, is_copy: bool = False) -> None:
        """Opens or creates `file`; `has_full_text` False searches without an index, as on an SQLite that has none.

        `is_copy`: the file is copied and left as it is; what is new is lost when the window closes.
        """
        self._file, self.is_kept = file, not is_copy
        with telling():
            self._connection, self.problem = (schema.open_copy(file), "") if is_copy else schema.open_database(file)
        self._has_index, self._to_index = False, range(0)
        try:
            self._set_up(has_full_text)
        except BaseException:
            self._connection.close()
            raise
        self.runs = RunStore(self._connection, self._change, self._telling)
        self.presets = PresetStore(self._connection, self._change, self._telling)
        # What a copy has in common with its file.
        self._copied = self._newest() if is_copy else None

    @classmethod
    def in_memory(cls, problem: str) -> ChatStore:
        """Returns chats for this run only, if the disk does not allow more; `problem` says so."""
        store = cls(Path(":memory:"))
        store.problem, store.is_kept = problem, False
        return store

    @classmethod
    def copy_of(cls, file: Path, problem: str) -> ChatStore:
        """Returns a temporary copy of the chats of a file that cannot be written; `problem` says so.

        Raises:
            ChatsUnusable: There is no such file, or it cannot be read either.
        """
        store = cls(file, is_copy=True)
        store.problem = problem
        return store

    @property
    def is_empty(self) -> bool:
        """Tells whether there is nothing that the user would miss; for a copy, nothing new."""
        if self._copied is not None:
            return self._newest() == self._copied
        return not (self.conversations() or self.runs.runs() or self.presets.presets())

    @property
    def free_bytes(self) -> int | None:
        """How much room the disk has for more; None if nothing is written there. Usable from any thread."""
        return shutil.disk_usage(self._file.parent).free if self.is_kept else None

    def close(self) -> None:
        self._connection.close()

    def tidy_some(self) -> bool:
        """Works for a few milliseconds on filling a new search index or erasing what was deleted; False when done.

        Until the index is filled, a search reads all chats.
        """
        if self._to_index:
            with self._change():
                left = search.index_some(self._connection, self._to_index)
            self._to_index, self._has_index = left, not left
            return True
        if self.runs.clear_some():
            return True
        if not self._has_index:
            return False
        with self._change():
            return search.forget_some(self._connection)

    # --- conversations ---

    def conversations(self, among: Collection[str] | None = None) -> tuple[Conversation, ...]:
        """Returns conversations that are not deleted, or those `among` the given ids; pinned first, then the newest."""
        with self._telling():
            rows = self._connection.execute(
                f"SELECT {_CONVERSATION} FROM conversations WHERE deleted_at IS NULL "
                "ORDER BY is_pinned DESC, updated DESC, conversation_id"
            ).fetchall()
        return tuple(_conversation(row) for row in rows if among is None or row[0] in among)

    def finding(self, query: str) -> Generator[None, None, set[str]]:
        """Returns the ids of conversations that hold every word of `query`, including deleted ones.

        Yields after a few milliseconds at most; the store may be used in between.
        """
        with self._telling():
            return (yield from search.find(self._connection, storable(query), self._has_index))

    def conversation(self, conversation_id: str) -> Conversation | None:
        with self._telling():
            row = self._connection.execute(
                f"SELECT {_CONVERSATION} FROM conversations WHERE conversation_id = ? AND deleted_at IS NULL",
                (conversation_id,),
            ).fetchone()
        return None if row is None else _conversation(row)

    def create_conversation(
        self,
        title: str,
        collections: Sequence[str] = (),
        filters: Json | None = None,
        model: str = "",
        *,
        searches: bool = True,
        manner: Json | None = None,
    ) -> Conversation:
        now = time.time()
        made = Conversation(
            uuid4().hex,
            storable(title),
            now,
            now,
            collections=tuple(collections),
            filters=filters or {},
            model=model,
            searches=searches,
            manner=manner or {},
        )
        self.add(made, ())
        return made

    def add(self, conversation: Conversation, turns: Sequence[Turn], *, is_hidden: bool = False) -> None:
        """Adds a conversation with all its turns, oldest first; their ids must be new.

        One that `is_hidden` is like a deleted one: `restore` shows it, and otherwise the next opening erases it.
        """
        with self._change():
            self._put(conversation, time.time() if is_hidden else None)
            for turn in turns:
                self._put_turn(turn)

    def rename(self, conversation_id: str, title: str) -> None:
        self._set(conversation_id, title=storable(title))

    def set_pinned(self, conversation_id: str, is_pinned: bool) -> None:
        self._set(conversation_id, is_pinned=is_pinned)

    def set_collections(self, conversation_id: str, names: Sequence[str], *, searches: bool = True) -> None:
        """Sets where the next questions of a conversation are searched, and whether; see `Conversation`."""
        one, several = columns_of_collections(names)
        self._set(conversation_id, collection=one, collections=several, searches=searches)

    def collections_asked(self) -> tuple[str, ...]:
        """Returns the names of the collections that conversations and runs ask."""
        with self._telling():
            rows = self._connection.execute(
                "SELECT collection, collections FROM conversations UNION SELECT collection, collections FROM runs"
            ).fetchall()
        return tuple(dict.fromkeys(name for row in rows for name in collections_from(*row)))

    def rename_collection(self, name: str, new_name: str) -> None:
        """Renames a collection in all conversations and runs that ask it."""
        with self._change():
            for table in ("conversations", "runs"):
                self._connection.execute(f"UPDATE {table} SET collection = ? WHERE collection = ?", (new_name, name))
                self._rename_among_several(table, name, new_name)

    def set_filters(self, conversation_id: str, filters: Json) -> None:
        """Sets what the next questions of a conversation are confined to."""
        self._set(conversation_id, filters=json.dumps(filters))

    def set_model(self, conversation_id: str, model: str) -> None:
        """Sets which model answers the next questions of a conversation; see `Conversation`."""
        self._set(conversation_id, model=json.dumps(model))

    def set_manner(self, conversation_id: str, manner: Json) -> None:
        """Sets how the next questions of a conversation are answered; see `Conversation`."""
        self._set(conversation_id, manner=json.dumps(manner))

    def set_leaf(self, conversation_id: str, leaf_id: str | None) -> None:
        """Remembers which branch is shown."""
        self._set(conversation_id, leaf_id=leaf_id)

    def delete(self, *conversation_ids: str) -> None:
        """Hides conversations; they can be restored until the store is opened again."""
        self._set_deleted(conversation_ids, time.time())

    def restore(self, *conversation_ids: str) -> None:
        """Shows deleted conversations again. Raises ChatGone if none of them is left."""
        if not self._set_deleted(conversation_ids, None):
            raise ChatGone(
                QCoreApplication.translate("chats", "This chat is no longer there, so it cannot be brought back.")
            )

    def erase(self, *conversation_ids: str) -> None:
        """Erases those of these conversations that are hidden, at once; what is written next takes their room."""
        with self._change():
            erased = self._connection.execute(
                "DELETE FROM conversations WHERE deleted_at IS NOT NULL "
                "AND conversation_id IN (SELECT value FROM json_each(?))",
                (json.dumps(conversation_ids),),
            )
            if erased.rowcount and self._has_index:
                search.begin_forgetting(self._connection)

    # --- turns ---

    def turns(self, conversation_id: str) -> tuple[Turn, ...]:
        """Returns all turns of all branches, oldest first; what followed a deleted one follows the turn before it."""
        with self._telling():
            rows = self._connection.execute(
                f"SELECT {_TURN}, {OUTCOME}, deleted_at FROM turns WHERE conversation_id = ? ORDER BY number",
                (conversation_id,),
            ).fetchall()
        deleted = {row[0] for row in rows if row[-1] is not None}
        turns = tuple(_turn(row[:-1]) for row in rows)
        return without(turns, deleted) if deleted else turns

    def kept_conversations(self, conversation_ids: Collection[str]) -> frozenset[str]:
        """Returns which of these conversations are there and not deleted."""
        return frozenset(chat.conversation_id for chat in self.conversations(conversation_ids))

    def kept_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        """Returns which of these turns are not deleted, and in a chat that is not deleted."""
        with self._telling():
            rows = self._connection.execute(
                "SELECT turn_id FROM turns JOIN conversations USING (conversation_id) "
                "WHERE turns.deleted_at IS NULL AND conversations.deleted_at IS NULL "
                "AND turn_id IN (SELECT value FROM json_each(?))",
                (json.dumps([*turn_ids]),),
            ).fetchall()
        return frozenset(turn_id for (turn_id,) in rows)

    def add_turn(
        self,
        conversation_id: str,
        parent_id: str | None,
        question: str,
        filters: Json | None = None,
        *,
        searches: bool = True,
    ) -> Turn:
        """Records a question as asked, and makes its branch the one that is shown."""
        turn = Turn(
            uuid4().hex,
            conversation_id,
            parent_id,
            storable(question),
            time.time(),
            filters=filters or {},
            searches=searches,
        )
        with self._change():
            self._put_turn(turn)
            self._connection.execute(
                # The newest even if the clock was set back since another chat was updated.
                "UPDATE conversations SET leaf_id = ?1, "
                "updated = max(?2, (SELECT max(updated) + .001 FROM conversations)) WHERE conversation_id = ?3",
                (turn.turn_id, turn.created, conversation_id),
            )
        return turn

    def add_variant(self, turn_id: str, beside_id: str, outcome: Outcome) -> None:
        """Records another answer to the question of `beside_id`, in its place; the branch that is shown stays."""
        marks = ", ".join("?" * len(OUTCOME_FIELDS))
        with self._change():
            self._connection.execute(
                f"INSERT INTO turns ({_TURN}, {OUTCOME}) "
                f"SELECT ?, conversation_id, parent_id, question, created, filters, searches, {marks} "
                "FROM turns WHERE turn_id = ?",
                (turn_id, *columns_of(outcome), beside_id),
            )

    def delete_turn(self, turn: Turn, leaf_id: str | None) -> None:
        """Hides a turn until the store is opened again; the branch to `leaf_id` is shown from now on."""
        with self._change():
            self._connection.execute("UPDATE turns SET deleted_at = ? WHERE turn_id = ?", (time.time(), turn.turn_id))
            self._connection.execute(
                "UPDATE conversations SET leaf_id = ? WHERE conversation_id = ?", (leaf_id, turn.conversation_id)
            )

    def restore_turn(self, turn_id: str) -> None:
        """Shows a deleted turn again, in its place. Raises ChatGone if it has been erased."""
        with self._change():
            restored = self._connection.execute("UPDATE turns SET deleted_at = NULL WHERE turn_id = ?", (turn_id,))
        if not restored.rowcount:
            raise ChatGone(
                QCoreApplication.translate("chats", "This question is no longer there, so it cannot be brought back.")
            )

    def record(self, turn_id: str, outcome: Outcome) -> None:
        """Saves the outcome of a turn so far."""
        with self._change():
            self._connection.execute(
                f"UPDATE turns SET {OUTCOME_PLACES} WHERE turn_id = ?", (*columns_of(outcome), turn_id)
            )

    # --- inside ---

    def _put(self, made: Conversation, deleted_at: float | None) -> None:
        values: dict[str, object] = {
            "conversation_id": made.conversation_id,
            "title": storable(made.title),
            "created": made.created,
            "updated": made.updated,
            "is_pinned": made.is_pinned,
            "leaf_id": made.leaf_id,
            "filters": json.dumps(made.filters),
            "model": json.dumps(made.model),
            "searches": made.searches,
            "manner": json.dumps(made.manner),
            "deleted_at": deleted_at,
        }
        values["collection"], values["collections"] = columns_of_collections(made.collections)
        marks = ", ".join("?" * len(values))
        self._connection.execute(
            f"INSERT INTO conversations ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
        )

    def _put_turn(self, turn: Turn) -> None:
        asked = (turn.turn_id, turn.conversation_id, turn.parent_id, storable(turn.question), turn.created)
        values = (*asked, json.dumps(turn.filters), turn.searches, *columns_of(turn.outcome))
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"INSERT INTO turns ({_TURN}, {OUTCOME}) VALUES ({marks})", values)

    def _set_deleted(self, conversation_ids: Sequence[str], deleted_at: float | None) -> int:
        """Returns how many of these conversations exist."""
        with self._change():
            changed = self._connection.execute(
                "UPDATE conversations SET deleted_at = ? WHERE conversation_id IN (SELECT value FROM json_each(?))",
                (deleted_at, json.dumps(conversation_ids)),
            )
        return changed.rowcount

    def _set(self, conversation_id: str, **values: object) -> None:
        """Changes columns of a conversation."""
        places = ", ".join(f"{column} = ?" for column in values)
        with self._change():
            self._connection.execute(
                f"UPDATE conversations SET {places} WHERE conversation_id = ?", (*values.values(), conversation_id)
            )

    def _newest(self) -> tuple[object, ...]:
        """Returns a value that changes whenever something is asked or made."""
        asked = "SELECT max(updated), count(*), (SELECT max(number) FROM turns), (SELECT max(number) FROM runs), "
        with self._telling():
            return tuple(
                self._connection.execute(f"{asked}(SELECT max(number) FROM presets) FROM conversations").fetchone()
            )

    def _rename_among_several(self, table: str, name: str, new_name: str) -> None:
        asked = f"SELECT DISTINCT collections FROM {table} WHERE collections != '[]'"
        for (several,) in self._connection.execute(asked).fetchall():
            names = collections_from(None, several)
            if name in names:
                # The new name may be that of another one of them.
                renamed = dict.fromkeys(new_name if one == name else one for one in names)
                self._connection.execute(
                    f"UPDATE {table} SET collection = ?, collections = ? WHERE collections = ?",
                    (*columns_of_collections([*renamed]), several),
                )

    def _set_index_up(self, has_full_text: bool) -> None:
        state = search.install(self._connection) if has_full_text else "unusable"
        if state == "unusable":
            search.remove(self._connection)
        if state == "empty":
            # Turns of earlier runs no longer change.
            (last,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM turns").fetchone()
            # No step yet: deleted chats are erased first, and no trigger would remove them from the index.
            self._to_index = range(1, last + 1) if last else search.index_some(self._connection, range(0))
        self._has_index = state != "unusable" and not self._to_index

    def _set_up(self, has_full_text: bool) -> None:
        try:
            with self._change(_TIDYING):
                self._set_index_up(has_full_text)
            with self._change(_TIDYING):
                self._tidy()
        except ChatsUnusable as error:
            # If the file cannot be written at all, the caller opens a copy instead.
            if schema.is_noted_as_damaged(self._file) or is_write_protected(error):
                raise
            # The chats can still be read.
            self._has_index, self._to_index = False, range(0)
            self.problem = joined(self.problem, str(error))

    def _tidy(self) -> None:
        self._connection.execute(
            "UPDATE turns SET state = 'failed', error_sentence = ? WHERE state IN ('asked', 'writing')",
            (QCoreApplication.translate("chats", INTERRUPTED),),
        )
        gone = self._connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL").rowcount
        deleted = self._connection.execute("SELECT turn_id FROM turns WHERE deleted_at IS NOT NULL").fetchall()
        for turn in deleted:
            # What followed it follows the turn before it.
            self._connection.execute(
                "UPDATE turns SET parent_id = (SELECT parent_id FROM turns WHERE turn_id = ?1) WHERE parent_id = ?1",
                turn,
            )
            self._connection.execute("DELETE FROM turns WHERE turn_id = ?", turn)
        if (gone or deleted) and self._has_index:
            # Otherwise deleted words would stay readable in the index.
            search.begin_forgetting(self._connection)

    @contextmanager
    def _telling(self, words: Words = OF_CHATS) -> Iterator[None]:
        with telling(words):
            try:
                yield
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    schema.note_damage(self._file)
                    self._do_without_index()
                raise

    def _do_without_index(self) -> None:
        """Continues without the search index, in case only that is damaged: what failed can be tried again."""
        self._has_index, self._to_index = False, range(0)
        with suppress(sqlite3.Error):
            search.remove(self._connection)

    @contextmanager
    def _change(self, words: Words = OF_CHATS) -> Iterator[None]:
        with self._telling(words):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # On a full disk, SQLite has rolled back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _conversation(row: tuple[Any, ...]) -> Conversation:
    conversation_id, title, created, updated, is_pinned, one, several, leaf_id, filters, model, searches, manner = row
    return Conversation(
        conversation_id,
        title,
        created,
        updated,
        bool(is_pinned),
        collections_from(one, several),
        leaf_id,
        parsed(filters, {}),
        parsed(model, ""),
        bool(searches),
        parsed(manner, {}),
    )


def _turn(row: tuple[Any, ...]) -> Turn:
    turn_id, conversation_id, parent_id, question, created, filters, searches = row[:_NUM_TURN]
    outcome = outcome_from(row[_NUM_TURN:])
    return Turn(turn_id, conversation_id, parent_id, question, created, outcome, parsed(filters, {}), bool(searches))
