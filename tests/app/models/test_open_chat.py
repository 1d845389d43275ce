"""Tests for app.models.open_chat: what a chat is asked with is kept with it, and is there when it is opened again."""

from __future__ import annotations

import pytest

from app.models.open_chat import Choices, OpenChat
from engine.protocol import Manner, RagdollError
from tests.helpers.chat_desk import Desk

OWN = Manner(instructions="In verse.", temperature=0.9, thinks=False)


def test_a_new_chat_is_not_stored_until_something_is_asked(desk):
    desk.model.new_chat()
    assert desk.store.conversations() == ()
    desk.ask()
    assert len(desk.store.conversations()) == 1


def test_the_chosen_collection_is_asked_in_and_remembered_by_the_chat(desk):
    desk.model.set_collection("Flat")
    desk.ask()
    assert desk.asked()[-1].collection == "Flat"
    chat = desk.model.conversation_id
    desk.model.set_collection(None)
    desk.ask("again")
    assert desk.asked()[-1].collection is None
    desk.model.set_collection("Tea")
    desk.model.new_chat()
    desk.model.set_collection("Flat")
    desk.model.open(chat)
    assert desk.model.collections == ("Tea",)


def test_the_chosen_collections_are_remembered_by_the_chat_where_the_disk_refused_them(desk, store, monkeypatch):
    desk.ask()
    chat = desk.model.conversation_id

    def refuse(*_: object, **__: object) -> None:
        raise RagdollError("The disk is full.", "Free some space.")

    with monkeypatch.context() as full:
        full.setattr(store, "set_collections", refuse)
        desk.model.set_collections(("Tea", "Flat"))
        desk.model.new_chat()
        desk.model.set_collection("Tea")
        desk.model.open(chat)
        assert desk.model.collections == ("Tea", "Flat")
    desk.model.late_writes.write()
    assert store.conversation(chat).collections == ("Tea", "Flat")


def test_a_chat_can_be_renamed(desk, qtbot):
    desk.ask()
    with qtbot.wait_signals([desk.model.title_changed, desk.model.conversation_saved]):
        desk.model.rename("  My   lease ")
    assert desk.store.conversations()[0].title == desk.model.title == "My lease"


def test_what_a_chat_has_of_its_own_is_there_when_it_is_opened_again_and_not_in_others(desk, client, store, qtbot):
    desk.model.set_manner(OWN)
    desk.ask()
    chat = desk.model.conversation_id
    with qtbot.wait_signal(desk.model.manner_changed):
        desk.model.new_chat()
    assert desk.model.manner == Manner()
    again = Desk(client, store)
    again.model.open(chat)
    assert again.model.manner == OWN
    again.model.set_manner(Manner(max_tokens=64))
    desk.model.open(chat)
    assert desk.model.manner == Manner(max_tokens=64)
    assert store.conversation(chat).manner == {"max_tokens": 64}


def test_a_manner_of_an_other_version_leaves_the_chat_as_the_settings_say(desk, store):
    desk.ask()
    store.set_manner(desk.model.conversation_id, {"temperature": "warm"})
    desk.model.open(desk.model.conversation_id)
    assert desk.model.manner == Manner()


def test_who_looks_at_another_chat_finds_the_new_one_as_it_was_until_it_is_asked_in(desk, qtbot):
    desk.model.leave_files_out()
    desk.ask()
    other = desk.model.conversation_id
    desk.model.new_chat()
    desk.model.set_manner(OWN)
    desk.model.attach(["/docs/a.pdf", "/docs/b.pdf"])
    take_off = desk.model.detaching()
    desk.model.open(other)
    assert (desk.model.manner, desk.model.filters.paths) == (Manner(), ())
    assert desk.model.unasked.manner == OWN
    take_off(["/docs/b.pdf"])
    desk.model.open(other)
    with qtbot.wait_signals([desk.model.manner_changed, desk.model.filters_changed]):
        desk.model.new_chat()
    assert (desk.model.manner, desk.model.filters.paths) == (OWN, ("/docs/a.pdf",))
    assert desk.model.searches
    desk.ask()
    assert desk.asked()[-1].manner == OWN
    assert desk.model.unasked == Choices()
    desk.model.new_chat()
    assert (desk.model.manner, desk.model.filters.paths) == (Manner(), ())


