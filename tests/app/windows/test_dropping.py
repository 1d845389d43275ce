"""Tests for app.windows.dropping: as the platform delivers drops, to the window's own handle, over any widget."""

from __future__ import annotations

import os

import pytest
from PySide6.QtCore import QByteArray, QMimeData, QUrl
from PySide6.QtGui import QDragLeaveEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget

from engine import protocol
from tests.helpers.drops import drag_over, drop_on, mime_of


def place_of(window, name: str) -> QWidget:
    """The widget a drop is let go over."""
    if name == "library":
        return window.go_to("library")
    if name == "question":
        return window.go_to("every-file").question
    window.go_to("chats")
    return {"chat": window.chat.hero, "prompt": window.chat.prompt.field.viewport(), "rail": window.rail}[name]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "合同 and others"
    made.mkdir()
    (made / "lease.txt").write_text("three months")
    return made


@pytest.mark.parametrize("over", ["chat", "prompt", "library", "rail", "question"])
def test_a_folder_and_a_file_dropped_anywhere_are_added_as_they_are(window, client, folder, over):
    drop_on(window, place_of(window, over), mime_of(folder, folder / "lease.txt"))
    (added,) = client.asked(protocol.ADD)
    assert added.paths == (str(folder), str(folder / "lease.txt"))
    assert added.collection == "Documents"
    assert window.chat.prompt.text == ""


def test_files_that_come_with_their_names_as_text_are_not_typed_into_the_question(window, client, folder):
    mime = mime_of(folder)
    mime.setText(str(folder))
    question = place_of(window, "question")
    drop_on(window, question, mime)
    assert [added.paths for added in client.asked(protocol.ADD)] == [(str(folder),)]
    assert question.text() == ""


def test_a_drop_goes_to_the_collection_that_is_asked(window, client, models, folder):
    models.conversation.set_collection("Rust")
    drop_on(window, place_of(window, "chat"), mime_of(folder))
    assert client.asked(protocol.ADD)[0].collection == "Rust"


def test_a_model_that_is_dropped_is_opened_and_the_rest_goes_to_the_library(window, client, folder):
    model = folder.parent / "tiny.GGUF"
    drag_over(window, window.chat.hero, mime_of(model))
    assert window.dropping.overlay.sentence == "Drop to open this model"
    drag_over(window, window.chat.hero, mime_of(folder, model))
    assert window.dropping.overlay.sentence == "Drop to open the model and attach the rest to this chat"
    drag_over(window, window.rail, mime_of(folder, model))
    assert window.dropping.overlay.sentence == "Drop to open the model and add the rest to Documents"
    drop_on(window, window.chat.hero, mime_of(folder, model))
    assert [added.paths for added in client.asked(protocol.ADD)] == [(str(folder),)]
    assert [added.path for added in client.asked(protocol.MODELS_ADD)] == [str(model)]


def test_a_model_in_parts_is_opened_once(window, client, tmp_path):
    parts = [tmp_path / f"large-0000{number}-of-00003.gguf" for number in (2, 1, 3)]
    drop_on(window, window.chat.hero, mime_of(*parts))
    assert [added.path for added in client.asked(protocol.MODELS_ADD)] == [str(parts[1])]
    drop_on(window, window.chat.hero, mime_of(parts[0]))
    assert [added.path for added in client.asked(protocol.MODELS_ADD)][1:] == [str(parts[0])]
    assert client.asked(protocol.ADD) == []


@pytest.mark.skipif(os.name == "nt", reason="there, names are no bytes")
def test_a_name_that_is_not_utf8_is_added_by_its_bytes(window, client):
    mime = QMimeData()
    mime.setData("text/uri-list", QByteArray(b"file:///home/a%20b/caf%E9%25\r\nfile:///home/%EF%BF%BD\r\n"))
    drop_on(window, place_of(window, "chat"), mime)
    (added,) = client.asked(protocol.ADD)
    assert [os.fsencode(path) for path in added.paths] == [b"/home/a b/caf\xe9%", "/home/\ufffd".encode()]


def test_the_overlay_says_where_it_would_go_and_leaves_with_the_drag(window, folder):
    mime = mime_of(folder)
    _, is_taken = drag_over(window, window.chat.hero, mime)
    assert is_taken
    assert window.dropping.overlay.isVisible()
    assert window.dropping.overlay.sentence == "Drop to attach to this chat"
    assert "also added to Documents" in window.dropping.overlay.detail
    drag_over(window, window.rail, mime)
    assert (window.dropping.overlay.sentence, window.dropping.overlay.detail) == ("Drop to add to Documents", "")
    QApplication.sendEvent(window.windowHandle(), QDragLeaveEvent())
    assert not window.dropping.overlay.isVisible()


def test_the_overlay_leaves_with_the_drop(window, folder):
    drop_on(window, window.chat.hero, mime_of(folder))
    assert not window.dropping.overlay.isVisible()


def test_text_and_web_addresses_are_not_taken(window, client):
    text, web = QMimeData(), QMimeData()
    text.setText("some words")
    web.setUrls([QUrl("https://example.org/a.pdf")])
    for mime in (text, web):
        assert not drag_over(window, window.chat.hero, mime)[1]
        drop_on(window, window.chat.hero, mime)
    assert client.asked(protocol.ADD) == []
    assert not window.dropping.overlay.isVisible()


def test_no_widget_of_any_page_keeps_a_drop_for_itself(window):
    for place in ("chats", "every-file", "library", "memory", "models", "settings"):
        window.go_to(place)
    keeping = [
        widget
        for widget in window.findChildren(QWidget)
        # Views accept on their viewports for moving rows; with drags off they let files through to the window.
        if widget.acceptDrops() and (isinstance(widget, QLineEdit) or widget.parentWidget() is not window)
    ]
    assert [f"{type(widget).__name__} {widget.objectName()}" for widget in keeping] == []
