"""Tests for app.chats.search: the same is found with an index and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chats import ChatStore
from app.chats.records import Outcome


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
        ("  ", {"Flat", "Tea", "100% wool", "Договор ÜBER Öl"}),
        ("\\", set()),
        ("AND OR NOT *", set()),
    ],
)
def test_a_chat_is_found_by_words_and_parts_of_words_anywhere_in_it(tmp_path, has_full_text, query, titles):
    store = filled(ChatStore(tmp_path / "chats.sqlite", has_full_text=has_full_text))
    assert {chat.title for chat in store.conversations(query)} == titles
    store.close()


def test_what_was_written_without_an_index_is_found_once_there_is_one(tmp_path: Path):
    file = tmp_path / "chats.sqlite"
    ChatStore(file).close()
    filled(ChatStore(file, has_full_text=False)).close()
    store = ChatStore(file)
    assert [chat.title for chat in store.conversations("months")] == ["Flat"]
    store.close()


def test_an_answer_that_grows_is_found_by_its_newest_words(store):
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "question")
    store.record(turn.turn_id, Outcome(state="writing", text="first"))
    store.record(turn.turn_id, Outcome(state="finished", text="first and second"))
    assert store.conversations("second")
    store.record(turn.turn_id, Outcome(state="finished", text="other"))
    assert store.conversations("first") == ()
