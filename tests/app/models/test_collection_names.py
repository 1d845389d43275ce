"""Tests for app.models.collection_names, and what the library and the open chat have for it."""

from __future__ import annotations

import pytest

from app.chats import ChatStore
from app.models import AppModels
from app.models.collection_names import as_text, names_in
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import Collection, RagdollError
from tests.helpers.told_library import answer_library, tell_library

WORK = Collection("Work", ("/docs",), {"indexed": 2}, 6)
FIRM = Collection("Firm", ("/docs",), {"indexed": 2}, 6, former_names=("Work",))
HOME = Collection("Home", ("/home",), {"indexed": 1}, 3)


@pytest.fixture
def models(client, store, tmp_path) -> AppModels:
    return AppModels(client, store, SettingsStore(tmp_path / "window.toml"))


def say(models: AppModels, client, *collections: Collection) -> None:
    """The engine tells what the library is now."""
    models.library.refresh()
    answer_library(client, *collections)


def test_chats_and_runs_go_on_asking_a_collection_that_is_called_otherwise(models, client, store: ChatStore) -> None:
    tell_library(client, WORK, HOME)
    asked = store.create_conversation("One", ("Work",))
    alone = store.create_conversation("Two", ("Work",), searches=False)
    others = [store.create_conversation("Three", names) for names in ((), ("Home",), ("Lost",))]
    store.runs.create("When does it end?", ("Work",), [(1, "/docs/a.pdf")])
    say(models, client, FIRM, HOME)

    def kept(one):
        found = store.conversation(one.conversation_id)
        return found.collections, found.searches

    assert [kept(one) for one in (asked, alone)] == [(("Firm",), True), (("Firm",), False)]
    assert [kept(one)[0] for one in others] == [(), ("Home",), ("Lost",)]
    assert [run.collections for run in store.runs.runs()] == [("Firm",)]


def test_the_open_chat_asks_it_by_its_new_name_at_once(models, client, store: ChatStore) -> None:
    tell_library(client, WORK, HOME)
    models.conversation.set_collection("Work")
    models.conversation.ask("When does it end?")
    say(models, client, FIRM, HOME)
    assert (models.conversation.collections, models.conversation.searches) == (("Firm",), True)
    assert models.settings.settings.last_collection == "Firm"
    models.conversation.ask("And then?")
    assert [one.collection for one in client.asked(protocol.ASK)] == ["Work", "Firm"]
    assert store.conversations()[0].collections == ("Firm",)


def test_a_chat_that_leaves_files_out_goes_on_doing_so(models, client) -> None:
    tell_library(client, WORK)
    models.conversation.set_collection("Work")
    models.conversation.leave_files_out()
    say(models, client, FIRM)
    assert (models.conversation.collections, models.conversation.searches) == (("Firm",), False)


def test_a_new_chat_follows_rather_than_ask_everything(models, client) -> None:
    tell_library(client, WORK, HOME)
    models.conversation.set_collection("Work")
    say(models, client, FIRM, HOME)
    assert models.conversation.collections == ("Firm",)
    say(models, client, HOME)
    assert models.conversation.collections == ()


def test_what_a_command_renamed_while_no_window_was_open_is_followed(client, store, tmp_path) -> None:
    (tmp_path / "window.toml").write_text('last_collection = "work"\n')
    asked = store.create_conversation("One", ("Work",))
    models = AppModels(client, store, SettingsStore(tmp_path / "window.toml"))
    assert models.conversation.collections == ("work",)
    tell_library(client, FIRM, HOME)
    assert models.conversation.collections == ("Firm",)
    models.conversation.open(asked.conversation_id)
    assert models.conversation.collections == ("Firm",)


