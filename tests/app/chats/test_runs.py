"""Tests for app.chats.runs: questions to every file, as they are kept."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from app.chats import ChatStore
from app.chats.errors import ChatsUnusable
from app.chats.records import Outcome

FILES = [(1, "/docs/a.pdf"), (2, "/docs/na\udcefve.pdf")]
EVIDENT = Outcome(state="finished", text="In May. [1]", passages=({"document": "/docs/a.pdf"},), model="tiny")


def _rows(store: ChatStore, table: str) -> int:
    (number,) = store._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(number)


def test_a_run_comes_back_with_what_its_files_answered(store: ChatStore, tmp_path: Path) -> None:
    run = store.runs.create("When does it end?", ("Contracts",), FILES)
    first, second = store.runs.files(run.run_id)
    assert [(file.document_id, file.path) for file in (first, second)] == FILES
    store.runs.record(first.file_id, EVIDENT, ["page 3"])
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert again.runs.runs() == (run,)
    shown = again.runs.files(run.run_id)
    assert [file.outcome for file in shown] == [replace(EVIDENT, passages=()), Outcome()]
    assert [file.places for file in shown] == [("page 3",), ()]
    assert again.runs.outcome(first.file_id) == EVIDENT
    assert again.runs.outcome("gone") is None
    again.close()


def test_the_newest_run_comes_first_and_a_deleted_one_leaves_nothing(store: ChatStore) -> None:
    old = store.runs.create("Old?", (), FILES)
    new = store.runs.create("New?", (), FILES)
    assert store.runs.runs() == (new, old)
    store.runs.delete(old.run_id)
    assert store.runs.runs() == (new,)
    assert store.runs.files(old.run_id) == ()
    assert len(store.runs.files(new.run_id)) == 2
    while store.tidy_some():
        pass
    assert _rows(store, "runs") == 1
    assert _rows(store, "run_files") == 2


def test_a_deleted_run_leaves_the_file_in_steps_which_the_next_start_goes_on_with(
    store: ChatStore, tmp_path: Path
) -> None:
    run = store.runs.create("When?", (), [(number, f"/docs/{number}.pdf") for number in range(150)])
    files = store.runs.files(run.run_id)
    for file in files:
        store.runs.record(file.file_id, EVIDENT)
    store.runs.delete(run.run_id)
    assert store.runs.outcome(files[0].file_id) is None
    assert store.tidy_some()
    left = _rows(store, "run_evidence")
    assert 0 < left == _rows(store, "run_files") < 150
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert again.runs.runs() == ()
    while again.tidy_some():
        pass
    assert [_rows(again, table) for table in ("runs", "run_files", "run_evidence")] == [0, 0, 0]
    again.close()


def test_an_answer_that_comes_after_its_run_has_left_is_kept_by_nobody(store: ChatStore) -> None:
    run = store.runs.create("When?", (), FILES)
    file, _ = store.runs.files(run.run_id)
    store.runs.delete(run.run_id)
    while store.tidy_some():
        pass
    store.runs.record(file.file_id, EVIDENT)
    assert _rows(store, "run_evidence") == 0


def test_a_run_is_shown_without_reading_what_its_answers_rest_on(store: ChatStore) -> None:
    run = store.runs.create("When?", (), FILES)
    file, _ = store.runs.files(run.run_id)
    store.runs.record(file.file_id, EVIDENT)
    read: set[tuple[str | None, str | None]] = set()

    def note(action: int, table: str | None, column: str | None, *_others: object) -> int:
        if action == sqlite3.SQLITE_READ:
            read.add((table, column))
        return sqlite3.SQLITE_OK

    store._connection.set_authorizer(note)
    store.runs.files(run.run_id)
    store._connection.set_authorizer(None)
    assert ("run_files", "text") in read
    assert not [column for table, column in read if table == "run_evidence" or column == "passages"]
    # Nor is it passed over on the way to the columns behind it.
    (here,) = store._connection.execute("SELECT passages FROM run_files WHERE file_id = ?", (file.file_id,)).fetchone()
    assert here == "[]"


def test_what_an_earlier_version_kept_beside_an_answer_is_still_there(store: ChatStore) -> None:
    run = store.runs.create("When?", (), FILES)
    file, _ = store.runs.files(run.run_id)
    store._connection.execute(
        "UPDATE run_files SET state = 'finished', passages = ?, thoughts = 'Hm.' WHERE file_id = ?",
        (json.dumps(EVIDENT.passages), file.file_id),
    )
    kept = store.runs.outcome(file.file_id)
    assert kept is not None
    assert (kept.state, kept.passages, kept.thoughts) == ("finished", EVIDENT.passages, "Hm.")
    store.runs.record(file.file_id, Outcome(state="finished", text="None."))
    assert store.runs.outcome(file.file_id) == Outcome(state="finished", text="None.")


def test_a_run_is_unfinished_until_each_of_its_files_has_answered_or_failed(store: ChatStore) -> None:
    run, other = (store.runs.create(question, (), FILES) for question in ("When?", "Who?"))
    first, second = store.runs.files(run.run_id)
    assert store.runs.unfinished() == {run.run_id: (0, 2), other.run_id: (0, 2)}
    store.runs.record(second.file_id, Outcome(state="failed"))
    assert store.runs.unfinished() == {run.run_id: (1, 2), other.run_id: (0, 2)}
    store.runs.record(first.file_id, Outcome(state="finished"))
    assert store.runs.unfinished() == {other.run_id: (0, 2)}
    store.runs.delete(other.run_id)
    assert store.runs.unfinished() == {}


def test_how_far_runs_are_is_seen_without_their_answers(store: ChatStore) -> None:
    looked: list[str] = []
    store._connection.set_trace_callback(looked.append)
    store.runs.unfinished()
    store._connection.set_trace_callback(None)
    [question] = looked
    plan = [row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {question}")]
    waiting, all_files = (step for step in plan if "run_files" in step)
    assert "files_waiting" in waiting
    assert "COVERING INDEX files_of_run" in all_files


def test_a_file_that_came_back_is_another_document(store: ChatStore) -> None:
    run = store.runs.create("When?", (), FILES)
    first, second = store.runs.files(run.run_id)
    store.runs.move([(second.file_id, 9), ("gone", 3)])
    assert [file.document_id for file in store.runs.files(run.run_id)] == [first.document_id, 9]


def test_a_full_disk_is_told_of_the_question_and_not_of_a_chat(store: ChatStore) -> None:
    run = store.runs.create("When does it end?", (), FILES)
    (file, _) = store.runs.files(run.run_id)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.record(file.file_id, Outcome(state="finished", text="long " * 100_000))
    assert raised.value.sentence == "The disk is full, so what the files answer to this question cannot be saved."
    assert raised.value.way_out == "Free some space; what is shown stays."
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.create("Who? " * 100_000, (), FILES)
    assert raised.value.sentence == "The disk is full, so this question cannot be put to every file."
    assert store.runs.runs() == (run,)


def test_what_is_write_protected_is_told_of_the_question_that_stays(store: ChatStore) -> None:
    run = store.runs.create("When does it end?", (), FILES)
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.delete(run.run_id)
    assert raised.value.sentence == (
        "The questions to every file are write-protected, so this question cannot be deleted."
    )
    assert store.runs.runs() == (run,)
