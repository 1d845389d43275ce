"""Tests for the dialog that gets and chooses embedding models, and for the line of the settings page that opens it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QMessageBox, QWidget

from app.windows.embedder_dialog import EmbedderDialog
from engine import protocol
from engine.protocol import Download, EmbedderDownloads, EmbedderEntry

MIB = 2**20


def entry(source: str, **values: object) -> EmbedderEntry:
    name = source.partition("/")[2]
    facts = {"good_for": f"What {name} is good for.", "licence": "MIT", "dimensions": 384, "num_bytes": 467 * MIB}
    told = {"path": f"/m/{source}", "download": Download(source), "is_multilingual": True, **facts, **values}
    return EmbedderEntry(source=source, name=name, **told)


MANY, ENGLISH = entry("owner/many"), entry("owner/english", is_multilingual=False, dimensions=1024)
FETCHING = Download(MANY.source, "fetching", 100 * MIB, 400 * MIB, 2.0**20, 300.0)


def tell_settings(client, model: str = "") -> None:
    tables = {"embedder": {"model": model}, "generation": {}, "retrieval": {}}
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=tables))


def tell_entries(client, *entries: EmbedderEntry) -> None:
    while any(request.method is protocol.EMBEDDERS for request in client.open):
        client.answer(protocol.EMBEDDERS, protocol.EmbeddersReply(embedders=entries or (MANY, ENGLISH)))


def standing(client, *downloads: Download) -> None:
    client.tell(EmbedderDownloads(downloads=downloads))


@pytest.fixture
def page(window, client):
    made = window.go_to("settings")
    tell_settings(client)
    return made


@pytest.fixture
def dialog(page, client) -> EmbedderDialog:
    page.embedder.click()
    (made,) = page.findChildren(EmbedderDialog)
    tell_entries(client)
    return made


def words(widget: QWidget) -> str:
    return " ".join(label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget))


def test_each_model_says_what_it_is_good_for_and_what_it_takes(dialog):
    many, english = dialog.rows()
    assert "What many is good for." in words(many)
    assert "about 467 MiB · MIT · many languages · 384 dimensions" in words(many)
    assert "English · 1,024 dimensions" in words(english)
    assert [row.action.text() for row in dialog.rows()] == ["Download and use", "Download and use"]
    assert many.action.accessibleName() == "Download many and use it"
    assert not dialog.use_none.isVisibleTo(dialog)


def test_a_model_is_got_and_followed_in_its_place(dialog, client, qtbot):
    many, english = dialog.rows()
    many.action.setFocus()
    qtbot.keyClick(many.action, Qt.Key.Key_Space)
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_GET)] == [MANY.source]
    standing(client, Download(MANY.source))
    standing(client, FETCHING)
    assert many.progress == "100 MiB of 400 MiB · 1.0 MiB/s · 5 min 0 s left"
    assert (many.action.text(), english.action.text()) == ("Cancel", "Download and use")
    assert dialog.isVisible()
    many.action.click()
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_CANCEL_GETTING)] == [MANY.source]
    standing(client, Download(MANY.source, "part", 100 * MIB, 400 * MIB))
    assert (many.action.text(), many.discard.isVisible()) == ("Resume", True)
    many.discard.click()
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_DISCARD_PART)] == [MANY.source]


def test_one_that_came_is_in_use_and_the_settings_say_so(dialog, page, client, window):
    standing(client, FETCHING)
    standing(client, Download(MANY.source, "there", 400 * MIB, 400 * MIB))
    tell_settings(client, MANY.path)
    tell_entries(client, entry(MANY.source, download=Download(MANY.source, "there")), ENGLISH)
    many, english = dialog.rows()
    assert (many.chip, many.action.isVisible(), english.chip) == ("In use", False, "")
    assert dialog.use_none.isVisible()
    assert page.embedder_name.text() == f"Now: {MANY.path}"
    assert window.message_bar.sentence == "many is downloaded. Your files are being re-indexed in the background."


def test_one_that_is_here_and_not_in_use_is_used_again_without_the_hub(dialog, client):
    tell = entry(MANY.source, download=Download(MANY.source, "there"))
    dialog._models.refresh()
    tell_entries(client, tell, ENGLISH)
    many, _ = dialog.rows()
    assert (many.chip, many.action.text()) == ("Here", "Use")
    many.action.click()
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_GET)] == [MANY.source]


def test_one_that_is_not_in_use_is_deleted_once_that_is_confirmed(dialog, client):
    here = {"download": Download(MANY.source, "there"), "deletable_bytes": 467 * MIB}
    dialog._models.refresh()
    tell_entries(client, entry(MANY.source, **here), ENGLISH)
    many, english = dialog.rows()
    assert (many.delete.isVisible(), english.delete.isVisible()) == (True, False)
    assert many.delete.toolTip() == "Deletes its files and frees 467 MiB"
    many.delete.click()
    (question,) = dialog.findChildren(QMessageBox)
    assert question.text() == "Delete the files of many?"
    assert question.informativeText() == (f"{MANY.path}\n\nFrees 467 MiB. You would have to download it again.")
    assert question.defaultButton() is question.button(QMessageBox.StandardButton.Cancel)
    assert client.asked(protocol.EMBEDDERS_DELETE) == []
    next(button for button in question.buttons() if button.text() == "Delete").click()
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_DELETE)] == [MANY.source]
    client.answer(protocol.EMBEDDERS_DELETE, protocol.Nothing())
    tell_entries(client)
    assert not many.delete.isVisible()


def test_one_in_use_cannot_be_deleted_and_why_another_cannot_is_told(dialog, page, client):
    page.engine_settings.refresh()
    tell_settings(client, MANY.path)
    here = [entry(one.source, download=Download(one.source, "there"), deletable_bytes=MIB) for one in (MANY, ENGLISH)]
    dialog._models.refresh()
    tell_entries(client, *here)
    many, english = dialog.rows()
    assert (many.delete.isVisible(), english.delete.isVisible()) == (False, True)
    english.delete.click()
    (question,) = dialog.findChildren(QMessageBox)
    next(button for button in question.buttons() if button.text() == "Delete").click()
    client.refuse(protocol.EMBEDDERS_DELETE, "owner/english is in use.", way_out="Use another one.")
    assert dialog.problem.text() == "owner/english is in use. Use another one."


def test_what_comes_while_the_dialog_is_closed_stands_in_the_settings(dialog, page, client):
    assert not page.embedder_coming.isVisibleTo(page)
    dialog.reject()
    standing(client, FETCHING)
    assert page.embedder_coming.text() == "Downloading many: 100 MiB of 400 MiB · 1.0 MiB/s · 5 min 0 s left"
    assert page.embedder_coming.isVisibleTo(page)
    standing(client, Download(MANY.source, "there", 400 * MIB, 400 * MIB))
    assert not page.embedder_coming.isVisibleTo(page)
    # It has changed a setting.
    assert len(client.asked(protocol.SETTINGS_GET)) == 2


def test_what_went_wrong_stands_at_the_model(dialog, client):
    many, _ = dialog.rows()
    standing(client, FETCHING)
    failed = Download(
        MANY.source, "part", 100 * MIB, 400 * MIB, problem="The disk is full.", way_out="Free some space."
    )
    standing(client, failed)
    tell_entries(client, entry(MANY.source, download=failed), ENGLISH)
    assert many.problem == "The disk is full. Free some space."
    assert not dialog.problem.isVisible()
    assert many.action.text() == "Resume"


def test_an_engine_that_died_leaves_what_came(dialog, client):
    many, _ = dialog.rows()
    standing(client, FETCHING)
    client.die()
    assert many.progress == ""


def test_any_other_of_the_hub_is_got_by_its_name(dialog, client, qtbot):
    for typed in ("owner/other", "https://huggingface.co/owner/other", "huggingface.co/owner/other"):
        dialog.field.setText(typed)
        assert dialog.get.isEnabled()
        assert dialog.get.isDefault()
    for typed in ("", "all-MiniLM-L12-v2", "/models/other", "~/models/other", r"C:\models\other", "a nice one"):
        dialog.field.setText(typed)
        assert not dialog.get.isEnabled()
    dialog.field.setText(" owner/other ")
    qtbot.keyClick(dialog.field, Qt.Key.Key_Return)
    assert [wanted.source for wanted in client.asked(protocol.EMBEDDERS_GET)] == ["owner/other"]
    client.answer(protocol.EMBEDDERS_GET, protocol.Nothing())
    other = EmbedderEntry(source="owner/other", name="other", path="/m/o", download=Download("owner/other", "waiting"))
    tell_entries(client, MANY, ENGLISH, other)
    assert dialog.isVisible()
    row = dialog.rows()[2]
    assert (row.progress, row.action.text()) == ("Waiting", "Cancel")


def test_what_the_engine_refuses_is_told_in_the_dialog(dialog, client):
    dialog.field.setText("owner/other")
    dialog.get.click()
    client.refuse(protocol.EMBEDDERS_GET, "It names no embedding model.", way_out="Name it as OWNER/NAME.")
    assert dialog.problem.text() == "It names no embedding model. Name it as OWNER/NAME."
    assert dialog.problem.isVisible()
    dialog.rows()[0].action.click()
    assert not dialog.problem.isVisible()


def test_a_folder_or_name_of_this_computer_is_used_as_before(dialog, client):
    assert not dialog.use.isEnabled()
    dialog.field.setText("/models/multilingual")
    assert dialog.use.isDefault()
    dialog.use.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"embedder.model": "/models/multilingual"}
    assert client.asked(protocol.EMBEDDERS_GET) == []


def test_a_dialog_that_is_gone_hears_nothing(dialog, page, client, qtbot):
    dialog.reject()
    qtbot.waitUntil(lambda: page.findChildren(EmbedderDialog) == [])
    standing(client, FETCHING)
    page.embedder.click()
    tell_entries(client)
    (again,) = page.findChildren(EmbedderDialog)
    assert again.rows()[0].progress.startswith("100 MiB of 400 MiB")