def test_of_several_collections_the_one_that_is_called_otherwise_is_followed(models, client, store, tmp_path) -> None:
    tell_library(client, WORK, HOME)
    asked = store.create_conversation("One", ("Home", "Work"))
    store.runs.create("When does it end?", ("Work", "Home"), [(1, "/docs/a.pdf")])
    models.conversation.set_collections(("Work", "Home"))
    models.conversation.ask("When does it end?")
    say(models, client, FIRM, HOME)
    assert store.conversation(asked.conversation_id).collections == ("Home", "Firm")
    assert [run.collections for run in store.runs.runs()] == [("Firm", "Home")]
    assert models.conversation.collections == ("Firm", "Home")
    models.conversation.ask("And then?")
    asked_of = [one.filters.collections for one in client.asked(protocol.ASK)]
    assert asked_of == [("Work", "Home"), ("Firm", "Home")]
    assert names_in(models.settings.settings.last_collections) == ("Firm", "Home")
    again = AppModels(client, store, SettingsStore(tmp_path / "window.toml"))
    assert again.conversation.collections == ("Firm", "Home")


def test_a_chat_tells_which_of_several_collections_is_gone_and_a_new_one_leaves_it(models, client) -> None:
    tell_library(client, WORK, HOME)
    models.conversation.set_collections(("Work", "Home"))
    models.conversation.ask("When does it end?")
    say(models, client, HOME)
    assert models.conversation.collections == ("Work", "Home")
    assert models.conversation.asked_collections == ("Home",)
    models.conversation.ask("And then?")
    assert client.asked(protocol.ASK)[-1].collection == "Home"
    models.conversation.new_chat()
    assert models.conversation.collections == ("Home",)
    last = models.settings.settings
    assert (last.last_collection, last.last_collections) == ("Home", "")


def test_files_are_added_to_the_first_of_several_collections_that_is_there(models, client) -> None:
    tell_library(client, WORK, HOME)
    models.conversation.set_collections(("Home", "Work"))
    models.conversation.ask("When does it end?")
    assert models.collection_added_to == "Home"
    say(models, client, WORK)
    models.add_first(["/one"])
    assert [one.collection for one in client.asked(protocol.ADD)] == ["Work"]


@pytest.mark.parametrize("text", ["", "[", "7", '{"a": 1}'])
def test_what_somebody_wrote_in_place_of_names_names_none(text: str) -> None:
    assert names_in(text) == ()
    assert names_in(as_text(("Tea “& milk”", "Flat"))) == ("Tea “& milk”", "Flat")


def test_a_change_of_case_alone_is_a_change_of_name(models, client, store: ChatStore) -> None:
    tell_library(client, WORK)
    asked = store.create_conversation("One", ("Work",))
    say(models, client, Collection("WORK", ("/docs",), {"indexed": 2}, 6))
    assert store.conversation(asked.conversation_id).collections == ("WORK",)


def test_a_former_name_that_is_given_anew_is_the_new_one_s(models, client) -> None:
    tell_library(client, FIRM)
    models.library.add(["/new"], "Work")
    models.conversation.set_collection("Work")
    say(models, client, FIRM)
    assert models.conversation.collections == ("Work",)
    say(models, client, Collection("Firm", ("/docs",), {}, 0), Collection("Work", ("/new",), {}, 0))
    assert models.conversation.collections == ("Work",)


def test_files_go_where_the_default_collection_went(models, client) -> None:
    tell_library(client, Collection("Papers", ("/docs",), {}, 0, former_names=("Documents",)))
    models.library.add(["/one"])
    models.add_first(["/two"])
    assert [one.collection for one in client.asked(protocol.ADD)] == ["Papers", "Papers"]


def test_a_disk_that_refuses_is_told_of(models, client, store: ChatStore, monkeypatch) -> None:
    told = []
    models.message_told.connect(lambda *message: told.append(message))
    tell_library(client, WORK)
    store.create_conversation("One", ("Work",))

    def refuse(*_: object) -> None:
        raise RagdollError("The disk is full.", "Free some space.")

    monkeypatch.setattr(store, "rename_collection", refuse)
    say(models, client, FIRM)
    say(models, client, FIRM)
    assert told == [("error", "The disk is full.", "Free some space.")]


