"""ChatStore: the one owner of the chats' file. Every call is a transaction; what it returned from is on disk."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.chats import schema, search
from app.chats.columns import OUTCOME, OUTCOME_PLACES, columns_of, outcome_from, parsed, storable
from app.chats.errors import OF_CHATS, ChatsUnusable, Words, is_damage, telling
from app.chats.presets import PresetStore
from app.chats.records import INTERRUPTED, OUTCOME_FIELDS, Conversation, Json, Outcome, Turn
from app.chats.runs import RunStore
from app.sentences import joined

_CONVERSATION = (
    "conversation_id, title, created, updated, is_pinned, collection, leaf_id, filters, model, searches, manner"
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

    `problem` is a sentence when an earlier file could not be used and was set aside, or the disk is full. Turns that
    were open when the last window ended are failed with a sentence, and what was deleted then is now gone; from the
    search index it goes with `tidy_some`, as deleted `runs` do. These are the questions to every file, `presets`
    manners of answering with a name. Unless it `is_kept`, all of it goes with the window.
    """

    def __init__(self, file: Path, *, has_full_text: bool = True) -> None:
        """Opens or creates `file`; `has_full_text` False searches without an index, as on an SQLite that has none."""
        self._file, self.is_kept = file, True
        with telling():
            self._connection, self.problem = schema.open_database(file)
        self._has_index, self._to_index = False, range(0)
        try:
            self._set_up(has_full_text)
        except BaseException:
            self._connection.close()
            raise
        self.runs = RunStore(self._connection, self._change, self._telling)
        self.presets = PresetStore(self._connection, self._change, self._telling)

    @classmethod
    def in_memory(cls, problem: str) -> ChatStore:
        """Chats for this run only, for when the disk does not let us; `problem` says so."""
        store = cls(Path(":memory:"))
        store.problem, store.is_kept = problem, False
        return store

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it that anybody would miss."""
        return not (self.conversations() or self.runs.runs() or self.presets.presets())

    def close(self) -> None:
        self._connection.close()

    def tidy_some(self) -> bool:
        """A few milliseconds of filling a new search index, or of clearing what was deleted away; False when done.

        Until it is filled, all chats are read for what is searched.
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
        """All that are not deleted, or those `among` them; pinned first, then the newest."""
        with self._telling():
            rows = self._connection.execute(
                f"SELECT {_CONVERSATION} FROM conversations WHERE deleted_at IS NULL "
                "ORDER BY is_pinned DESC, updated DESC, conversation_id"
            ).fetchall()
        return tuple(_conversation(row) for row in rows if among is None or row[0] in among)

    def finding(self, query: str) -> Generator[None, None, set[str]]:
        """The ids of conversations that hold every word of `query`, deleted ones among them.

        In steps of a few milliseconds at most, between which the store may be used as ever.
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
        collection: str | None = None,
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
            collection=collection,
            filters=filters or {},
            model=model,
            searches=searches,
            manner=manner or {},
        )
        begun = (made.conversation_id, made.title, now, now, collection)
        with self._change():
            self._connection.execute(
                "INSERT INTO conversations "
                "(conversation_id, title, created, updated, collection, filters, model, searches, manner) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*begun, json.dumps(made.filters), json.dumps(model), searches, json.dumps(made.manner)),
            )
        return made

    def rename(self, conversation_id: str, title: str) -> None:
        self._set(conversation_id, title=storable(title))

    def set_pinned(self, conversation_id: str, is_pinned: bool) -> None:
        self._set(conversation_id, is_pinned=is_pinned)

    def set_collection(self, conversation_id: str, collection: str | None, *, searches: bool = True) -> None:
        """Where the next questions of a conversation are searched, and whether they are; see `Conversation`."""
        self._set(conversation_id, collection=collection, searches=searches)

    def collections_asked(self) -> tuple[str, ...]:
        """The names of the collections that conversations and runs ask."""
        with self._telling():
            rows = self._connection.execute(
                "SELECT collection FROM conversations WHERE collection IS NOT NULL "
                "UNION SELECT collection FROM runs WHERE collection IS NOT NULL"
            ).fetchall()
        return tuple(name for (name,) in rows)

    def rename_collection(self, name: str, new_name: str) -> None:
        """What asks a collection asks it by its new name."""
        with self._change():
            for table in ("conversations", "runs"):
                self._connection.execute(f"UPDATE {table} SET collection = ? WHERE collection = ?", (new_name, name))

    def set_filters(self, conversation_id: str, filters: Json) -> None:
        """What the next questions of a conversation are confined to."""
        self._set(conversation_id, filters=json.dumps(filters))

    def set_model(self, conversation_id: str, model: str) -> None:
        """Which model answers the next questions of a conversation; see `Conversation`."""
        self._set(conversation_id, model=json.dumps(model))

    def set_manner(self, conversation_id: str, manner: Json) -> None:
        """How the next questions of a conversation are answered; see `Conversation`."""
        self._set(conversation_id, manner=json.dumps(manner))

    def set_leaf(self, conversation_id: str, leaf_id: str) -> None:
        """Remembers which branch is shown."""
        self._set(conversation_id, leaf_id=leaf_id)

    def delete(self, conversation_id: str) -> None:
        """Hides a conversation; it can be restored until the store is opened again."""
        self._set(conversation_id, deleted_at=time.time())

    def restore(self, conversation_id: str) -> None:
        self._set(conversation_id, deleted_at=None)

    # --- turns ---

    def turns(self, conversation_id: str) -> tuple[Turn, ...]:
        """All turns of all branches, oldest first."""
        with self._telling():
            rows = self._connection.execute(
                f"SELECT {_TURN}, {OUTCOME} FROM turns WHERE conversation_id = ? ORDER BY number",
                (conversation_id,),
            ).fetchall()
        return tuple(_turn(row) for row in rows)

    def kept_turns(self, turn_ids: Collection[str]) -> frozenset[str]:
        """Those of these that are in a chat which is not deleted."""
        with self._telling():
            rows = self._connection.execute(
                "SELECT turn_id FROM turns JOIN conversations USING (conversation_id) WHERE deleted_at IS NULL "
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
        asked = (turn.turn_id, conversation_id, parent_id, turn.question, turn.created, json.dumps(turn.filters))
        values = (*asked, searches, *columns_of(turn.outcome))
        marks = ", ".join("?" * len(values))
        with self._change():
            self._connection.execute(f"INSERT INTO turns ({_TURN}, {OUTCOME}) VALUES ({marks})", values)
            self._connection.execute(
                # The newest also where the clock was put back since another one was asked in.
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

    def record(self, turn_id: str, outcome: Outcome) -> None:
        """What has become of a turn so far."""
        with self._change():
            self._connection.execute(
                f"UPDATE turns SET {OUTCOME_PLACES} WHERE turn_id = ?", (*columns_of(outcome), turn_id)
            )

    # --- inside ---

    def _set(self, conversation_id: str, **values: object) -> None:
        places = ", ".join(f"{column} = ?" for column in values)
        with self._change():
            self._connection.execute(
                f"UPDATE conversations SET {places} WHERE conversation_id = ?", (*values.values(), conversation_id)
            )

    def _set_index_up(self, has_full_text: bool) -> None:
        state = search.install(self._connection) if has_full_text else "unusable"
        if state == "unusable":
            search.remove(self._connection)
        if state == "empty":
            # Turns of earlier runs: they change no more.
            (last,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM turns").fetchone()
            # None yet: what was deleted leaves first, and no trigger would tell the index of it.
            self._to_index = range(1, last + 1) if last else search.index_some(self._connection, range(0))
        self._has_index = state != "unusable" and not self._to_index

    def _set_up(self, has_full_text: bool) -> None:
        try:
            with self._change(_TIDYING):
                self._set_index_up(has_full_text)
            with self._change(_TIDYING):
                self._tidy()
        except ChatsUnusable as error:
            if schema.is_noted_as_damaged(self._file):
                raise
            # The chats can be read all the same.
            self._has_index, self._to_index = False, range(0)
            self.problem = joined(self.problem, str(error))

    def _tidy(self) -> None:
        self._connection.execute(
            "UPDATE turns SET state = 'failed', error_sentence = ? WHERE state IN ('asked', 'writing')",
            (QCoreApplication.translate("chats", INTERRUPTED),),
        )
        gone = self._connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL").rowcount
        if gone and self._has_index:
            # Else the words of what was deleted would stay readable in the index.
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
        """Where it is the index that is damaged, all else goes on: what failed can be tried again."""
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
                # A full disk has rolled back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _conversation(row: tuple[Any, ...]) -> Conversation:
    conversation_id, title, created, updated, is_pinned, collection, leaf_id, filters, model, searches, manner = row
    return Conversation(
        conversation_id,
        title,
        created,
        updated,
        bool(is_pinned),
        collection,
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
