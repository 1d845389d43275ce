"""Tests for app.windows.adding; those of its dialogs are with the pages that open them."""

from __future__ import annotations

from PySide6.QtWidgets import QFileDialog

from app.windows.collection_dialog import CollectionDialog
from app.windows.collection_name_dialog import LONGEST_CHARS
from engine import protocol
from engine.protocol import Collection
from tests.helpers.told_library import tell_library

COLLECTION = Collection("Documents", ("/docs",), {"indexed": 2, "failed": 1}, 6)


def test_folders_are_chosen_in_a_dialog_of_the_window(window, client, tmp_path):
    window.adding.add_folder("Rust")
    (dialog,) = window.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path)])
    dialog.close()
    (added,) = client.asked(protocol.ADD)
    assert (added.paths, added.collection) == ((str(tmp_path),), "Rust")


def test_a_collection_that_is_there_keeps_its_spelling(window, client, models):
    tell_library(client, COLLECTION)
    window.adding.add(("/more",), "documents", is_asked=True)
    assert client.asked(protocol.ADD)[-1].collection == "Documents"
    client.answer(protocol.ADD, protocol.Nothing())
    assert models.conversation.collections == ("Documents",)


def test_a_collection_that_could_not_be_made_is_not_asked_and_the_chat_keeps_its_own(window, client, models):
    tell_library(client, COLLECTION)
    models.conversation.set_collection("Documents")
    window.adding.add(("/gone",), "New", is_asked=True)
    client.refuse(protocol.ADD, "/gone does not exist.", "NothingThere", "")
    assert models.conversation.collections == ("Documents",)


def test_a_new_collection_is_asked_by_the_chat_that_it_was_made_for(window, client, models):
    tell_library(client, COLLECTION)
    models.conversation.ask("First?")
    first = models.conversation.conversation_id
    window.adding.add(("/more",), "New", is_asked=True)
    models.conversation.new_chat()
    client.answer(protocol.ADD, protocol.Nothing())
    assert models.conversation.collections == ()
    models.conversation.open(first)
    assert models.conversation.collections == ("New",)
    window.adding.add(("/more",), "Newer", is_asked=True)
    client.answer(protocol.ADD, protocol.Nothing())
    assert models.conversation.collections == ("Newer",)


def test_the_name_of_a_new_collection_is_no_longer_than_one_that_is_renamed(window):
    window.adding.new_collection()
    (dialog,) = window.findChildren(CollectionDialog)
    dialog.field.insert("n" * 500)
    assert len(dialog.name) == LONGEST_CHARS
    dialog.reject()