def test_a_collection_is_renamed_and_deleted_by_the_engine(models, client) -> None:
    tell_library(client, WORK)
    counted, removed = [], []
    models.library.documents_removed.connect(removed.append)
    models.library.rename_collection("Work", "Firm")
    models.library.count_only_in("Firm", counted.append)
    models.library.delete_collection("Firm")
    assert client.asked(protocol.RENAME_COLLECTION) == [protocol.RenameCollection(name="Work", new_name="Firm")]
    client.answer(protocol.ONLY_IN_COLLECTION, protocol.OnlyThere(documents=2))
    client.answer(protocol.DELETE_COLLECTION, protocol.Removed(documents=2))
    assert (counted, removed) == ([2], [2])


def test_a_refusal_of_a_name_is_told(models, client) -> None:
    told = []
    models.message_told.connect(lambda *message: told.append(message))
    models.library.rename_collection("Work", "Home")
    client.refuse(protocol.RENAME_COLLECTION, "There is a collection named 'Home' already.", way_out="Choose another.")
    assert told == [("error", "There is a collection named 'Home' already.", "Choose another.")]


def test_a_listed_collection_that_is_gone_gives_way_to_all(models, client) -> None:
    told = []
    models.message_told.connect(lambda *message: told.append(message))
    table = models.library.documents
    table.set_shown(True)
    table.show("Work", ("failed",), "lease")
    client.refuse(protocol.DOCUMENTS, "There is no collection named 'Work'.", kind="NothingThere")
    # The last request is for what could not be indexed.
    listed = client.asked(protocol.DOCUMENTS)[-2]
    assert listed == protocol.ListDocuments(states=("failed",), name="lease", limit=listed.limit)
    assert (table.collection, told) == (None, [])


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_of_the_library_can_be_asked_about(models, client, is_new: bool) -> None:
    models.conversation.ask("What is in my files?")
    first = models.conversation.conversation_id
    models.conversation.set_filters(protocol.Filters(paths=("/docs/other.pdf",), formats=("pdf",)))
    models.conversation.leave_files_out()
    models.ask_about(["/docs/a.txt"], is_new=is_new)
    assert (models.conversation.conversation_id is None) is is_new
    assert models.conversation.filters == protocol.Filters(paths=("/docs/a.txt",))
    assert models.conversation.searches
    models.conversation.open(first)
    kept = models.conversation.filters.paths
    assert kept == (("/docs/other.pdf",) if is_new else ("/docs/a.txt",))


def test_a_collection_that_is_renamed_while_files_are_handed_over_for_it_is_known_by_its_new_name(
    models, client
) -> None:
    tell_library(client, WORK)
    models.library.add(["/new"], "Work")
    models.library.rename_collection("Work", "Firm")
    # The engine gets one after the other: what is added now comes when it is called so.
    models.library.add(["/newer"], "Work")
    assert [added.collection for added in client.asked(protocol.ADD)] == ["Work", "Firm"]
    for _ in range(2):
        client.answer(protocol.ADD, protocol.Nothing())
    client.answer(protocol.RENAME_COLLECTION, protocol.Nothing())
    say(models, client, FIRM)
    assert models.library.name_now("Work") == "Firm"
    assert not models.library.is_gone("Firm")
    assert models.library.is_gone("Work")


def test_a_new_collection_may_have_the_name_that_another_had(models, client) -> None:
    tell_library(client, FIRM)
    models.library.add(["/new"], "Work")
    say(models, client, FIRM)
    # Until the engine has made it, it is nobody else's.
    assert models.library.name_now("Work") == "Work"
    assert not models.library.is_gone("Work")


def test_a_name_that_was_refused_is_nobodys(models, client) -> None:
    tell_library(client, WORK, HOME)
    models.library.rename_collection("Work", "Home")
    client.refuse(protocol.RENAME_COLLECTION, "There is a collection named 'Home' already.")
    assert models.library.name_now("Work") == "Work"
