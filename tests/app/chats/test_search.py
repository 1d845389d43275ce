"""Tests for app.chats.search: the same is found with an index and without one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.chats import ChatStore, search
from app.chats.records import Outcome
from tests.helpers.searched_chats import chats_with


def filled(store: ChatStore) -> ChatStore:
    for title, question, answer in (
        ("Flat", "What notice period applies?", "Three months, says §4."),
        ("Tea", "How hot is green tea?", "70 °C; 绿茶水温七十度"),
        ("100% wool", 'Is it "really" wool_?', ""),
        ("Договор ÜBER Öl", "Où est l’ÉTAT?", ""),
    ):
        chat = store.create_conversation(title)
        turn = store.add_turn(chat.conversation_id, None, question)
        store.record(turn.turn_id, Outcome(state="finished", text=answer))
    return store


@pytest.mark.parametrize("has_full_text", [True, False])
@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("notice", {"Flat"}),
        ("OTICE", {"Flat"}),
        ("green hot", {"Tea"}),
        ("green notice", set()),
        ("绿茶", {"Tea"}),
        ("水温七", {"Tea"}),
        ("flat months", {"Flat"}),
        ("100%", {"100% wool"}),
        ("%", {"100% wool"}),
        ("_", {"100% wool"}),
        ('"really"', {"100% wool"}),
        ('"', {"100% wool"}),
        ("nowhere", set()),
        ("договор", {"Договор ÜBER Öl"}),
        ("öl über", {"Договор ÜBER Öl"}),
        ("où", {"Договор ÜBER Öl"}),
        ("état", {"Договор ÜBER Öl"}),
        ("\\", set()),
        ("AND OR NOT *", set()),
    ],
)
def test_a_chat_is_found_by_words_and_parts_of_words_anywhere_in_it(tmp_path, has_full_text, query, titles):
    store = filled(ChatStore(tmp_path / "chats.sqlite", has_full_text=has_full_text))
    assert {chat.title for chat in chats_with(store, query)} == titles
    store.close()


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("§ notice", {"What notice period applies?", "Three months, says §4."}),
        ("a nowhere", set()),
        ("fl notice", set()),
    ],
)
def test_short_words_are_read_for_only_in_chats_that_have_the_long_ones(store, monkeypatch, query, read):
    filled(store)
    looked_at, folded = set[str](), search.folded
    monkeypatch.setattr(search, "folded", lambda text: (looked_at.add(text), folded(text))[1])
    chats_with(store, query)
    assert looked_at - {chat.title for chat in store.conversations()} - set(query.split()) == read


def test_what_was_written_without_an_index_is_found_once_there_is_one(tmp_path: Path):
    file = tmp_path / "chats.sqlite"
    ChatStore(file).close()
    filled(ChatStore(file, has_full_text=False)).close()
    store = ChatStore(file)
    assert [chat.title for chat in chats_with(store, "months")] == ["Flat"]
    store.close()


def test_an_answer_that_grows_is_found_by_its_newest_words(store):
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "question")
    store.record(turn.turn_id, Outcome(state="writing", text="first"))
    store.record(turn.turn_id, Outcome(state="finished", text="first and second"))
    assert chats_with(store, "second")
    store.record(turn.turn_id, Outcome(state="finished", text="other"))
    assert chats_with(store, "first") == ()


def words_of_index(store: ChatStore) -> bytes:
    return b"".join(row[0] for row in store._connection.execute("SELECT block FROM turns_index_data"))


def test_what_was_deleted_leaves_the_index_step_by_step_and_not_while_the_store_is_opened(tmp_path, monkeypatch):
    file, secret = tmp_path / "chats.sqlite", "ж§ŧ"
    monkeypatch.setattr(search, "_STEP_PAGES", 1)
    store = ChatStore(file)
    for number in range(20):
        chat = store.create_conversation(f"chat {number}")
        turn = store.add_turn(chat.conversation_id, None, f"{secret}?" if number == 10 else "question")
        answer = " ".join(f"{number * part * 7919 % 99991:x}" for part in range(1, 2000))
        store.record(turn.turn_id, Outcome(state="finished", text=answer))
        if number == 10:
            store.delete(chat.conversation_id)
    store.close()
    store = ChatStore(file)
    assert chats_with(store, secret) == ()
    assert secret.encode() in words_of_index(store)
    assert store.tidy_some()
    assert secret.encode() in words_of_index(store)
    store.close()
    # The next start goes on.
    store = ChatStore(file)
    while store.tidy_some():
        pass
    assert secret.encode() not in words_of_index(store)
    assert len(chats_with(store, "question")) == 19
    store.close()
    assert secret.encode() not in file.read_bytes()


def test_an_index_that_is_made_anew_has_no_word_of_what_was_deleted_before(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_STEP_TURNS", 2)
    file = tmp_path / "chats.sqlite"
    store = filled(ChatStore(file))
    (*others, deleted) = store.conversations()
    words = [turn.question for turn in store.turns(deleted.conversation_id)]
    store.delete(deleted.conversation_id)
    store.close()
    with closing(sqlite3.connect(file)) as connection:
        for trigger in search._TRIGGERS:
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.commit()
    store = ChatStore(file)
    while store.tidy_some():
        pass
    assert store.conversations() == tuple(others)
    store._connection.execute("INSERT INTO turns_index (turns_index, rank) VALUES ('integrity-check', 1)")
    (indexed,) = store._connection.execute("SELECT count(*) FROM turns_index_docsize").fetchone()
    assert words
    assert indexed == sum(len(store.turns(chat.conversation_id)) for chat in others)
    store.close()


def test_chats_without_an_index_have_nothing_to_tidy(tmp_path):
    store = filled(ChatStore(tmp_path / "chats.sqlite", has_full_text=False))
    assert not store.tidy_some()
    store.close()


def is_indexed(store: ChatStore, word: str) -> bool:
    found = store._connection.execute("SELECT rowid FROM turns_index WHERE turns_index MATCH ?", (word,)).fetchall()
    return bool(found)


def test_a_long_index_is_filled_step_by_step_while_chats_are_searched_without(tmp_path):
    file = tmp_path / "chats.sqlite"
    store = ChatStore(file, has_full_text=False)
    chats = [store.create_conversation(f"chat {number}") for number in range(50)]
    for number, chat in enumerate(chats):
        store.add_turn(chat.conversation_id, None, f"lemon{number}x")
    store.delete(chats[1].conversation_id)
    store.close()
    store = ChatStore(file)
    asked = store.add_turn(chats[0].conversation_id, None, "meanwhile")
    assert store.tidy_some()
    assert [is_indexed(store, word) for word in ("lemon2x", "lemon49x", "meanwhile")] == [True, False, False]
    assert chats_with(store, "lemon49x") == (store.conversation(chats[49].conversation_id),)
    store.close()
    # An end in the middle costs what was done by then.
    store = ChatStore(file)
    asked = store.add_turn(chats[0].conversation_id, asked.turn_id, "latest")
    while store.tidy_some():
        pass
    store.record(asked.turn_id, Outcome(state="finished", text="limes"))
    for word, number in (("lemon49x", 49), ("meanwhile", 0), ("latest", 0), ("limes", 0)):
        assert is_indexed(store, word)
        assert chats_with(store, word) == (store.conversation(chats[number].conversation_id),)
    assert not is_indexed(store, "lemon1x")
    assert chats_with(store, "lemon1x") == ()
    store._connection.execute("INSERT INTO turns_index (turns_index, rank) VALUES ('integrity-check', 1)")
    store.close()


def test_what_no_index_has_is_read_for_turn_by_turn_while_chats_are_used_as_ever(store):
    filled(store)
    (lemons, *_) = store.conversations()
    for number in range(5):
        store.add_turn(lemons.conversation_id, None, f"Question {number}?")
    steps = store.finding("绿")
    for _ in range(3):
        next(steps)
    new = store.create_conversation("New")
    store.delete(lemons.conversation_id)
    num_more = sum(1 for _ in steps)
    assert num_more == 3 + 6 - 3
    assert new in store.conversations()
    assert [chat.title for chat in chats_with(store, "绿")] == ["Tea"]