def test_a_new_chat_searches_files_unless_it_was_itself_told_not_to(desk, qtbot):
    desk.model.leave_files_out()
    desk.ask()
    other = desk.model.conversation_id
    with qtbot.wait_signal(desk.model.collection_changed):
        desk.model.new_chat()
    assert desk.model.searches
    assert desk.model.unasked == Choices()
    desk.model.set_collection("Flat")
    desk.model.leave_files_out()
    desk.model.open(other)
    desk.model.set_collections(())
    assert desk.model.unasked == Choices(searches=False)
    desk.model.new_chat()
    assert not desk.model.searches
    desk.model.new_chat()
    assert desk.model.searches


def test_a_new_chat_without_files_is_so_again_if_what_was_attached_to_it_is_refused_elsewhere(desk):
    desk.ask()
    other = desk.model.conversation_id
    desk.model.new_chat()
    desk.model.leave_files_out()
    take_off = desk.model.detaching()
    desk.model.attach(["/docs/gone.pdf"])
    desk.model.open(other)
    take_off(["/docs/gone.pdf"])
    desk.model.new_chat()
    assert (desk.model.searches, desk.model.filters.paths) == (False, ())


def test_a_collection_that_was_made_for_a_chat_is_asked_there_whatever_is_open_by_then(desk, store):
    desk.model.leave_files_out()
    desk.ask()
    chat = desk.model.conversation_id
    made = desk.model.setting_collection()
    desk.model.new_chat()
    made("Tea")
    assert (desk.model.collections, desk.model.searches) == ((), True)
    assert (store.conversation(chat).collections, store.conversation(chat).searches) == (("Tea",), True)


def test_a_collection_that_was_made_for_a_new_chat_is_asked_there_whatever_is_open_by_then(desk, store):
    desk.model.set_collection("Flat")
    desk.ask()
    other = desk.model.conversation_id
    desk.model.new_chat()
    made = desk.model.setting_collection()
    desk.model.open(other)
    desk.model.set_collection("Work")
    made("Tea")
    assert (desk.model.collections, store.conversation(other).collections) == (("Work",), ("Work",))
    desk.model.new_chat()
    assert desk.model.collections == ("Tea",)
    desk.ask()
    assert desk.asked()[-1].collection == "Tea"
    # It is no choice of later ones.
    desk.model.open(other)
    desk.model.new_chat()
    assert desk.model.collections == ("Work",)


@pytest.mark.parametrize("where", ["there", "stored", "new"])
def test_whoever_chose_another_collection_meanwhile_keeps_it(desk, where):
    desk.ask()
    chat = other = desk.model.conversation_id
    if where == "new":
        desk.model.new_chat()
    made = desk.model.setting_collection()
    desk.model.set_collection("Flat")
    if where == "stored":
        desk.model.new_chat()
    elif where == "new":
        desk.model.open(other)
    made("Tea")
    desk.model.new_chat() if where == "new" else desk.model.open(chat)
    assert desk.model.collections == ("Flat",)


def test_of_two_collections_made_for_a_chat_the_last_is_asked(desk):
    desk.ask()
    chat = desk.model.conversation_id
    first, second = desk.model.setting_collection(), desk.model.setting_collection()
    first("Tea")
    desk.model.new_chat()
    second("Flat")
    desk.model.open(chat)
    assert desk.model.collections == ("Flat",)


def test_a_new_chat_in_which_nothing_was_chosen_begins_as_new_ones_do_by_then(store, client):
    usual = [Manner(instructions="Be brief.")]
    chat = OpenChat(store, None, lambda: "", lambda: usual[0])
    stored = store.create_conversation("Tea")
    usual[0] = OWN
    chat._become(stored)
    assert chat.unasked == Choices()
    chat._become(None)
    assert chat.manner == OWN
    chat.attach(["/docs/a.pdf"])
    chat._become(stored)
    assert chat.unasked.manner is None
    usual[0] = Manner()
    chat._become(None)
    assert (chat.manner, chat.filters.paths) == (Manner(), ("/docs/a.pdf",))
