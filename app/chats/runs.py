"""RunStore: questions that are put to every file of a collection, and what each file answered; in the chats' file.

The passages behind ten thousand answers are hundreds of megabytes. They lie in a table of their own, because SQLite
reads a row up to the last requested column, and are deleted in steps, because the window waits for each.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.chats.columns import (
    OUTCOME,
    collections_from,
    columns_of,
    columns_of_collections,
    outcome_from,
    parsed,
    storable,
)
from app.chats.errors import OF_CHATS, Words
from app.chats.records import OUTCOME_FIELDS, Outcome, Run, RunFile

# The fields of an outcome that a table of thousands shows.
_SHOWN = ("state", "text", "error_sentence", "timings", "model", "finish_reason")
_EVIDENCE = tuple(name for name in OUTCOME_FIELDS if name not in _SHOWN)
# Files whose answers are deleted in one step, which takes a few milliseconds.
_STEP_FILES = 64
Change = Callable[[Words], AbstractContextManager[None]]

_ALL = str(QT_TRANSLATE_NOOP("chats", "The questions to every file"))
_ASKING = Words(
    _ALL,
    str(QT_TRANSLATE_NOOP("chats", "this question cannot be put to every file")),
    str(QT_TRANSLATE_NOOP("chats", "Free some space, then ask again.")),
)
_ANSWERING = Words(
    _ALL,
    str(QT_TRANSLATE_NOOP("chats", "what the files answer to this question cannot be saved")),
    OF_CHATS.once_there_is_room,
)
_DELETING = Words(
    _ALL,
    str(QT_TRANSLATE_NOOP("chats", "this question cannot be deleted")),
    str(QT_TRANSLATE_NOOP("chats", "Free some space, then try again.")),
)


class RunStore:
    """All methods raise ChatsUnusable when the disk or the file does not let them; made by the ChatStore."""

    def __init__(self, connection: sqlite3.Connection, change: Change, telling: Change) -> None:
        """`change` makes a block one transaction; `telling` only converts errors."""
        self._connection, self._change, self._telling = connection, change, telling

    def runs(self) -> tuple[Run, ...]:
        """Returns all runs, the newest first."""
        with self._telling(_ANSWERING):
            rows = self._connection.execute(
                "SELECT run_id, question, created, collection, collections FROM runs"
                " WHERE deleted_at IS NULL ORDER BY number DESC"
            ).fetchall()
        return tuple(Run(run_id, asked, collections_from(*names), created) for run_id, asked, created, *names in rows)

    def unfinished(self) -> dict[str, tuple[int, int]]:
        """Returns for each unfinished run how many files have answered, of how many; reads no answer.

        The index `files_waiting` covers just the files that have not.
        """
        with self._telling(_ANSWERING):
            rows = self._connection.execute(
                "SELECT run_id, num_waiting, (SELECT count(*) FROM run_files WHERE run_files.run_id = waiting.run_id)"
                " FROM (SELECT run_id, count(*) AS num_waiting FROM run_files"
                " WHERE state NOT IN ('finished', 'failed') GROUP BY run_id) AS waiting"
                " JOIN runs USING (run_id) WHERE deleted_at IS NULL"
            ).fetchall()
        return {run_id: (num_files - num_waiting, num_files) for run_id, num_waiting, num_files in rows}

    def files(self, run_id: str) -> tuple[RunFile, ...]:
        """Returns the files of a run in the order in which they are asked; none if it has been deleted."""
        with self._telling(_ANSWERING):
            rows = self._connection.execute(
                f"SELECT file_id, document_id, path, places, {', '.join(_SHOWN)} FROM run_files"
                " WHERE run_id = (SELECT run_id FROM runs WHERE run_id = ? AND deleted_at IS NULL) ORDER BY number",
                (run_id,),
            ).fetchall()
        return tuple(_file(row) for row in rows)

    def outcome(self, file_id: str) -> Outcome | None:
        """Returns the whole answer of a file, with its passages; None if its run has been deleted."""
        # Earlier versions kept all of it in the files' own rows.
        evidence = (f"coalesce(run_evidence.{name}, run_files.{name})" for name in _EVIDENCE)
        with self._telling(_ANSWERING):
            row = self._connection.execute(
                f"SELECT {', '.join((*_SHOWN, *evidence))} FROM run_files JOIN runs USING (run_id)"
                " LEFT JOIN run_evidence USING (file_id) WHERE file_id = ? AND deleted_at IS NULL",
                (file_id,),
            ).fetchone()
        return None if row is None else outcome_from(row, (*_SHOWN, *_EVIDENCE))

    def create(self, question: str, collections: Sequence[str], files: Sequence[tuple[int, str]]) -> Run:
        """Adds a question to these files (document id and path of each); none of them has answered yet."""
        run = Run(uuid4().hex, storable(question), tuple(collections), time.time())
        marks = ", ".join("?" * len(OUTCOME_FIELDS))
        nothing = columns_of(Outcome())
        with self._change(_ASKING):
            self._connection.execute(
                "INSERT INTO runs (run_id, question, created, collection, collections) VALUES (?, ?, ?, ?, ?)",
                (run.run_id, run.question, run.created, *columns_of_collections(run.collections)),
            )
            self._connection.executemany(
                f"INSERT INTO run_files (file_id, run_id, document_id, path, {OUTCOME}) VALUES (?, ?, ?, ?, {marks})",
                [(uuid4().hex, run.run_id, document_id, json.dumps(path), *nothing) for document_id, path in files],
            )
        return run

    def record(self, file_id: str, outcome: Outcome, places: Sequence[str] = ()) -> None:
        """Saves the answer of one file so far, and where in the file it was found."""
        values = dict(zip(OUTCOME_FIELDS, columns_of(outcome), strict=True))
        shown, evidence = ([values[name] for name in names] for names in (_SHOWN, _EVIDENCE))
        marks = ", ".join("?" * len(evidence))
        with self._change(_ANSWERING):
            is_there = self._connection.execute(
                f"UPDATE run_files SET {', '.join(f'{name} = ?' for name in _SHOWN)}, places = ? WHERE file_id = ?",
                (*shown, json.dumps(places), file_id),
            ).rowcount
            if is_there:
                self._connection.execute(
                    f"INSERT OR REPLACE INTO run_evidence (file_id, {', '.join(_EVIDENCE)}) VALUES (?, {marks})",
                    (file_id, *evidence),
                )

    def move(self, moved: Sequence[tuple[str, int]]) -> None:
        """Assigns files to other documents; each pair is the file's id here and the document's id."""
        with self._change(_ANSWERING):
            self._connection.executemany(
                "UPDATE run_files SET document_id = ? WHERE file_id = ?",
                [(document_id, file_id) for file_id, document_id in moved],
            )

    def delete(self, run_id: str) -> None:
        """Marks a run as deleted; `clear_some` deletes its answers from the disk."""
        with self._change(_DELETING):
            self._connection.execute("UPDATE runs SET deleted_at = ? WHERE run_id = ?", (time.time(), run_id))

    def clear_some(self) -> bool:
        """Deletes a step's worth of what was marked as deleted, now or earlier; returns False if nothing was left."""
        with self._change(_DELETING):
            deleted = "SELECT run_id FROM runs WHERE deleted_at IS NOT NULL"
            num_cleared = self._connection.execute(
                "DELETE FROM run_files WHERE number IN "
                f"(SELECT number FROM run_files WHERE run_id IN ({deleted}) LIMIT {_STEP_FILES})"
            ).rowcount
            if not num_cleared:
                num_cleared = self._connection.execute("DELETE FROM runs WHERE deleted_at IS NOT NULL").rowcount
        return num_cleared > 0


def _file(row: tuple[Any, ...]) -> RunFile:
    file_id, document_id, path, places, *shown = row
    return RunFile(file_id, document_id, parsed(path, ""), outcome_from(shown, _SHOWN), tuple(parsed(places, ())))
