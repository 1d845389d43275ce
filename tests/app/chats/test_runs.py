"""Tests for app.chats.runs: questions to every file, as they are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.chats import ChatStore
from app.chats.errors import ChatsUnusable
from app.chats.records import Outcome

FILES = [(1, "/docs/a.pdf"), (2, "/docs/na\udcefve.pdf")]


def test_a_run_comes_back_with_what_its_files_answered(store: ChatStore, tmp_path: Path) -> None:
    run = store.runs.create("When does it end?", "Contracts", FILES)
    first, second = store.runs.files(run.run_id)
    assert [(file.document_id, file.path) for file in (first, second)] == FILES
    answered = Outcome(state="finished", text="In May. [1]", passages=({"document": "/docs/a.pdf"},), model="tiny")
    store.runs.record(first.file_id, answered, ["page 3"])
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert again.runs.runs() == (run,)
    shown = again.runs.files(run.run_id)
    assert [file.outcome for file in shown] == [replace(answered, passages=()), Outcome()]
    assert [file.places for file in shown] == [("page 3",), ()]
    assert again.runs.outcome(first.file_id) == answered
    assert again.runs.outcome("gone") is None
    again.close()


def test_the_newest_run_comes_first_and_a_deleted_one_leaves_nothing(store: ChatStore) -> None:
    old = store.runs.create("Old?", None, FILES)
    new = store.runs.create("New?", None, FILES)
    assert store.runs.runs() == (new, old)
    store.runs.delete(old.run_id)
    assert store.runs.runs() == (new,)
    assert store.runs.files(old.run_id) == ()
    assert len(store.runs.files(new.run_id)) == 2


def test_a_run_waits_until_each_of_its_files_has_answered_or_failed(store: ChatStore) -> None:
    run, other = (store.runs.create(question, None, FILES) for question in ("When?", "Who?"))
    first, second = store.runs.files(run.run_id)
    assert store.runs.waits(run.run_id)
    store.runs.record(second.file_id, Outcome(state="failed"))
    assert store.runs.waits(run.run_id)
    store.runs.record(first.file_id, Outcome(state="finished"))
    assert not store.runs.waits(run.run_id)
    assert store.runs.waits(other.run_id)
    assert not store.runs.waits("gone")


def test_a_run_waits_also_where_only_its_first_files_do(store: ChatStore) -> None:
    run = store.runs.create("When?", None, [(number, f"/docs/{number}.pdf") for number in range(300)])
    first, *others = store.runs.files(run.run_id)
    for file in others:
        store.runs.record(file.file_id, Outcome(state="finished"))
    assert store.runs.waits(run.run_id)
    store.runs.record(first.file_id, Outcome(state="failed"))
    assert not store.runs.waits(run.run_id)


def test_whether_a_run_waits_is_seen_without_its_answers(store: ChatStore) -> None:
    looked: list[str] = []
    store._connection.set_trace_callback(looked.append)
    store.runs.waits("any")
    store._connection.set_trace_callback(None)
    [question] = looked
    plan = " ".join(row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {question}"))
    assert "files_waiting" in plan


def test_a_full_disk_is_told_of_the_question_and_not_of_a_chat(store: ChatStore) -> None:
    run = store.runs.create("When does it end?", None, FILES)
    (file, _) = store.runs.files(run.run_id)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.record(file.file_id, Outcome(state="finished", text="long " * 100_000))
    assert raised.value.sentence == "The disk is full, so what the files answer to this question cannot be saved."
    assert raised.value.way_out == "Free some space; what is shown stays."
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.create("Who? " * 100_000, None, FILES)
    assert raised.value.sentence == "The disk is full, so this question cannot be put to every file."
    assert store.runs.runs() == (run,)


def test_what_is_write_protected_is_told_of_the_question_that_stays(store: ChatStore) -> None:
    run = store.runs.create("When does it end?", None, FILES)
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(ChatsUnusable) as raised:
        store.runs.delete(run.run_id)
    assert raised.value.sentence == (
        "The questions to every file are write-protected, so this question cannot be deleted."
    )
    assert store.runs.runs() == (run,)
