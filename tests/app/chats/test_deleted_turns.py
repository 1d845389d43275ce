"""Tests for deleting single turns in app.chats.store: hidden until the next opening, then erased."""

from __future__ import annotations

import pytest

from app.chats import ChatStore
from app.chats.errors import ChatGone


@pytest.fixture
def asked(store):
    """A chat of three turns in a row; apples, then pears, then plums."""
    chat = store.create_conversation("Fruit").conversation_id
    turns, parent_id = [], None
    for words in ("apples", "pears", "plums"):
        turns.append(store.add_turn(chat, parent_id, f"What of {words}?"))
        parent_id = turns[-1].turn_id
    return chat, turns


def found(store: ChatStore, words: str) -> set[str]:
    looking = store.finding(words)
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return end.value


def parents(store: ChatStore, chat: str) -> list[tuple[str, str | None]]:
    return [(turn.turn_id, turn.parent_id) for turn in store.turns(chat)]


def test_a_deleted_turn_is_gone_and_what_followed_it_follows_the_turn_before_it(store, asked, tmp_path):
    chat, (apples, pears, plums) = asked
    store.delete_turn(pears, plums.turn_id)
    kept = [(apples.turn_id, None), (plums.turn_id, apples.turn_id)]
    assert parents(store, chat) == kept
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert parents(again, chat) == kept
    assert again._connection.execute("SELECT count(*) FROM turns").fetchone() == (2,)
    with pytest.raises(ChatGone):
        again.restore_turn(pears.turn_id)
    again.close()


def test_a_restored_turn_is_in_its_old_place(store, asked):
    chat, (_, pears, plums) = asked
    before = parents(store, chat)
    store.delete_turn(pears, plums.turn_id)
    store.restore_turn(pears.turn_id)
    assert parents(store, chat) == before


def test_turns_deleted_one_after_the_other_are_erased_whichever_came_first(store, asked, tmp_path):
    chat, (apples, pears, plums) = asked
    store.delete_turn(pears, plums.turn_id)
    store.delete_turn(apples, plums.turn_id)
    assert parents(store, chat) == [(plums.turn_id, None)]
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert parents(again, chat) == [(plums.turn_id, None)]
    again.close()


def test_which_branch_is_shown_is_remembered_with_the_deletion(store, asked):
    chat, (_, pears, plums) = asked
    store.delete_turn(plums, pears.turn_id)
    assert store.conversation(chat).leaf_id == pears.turn_id


@pytest.mark.parametrize("has_full_text", [True, False])
def test_a_search_does_not_find_what_only_a_deleted_turn_holds(tmp_path, has_full_text):
    store = ChatStore(tmp_path / "chats.sqlite", has_full_text=has_full_text)
    chat = store.create_conversation("Fruit").conversation_id
    turn = store.add_turn(chat, None, "What of apples?")
    assert found(store, "apples") == found(store, "ap") == {chat}
    store.delete_turn(turn, None)
    assert found(store, "apples") == found(store, "ap") == set()
    store.restore_turn(turn.turn_id)
    assert found(store, "apples") == {chat}
    store.close()


def test_the_words_of_a_deleted_turn_are_not_left_in_the_file(store, tmp_path):
    chat = store.create_conversation("Fruit").conversation_id
    turn = store.add_turn(chat, None, "xylophonesecret")
    store.delete_turn(turn, None)
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    while again.tidy_some():
        pass
    again.close()
    assert b"xylophonesecret" not in (tmp_path / "chats.sqlite").read_bytes()


def test_an_edit_of_a_deleted_turn_is_not_kept(store, asked):
    _, (apples, pears, plums) = asked
    store.delete_turn(pears, plums.turn_id)
    ids = {turn.turn_id for turn in (apples, pears, plums)}
    assert store.kept_turns(ids) == ids - {pears.turn_id}


def test_a_hidden_chat_appears_once_it_is_restored_and_is_erased_otherwise(store, asked, tmp_path):
    from app.chats.copies import under_new_ids

    chat, _ = asked
    copies = [under_new_ids(store.conversation(chat), store.turns(chat)) for _ in range(2)]
    for copy in copies:
        store.add(copy.conversation, copy.turns, is_hidden=True)
    assert [one.conversation_id for one in store.conversations()] == [chat]
    shown, hidden = (copy.conversation.conversation_id for copy in copies)
    store.restore(shown)
    assert store.turns(shown) == copies[0].turns
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert {one.conversation_id for one in again.conversations()} == {chat, shown}
    assert again.turns(hidden) == ()
    again.close()
