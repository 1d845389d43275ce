"""Tests for app.models.chat_list."""

from __future__ import annotations

import pytest
from PySide6.QtTest import QAbstractItemModelTester

from app.models.chat_list import ChatListModel, Deleted


@pytest.fixture
def chats(qapp, store) -> ChatListModel:
    for title in ("oldest", "middle", "newest"):
        chat = store.create_conversation(title)
        store.add_turn(chat.conversation_id, None, f"What about the {title}?")
    model = ChatListModel(store)
    model.tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    return model


def titles(model: ChatListModel) -> list[str]:
    return [model.index(row).data() for row in range(model.rowCount())]


def id_of(model: ChatListModel, title: str) -> str:
    row = titles(model).index(title)
    return model.index(row).data(ChatListModel.ID_ROLE)


def test_the_newest_chat_is_first(chats):
    assert titles(chats) == ["newest", "middle", "oldest"]


def test_a_pinned_chat_moves_to_the_top(chats):
    chats.set_pinned(id_of(chats, "oldest"), True)
    assert titles(chats) == ["oldest", "newest", "middle"]
    assert chats.index(0).data(ChatListModel.PINNED_ROLE) is True
    chats.set_pinned(id_of(chats, "oldest"), False)
    assert titles(chats) == ["newest", "middle", "oldest"]


def test_a_filter_shows_what_matches_and_survives_a_refresh(chats, store):
    chats.set_filter("middle")
    assert titles(chats) == ["middle"]
    store.create_conversation("another")
    chats.refresh()
    assert titles(chats) == ["middle"]
    chats.set_filter("")
    assert len(titles(chats)) == 4


def test_a_chat_is_renamed_and_everybody_is_told(chats, qtbot):
    chat = id_of(chats, "middle")
    with qtbot.wait_signal(chats.chat_renamed) as renamed:
        chats.rename(chat, "  better  title ")
    assert renamed.args == [chat, "better title"]
    assert "better title" in titles(chats)
    with qtbot.assert_not_emitted(chats.chat_renamed):
        chats.rename(chat, "   ")


def test_a_deleted_chat_comes_back_with_undo(chats, qtbot):
    middle, newest = id_of(chats, "middle"), id_of(chats, "newest")
    with qtbot.wait_signal(chats.chats_deleted) as deleted:
        chats.delete(middle)
    assert deleted.args == [Deleted((middle,), "middle")]
    chats.delete(newest)
    assert titles(chats) == ["oldest"]
    chats.undo_delete()
    assert titles(chats) == ["newest", "oldest"]
    assert chats.can_undo
    chats.undo_delete()
    assert titles(chats) == ["newest", "middle", "oldest"]
    assert not chats.can_undo
    chats.undo_delete()
    assert len(titles(chats)) == 3


def test_several_chats_are_deleted_together_and_come_back_with_one_undo(chats, qtbot):
    ids = (id_of(chats, "newest"), id_of(chats, "oldest"))
    with qtbot.wait_signal(chats.chats_deleted) as deleted:
        chats.delete(*ids)
    assert deleted.args == [Deleted(ids)]
    assert chats.last_deleted == Deleted(ids)
    assert titles(chats) == ["middle"]
    with qtbot.wait_signal(chats.chat_restored) as restored:
        chats.undo_delete()
    assert restored.args == [ids[0]]
    assert titles(chats) == ["newest", "middle", "oldest"]
    assert chats.last_deleted is None


def test_of_several_deleted_chats_those_that_are_left_come_back(chats, store):
    chats.delete(id_of(chats, "newest"), id_of(chats, "oldest"))
    store._connection.execute("DELETE FROM conversations WHERE title = 'newest'")
    chats.undo_delete()
    assert titles(chats) == ["middle", "oldest"]
    assert not chats.can_undo


def test_deleting_no_chats_leaves_nothing_to_undo(chats):
    chats.delete()
    assert not chats.can_undo


def test_an_undo_that_the_file_does_not_take_can_be_tried_again(chats, store):
    chats.delete(id_of(chats, "middle"))
    store._connection.execute("PRAGMA query_only = ON")
    chats.undo_delete()
    assert chats.can_undo
    store._connection.execute("PRAGMA query_only = OFF")
    chats.undo_delete()
    assert "middle" in titles(chats)


def test_a_chat_that_is_gone_for_good_is_told_and_in_the_way_of_no_other(chats, store, qtbot):
    for name in ("oldest", "middle"):
        chats.delete(id_of(chats, name))
    store._connection.execute("DELETE FROM conversations WHERE title = 'middle'")
    with qtbot.wait_signal(chats.store_failed) as failed:
        chats.undo_delete()
    assert "cannot be brought back" in failed.args[0]
    assert titles(chats) == ["newest"]
    chats.undo_delete()
    assert titles(chats) == ["newest", "oldest"]
    assert not chats.can_undo


def test_when_the_file_does_not_let_us_the_list_stays_and_it_is_told(chats, store, qtbot):
    store._connection.execute("PRAGMA query_only = ON")
    with qtbot.wait_signal(chats.store_failed) as failed:
        chats.delete(id_of(chats, "middle"))
    assert "write-protected" in failed.args[0]
    assert len(titles(chats)) == 3
    assert not chats.can_undo


def test_spaces_alone_hide_nothing(chats):
    chats.set_filter("  ")
    assert len(titles(chats)) == 3


def test_a_word_of_two_letters_is_looked_for_a_little_at_a_time(chats, store, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.chat_list._STEP_S", 0.0)
    chats.set_filter("st")
    assert titles(chats) == ["newest", "middle", "oldest"]
    # What is shown meanwhile is as it stands now.
    chats.delete(id_of(chats, "newest"))
    assert titles(chats) == ["middle", "oldest"]
    qtbot.wait_until(lambda: titles(chats) == ["oldest"])
    chats.set_filter("id")
    chats.set_filter("")
    assert not chats._due.isActive()
    assert titles(chats) == ["middle", "oldest"]


def test_it_is_told_while_chats_are_looked_through(chats, store, qtbot, monkeypatch):
    told: list[bool] = []
    chats.looking_changed.connect(told.append)
    chats.set_filter("newest")
    assert (chats.is_looking, told) == (False, [])
    monkeypatch.setattr("app.models.chat_list._STEP_S", 0.0)
    chats.set_filter("st")
    assert (chats.is_looking, told) == (True, [True])
    chats.set_filter("id")
    assert told == [True]
    qtbot.wait_until(lambda: not chats.is_looking)
    assert told == [True, False]
    for end in (lambda: chats.set_filter(""), chats.stop):
        chats.set_filter("st")
        assert chats.is_looking
        end()
        assert not chats.is_looking
    chats.set_filter("id")
    store.close()
    qtbot.wait_until(lambda: not chats.is_looking)


def test_a_search_ends_where_the_store_is_closed(chats, monkeypatch):
    monkeypatch.setattr("app.models.chat_list._STEP_S", 0.0)
    chats.set_filter("st")
    chats.stop()
    assert not chats._due.isActive()


def test_a_search_that_the_file_does_not_let_on_is_told(chats, store, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.chat_list._STEP_S", 0.0)
    with qtbot.wait_signal(chats.store_failed):
        chats.set_filter("id")
        store.close()
    assert len(titles(chats)) == 3
