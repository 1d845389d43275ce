"""Tests for the part of the Models page that gets models, and for the ways there."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtCore import QDate, QDateTime, QPoint, QRect, Qt, QTime
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app import theme
from app.widgets.download_row import progress_words
from app.windows.found_models_dialog import FoundModelsDialog
from engine import protocol
from engine.protocol import CatalogueEntry, Download, FoundModel, FoundModels, HubFiles, ModelDownloads, ModelEntry
from tests.helpers.told_library import tell_library

GIB = 2**30


def entry(name: str, **values: object) -> CatalogueEntry:
    source = f"owner/name/{name}.gguf"
    model = ModelEntry(
        path=f"/m/{name}.gguf", name=name, file_bytes=2 * GIB, trained_context=32_768, tokens_per_s=9.0, fit="Fits."
    )
    return CatalogueEntry(
        source=source, licence="Apache-2.0", model=model.model_copy(update=values), download=Download(source)
    )


SMALL, LARGE = entry("Small"), entry("Large", fits=False, fit="There is too little memory for it.")

FETCHING = Download(SMALL.source, "fetching", GIB, 2 * GIB, 2.0**20, 1024.0)


def tell(client, *known: ModelEntry, entries=(SMALL, LARGE), others=()) -> None:
    for request in list(client.open):
        if request.method is protocol.MODELS:
            client.answer(protocol.MODELS, protocol.ModelsReply(models=known, current=""))
        elif request.method is protocol.MODELS_CATALOGUE:
            client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=entries, others=others))


def standing(client, *downloads: Download) -> None:
    client.tell(ModelDownloads(downloads=downloads))


@pytest.fixture
def page(window, client):
    client.become_ready()
    made = window.go_to("models")
    tell(client)
    return made


def words(widget: QWidget) -> str:
    return " ".join(label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget))


def test_each_model_says_what_it_is_and_about_how_it_would_run(page):
    small, large = page.catalogue.rows()
    assert "about 2.0 GiB · Apache-2.0 · context of 32,768 tokens" in words(small)
    assert "about 9 tokens/s" in words(small)
    assert "too little memory" in words(large)
    assert [row.action.text() for row in (small, large)] == ["Download", "Download"]
    assert [row.action.accessibleName() for row in (small, large)] == ["Download Small", "Download Large"]


def test_a_model_is_got_and_followed_in_its_place(page, client, qtbot):
    rows = small, large = page.catalogue.rows()
    small.action.setFocus()
    qtbot.keyClick(small.action, Qt.Key.Key_Space)
    large.action.click()
    assert [wanted.source for wanted in client.asked(protocol.MODELS_GET)] == [SMALL.source, LARGE.source]
    standing(
        client, Download(SMALL.source, "fetching", GIB, 2 * GIB, 2.0**20, 1024.0), Download(LARGE.source, "waiting")
    )
    assert small.progress == "1.0 GiB of 2.0 GiB · 1.0 MiB/s · 17 min 4 s left"
    assert large.progress == "Waiting"
    assert [row.action.text() for row in rows] == ["Cancel", "Cancel"]
    assert small.action.accessibleName() == "Cancel the download of Small"
    assert page.catalogue.rows() == rows
    assert small.action.hasFocus()
    large.action.click()
    assert [wanted.source for wanted in client.asked(protocol.MODELS_CANCEL_GETTING)] == [LARGE.source]


def test_a_model_that_came_is_on_the_list_and_the_keyboard_gets_no_other(page, client, window):
    small, _ = page.catalogue.rows()
    small.action.setFocus()
    standing(client, Download(SMALL.source, "fetching", GIB, 2 * GIB))
    standing(client, Download(SMALL.source, "there", 2 * GIB, 2 * GIB))
    there = SMALL.model_copy(update={"download": Download(SMALL.source, "there")})
    tell(client, SMALL.model, entries=(there, LARGE))
    assert [row.entry.name for row in page.rows()] == ["Small"]
    assert not page.empty.isVisible()
    assert "On your list" in words(small)
    assert not small.action.isVisible()
    assert window.focusWidget() is small
    assert "Small is downloaded" in window.message_bar.sentence
    assert client.asked(protocol.MODELS_USE) == []


def test_what_went_wrong_stands_at_the_model_with_the_way_to_go_on(page, client, window):
    small, _ = page.catalogue.rows()
    standing(client, Download(SMALL.source, "fetching", GIB, 2 * GIB))
    failed = Download(SMALL.source, "part", GIB, 2 * GIB, problem="It was cut.", way_out="Try again.")
    standing(client, failed)
    tell(client, entries=(SMALL.model_copy(update={"download": failed}), LARGE))
    assert small.problem == "It was cut. Try again."
    assert (small.action.text(), small.progress) == ("Resume", "1.0 GiB of 2.0 GiB downloaded")
    assert window.message_bar.sentence == "It was cut."
    small.action.click()
    standing(client, Download(SMALL.source, "waiting", GIB, 2 * GIB))
    assert small.problem == ""


def test_one_that_was_cut_says_when_it_is_tried_again_and_can_be_cancelled(page, client, window):
    small, _ = page.catalogue.rows()
    standing(client, Download(SMALL.source, "fetching", GIB, 2 * GIB))
    at = QDateTime(QDate(2026, 3, 1), QTime(14, 5)).toSecsSinceEpoch()
    cut = Download(SMALL.source, "cut", GIB, 2 * GIB, problem="It was cut.", way_out="It goes on.", again_at=at)
    standing(client, cut)
    assert (small.problem, small.action.text()) == ("It was cut. It goes on.", "Cancel")
    assert small.progress == "Retrying at 14:05 · 1.0 GiB of 2.0 GiB downloaded"
    assert window.message_bar.sentence == "It was cut."
    small.action.click()
    assert [wanted.source for wanted in client.asked(protocol.MODELS_CANCEL_GETTING)] == [SMALL.source]


def test_what_is_here_of_a_model_can_be_removed(page, client, window):
    part = SMALL.model_copy(update={"download": Download(SMALL.source, "part", GIB)})
    window.go_to("memory")
    window.go_to("models")
    tell(client, entries=(part, LARGE))
    small, large = page.catalogue.rows()
    assert [row.discard.isVisibleTo(row) for row in (small, large)] == [True, False]
    assert small.discard.accessibleName() == "Remove the partial download of Small"
    small.discard.setFocus()
    small.discard.click()
    assert client.asked(protocol.MODELS_DISCARD_PART) == [protocol.HubModel(source=SMALL.source)]
    client.answer(protocol.MODELS_DISCARD_PART, protocol.Nothing())
    tell(client)
    assert not small.discard.isVisible()
    assert window.focusWidget() is small.action


def test_a_list_that_changes_is_looked_at_again(page, client):
    asked = len(client.asked(protocol.MODELS_CATALOGUE))
    client.become_ready()
    tell(client, SMALL.model)
    assert len(client.asked(protocol.MODELS_CATALOGUE)) > asked


@pytest.mark.parametrize("is_known", [True, False])
def test_whoever_has_no_model_is_led_to_those_that_can_be_got(window, client, is_known):
    client.become_ready()
    tell_library(client)
    window.chat.first_run.choose_model.click()
    page = window.page("models")
    assert window.place == "models"
    if not is_known:
        # Until the engine has told of them.
        assert page.catalogue.isHidden()
    tell(client)
    QApplication.processEvents()
    assert window.focusWidget() is page.catalogue.rows()[0].action


def test_the_list_of_a_chat_and_the_empty_page_lead_there_too(window, client, page):
    first = page.catalogue.rows()[0].action
    page.empty.button.click()
    assert window.focusWidget() is first
    window.go_to("chats")
    window.chat.model_picker.click()
    window.chat.model_picker.popup.get_model.click()
    assert (window.place, window.focusWidget()) == ("models", first)


@pytest.mark.parametrize("look", ["light", "dark"])
def test_at_large_text_no_button_is_cut(page, client, window, look):
    theme.appearance().choose(look, 1.5)
    window.resize(720, 560)
    standing(
        client, Download(SMALL.source, "fetching", GIB, 2 * GIB, 2.0**20, 1024.0), Download(LARGE.source, "waiting")
    )
    QApplication.processEvents()
    for row in page.catalogue.rows():
        assert row.action.width() >= row.action.sizeHint().width()
        assert row.action.mapTo(row, row.action.rect().bottomRight()).x() < row.width()


@pytest.mark.parametrize(
    ("download", "said"),
    [
        (Download("s"), ""),
        (Download("s", "there", 5, 5), ""),
        (Download("s", "part", 2**20), "1.0 MiB downloaded"),
        (Download("s", "checking", 2**20, 2**21), "Checking the files: 1.0 MiB of 2.0 MiB"),
        (Download("s", "fetching", 2**20, 2**21), "1.0 MiB of 2.0 MiB"),
        (Download("s", "cut", 2**20, 2**21), "Retrying… · 1.0 MiB of 2.0 MiB downloaded"),
        (Download("s", "cut"), "Retrying…"),
        (Download("s", "fetching", 2**20, 2**21, 2.0**20, 0.2), "1.0 MiB of 2.0 MiB · 1.0 MiB/s · 1.0 s left"),
    ],
)
def test_how_far_a_download_is_in_words(download: Download, said: str):
    assert progress_words(download) == said


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0, 2.5])
@pytest.mark.parametrize("size", [(900, 800), (760, 520)])
def test_at_large_text_the_first_page_is_shown_in_full(window, client, scale, size):
    theme.appearance().choose("light", scale)
    window.resize(*size)
    tell_library(client)
    for _ in range(3):
        QApplication.processEvents()
    page = window.chat.first_run
    for label in page.findChildren(QLabel):
        needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
        assert (label.width() >= label.minimumSizeHint().width(), label.height() >= needed) == (True, True), (
            label.text()
        )
    buttons = page.findChildren(QPushButton)
    places = [QRect(button.mapTo(page.widget(), QPoint()), button.size()) for button in buttons]
    assert all(button.width() >= button.sizeHint().width() for button in buttons)
    assert all(place.left() >= 0 and place.right() < page.viewport().width() for place in places)
    assert not any(one.intersects(other) for one, other in combinations(places, 2))


@pytest.mark.parametrize("scale", [1.0, 2.0, 2.5])
@pytest.mark.parametrize("width", [800, 1280])
def test_at_large_text_the_list_of_the_models_of_a_chat_is_not_cut(page, window, scale, width):
    theme.appearance().choose("light", scale)
    window.resize(width, 800)
    picker = window.go_to("chats").model_picker
    picker.open_popup()
    popup = picker.popup
    QApplication.processEvents()
    buttons = (popup.get_model, popup.open_file, popup.use_none)
    assert all(button.width() >= button.sizeHint().width() for button in buttons)
    inside = QRect(window.mapToGlobal(QPoint()), window.size())
    assert inside.left() <= popup.x()
    assert popup.x() + popup.width() <= inside.right()
    popup.close()


# --- any other model ---


def other(name: str, download: Download | None = None, **values: object) -> CatalogueEntry:
    source = f"maker/models/{name}.gguf"
    model = ModelEntry(path=f"/m/maker/{name}.gguf", name=name, file_bytes=3 * GIB)
    return CatalogueEntry(
        source=source,
        model=model.model_copy(update=values),
        download=download or Download(source),
        is_estimate=False,
    )


Q4, Q8 = other("m-Q4"), other("m-Q8", tokens_per_s=4.0, fit="Fits, slowly.", trained_context=4096)


def look_up(page, qtbot, text: str) -> None:
    page.catalogue.another.field.setFocus()
    qtbot.keyClicks(page.catalogue.another.field, text)
    qtbot.keyClick(page.catalogue.another.field, Qt.Key.Key_Return)


def test_a_repository_shows_its_models_of_which_one_is_got(page, client, qtbot):
    another = page.catalogue.another
    look_up(page, qtbot, "maker/models")
    assert client.asked(protocol.MODELS_LOOK_UP) == [protocol.HubModel(source="maker/models")]
    assert another.button.text() == "Cancel"
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4, Q8)))
    assert (another.button.text(), another.title) == ("Download", "2 models in maker/models")
    small, large = another.rows()
    assert "3.0 GiB · maker/models" in words(small)
    assert "about" not in words(small)
    assert "context of 4,096 tokens" in words(large)
    assert "Fits, slowly." in words(large)
    assert "about 4 tokens/s" in words(large)
    large.action.click()
    assert [wanted.source for wanted in client.asked(protocol.MODELS_GET)] == [Q8.source]
    standing(client, Download(Q8.source, "fetching", GIB, 3 * GIB))
    # It is one of those that are listed, and no other beside them.
    tell(client, others=(other("m-Q8", Download(Q8.source, "fetching", GIB, 3 * GIB)),))
    assert another.rows() == (small, large)
    assert large.progress == "1.0 GiB of 3.0 GiB"
    standing(client, Download(Q8.source, "there", 3 * GIB, 3 * GIB))
    tell(client, Q8.model)
    assert "On your list" in words(large)
    another.hide_button.click()
    assert (another.rows(), another.title, another.field.text()) == ((), "", "")


FOUND = protocol.HubRepositories(
    repositories=(
        protocol.HubRepository(name="maker/models", downloads=1_234_567, likes=1),
        protocol.HubRepository(name="gate/keeper", is_gated=True),
    )
)


def search(page, client, qtbot, text: str = "qwen coder") -> None:
    look_up(page, qtbot, text)
    client.answer(protocol.MODELS_SEARCH, FOUND)


def test_words_are_searched_for_and_lead_to_the_models_of_what_is_chosen(page, client, qtbot):
    another = page.catalogue.another
    another.field.setFocus()
    qtbot.keyClicks(another.field, " qwen  coder")
    assert client.asked(protocol.MODELS_SEARCH) == []
    qtbot.keyClick(another.field, Qt.Key.Key_Return)
    assert client.asked(protocol.MODELS_SEARCH) == [protocol.HubWords(words=" qwen  coder")]
    assert client.asked(protocol.MODELS_LOOK_UP) == []
    assert another.button.text() == "Cancel"
    client.answer(protocol.MODELS_SEARCH, FOUND)
    assert another.title == "2 found for “qwen coder”, the most downloaded first"
    first, gated = another.repository_rows()
    assert (first.facts, first.is_marked) == ("1,234,567 recent downloads · 1 like", False)
    assert (gated.facts, gated.is_marked) == ("", True)
    assert "cannot be downloaded here" in words(gated)
    first.button.click()
    assert client.asked(protocol.MODELS_LOOK_UP) == [protocol.HubModel(source="maker/models")]
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4, Q8)))
    assert (another.title, another.repository_rows(), len(another.rows())) == ("2 models in maker/models", (), 2)
    another.back_button.click()
    assert (len(another.repository_rows()), another.rows()) == (2, ())
    assert another.back_button.isHidden()
    another.hide_button.click()
    assert (another.repository_rows(), another.title, another.field.text()) == ((), "", "")


def test_what_was_found_stays_where_one_of_it_cannot_be_looked_into(page, client, window, qtbot):
    another = page.catalogue.another
    search(page, client, qtbot)
    another.repository_rows()[1].button.click()
    client.refuse(protocol.MODELS_LOOK_UP, "The hub gives it only to people with an account.")
    assert another.problem == "The hub gives it only to people with an account."
    assert len(another.repository_rows()) == 2
    another.repository_rows()[0].button.click()
    assert another.problem == ""
    # Whoever changes their mind meanwhile chooses another.
    another.button.click()
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4,)))
    assert (len(another.repository_rows()), another.rows()) == (2, ())
    another.field.clear()
    qtbot.keyClicks(another.field, "x")
    qtbot.keyClick(another.field, Qt.Key.Key_Backspace)
    assert another.repository_rows() == ()


def test_a_search_that_finds_nothing_says_so(page, client, qtbot):
    look_up(page, qtbot, "qwen coder")
    client.refuse(protocol.MODELS_SEARCH, "There is no such model.", way_out="Try other words.")
    assert page.catalogue.another.problem == "There is no such model. Try other words."
    assert page.catalogue.another.repository_rows() == ()


def test_the_link_of_a_file_gets_it_at_once_and_it_is_followed_below(page, client, window, qtbot):
    another = page.catalogue.another
    look_up(page, qtbot, "https://huggingface.co/maker/models/blob/main/m-Q4.gguf")
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(files=(Q4,)))
    assert [wanted.source for wanted in client.asked(protocol.MODELS_GET)] == [Q4.source]
    assert another.field.text() == ""
    fetching = Download(Q4.source, "fetching", GIB, 3 * GIB)
    standing(client, fetching)
    tell(client, others=(other("m-Q4", fetching),))
    [row] = another.rows()
    assert row.progress == "1.0 GiB of 3.0 GiB"
    row.action.setFocus()
    row.action.click()
    assert [wanted.source for wanted in client.asked(protocol.MODELS_CANCEL_GETTING)] == [Q4.source]
    standing(client, fetching)
    standing(client, Download(Q4.source, "there", 3 * GIB, 3 * GIB))
    tell(client, Q4.model)
    assert another.rows() == ()
    assert [shown.entry.name for shown in page.rows()] == ["m-Q4"]
    assert "m-Q4.gguf is downloaded" in window.message_bar.sentence
    assert window.focusWidget() is another.field


def test_what_is_wrong_with_a_link_stands_below_it_until_it_is_changed(page, client, window, qtbot):
    another = page.catalogue.another
    look_up(page, qtbot, "https://example.org/m.gguf")
    client.refuse(protocol.MODELS_LOOK_UP, "This leads elsewhere.", way_out="Look there.")
    assert another.problem == "This leads elsewhere. Look there."
    qtbot.keyClick(another.field, Qt.Key.Key_Backspace)
    assert another.problem == ""
    another.field.clear()
    another.button.click()
    assert len(client.asked(protocol.MODELS_LOOK_UP)) == 1


@pytest.mark.parametrize("is_found", [True, False])
def test_what_came_of_a_link_is_brought_into_sight(page, client, window, qtbot, is_found):
    window.resize(800, 520)
    tell(client, entries=(SMALL, LARGE, entry("Third")))
    look_up(page, qtbot, "maker/models")
    if is_found:
        client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4, Q8)))
    else:
        client.refuse(protocol.MODELS_LOOK_UP, "This leads elsewhere. " * 9)
    another = page.catalogue.another
    told = another._head if is_found else another._problem
    qtbot.waitUntil(lambda: told.isVisible() and told.visibleRegion().boundingRect() == told.rect())


def test_nobody_need_wait_for_a_hub_that_is_slow(page, client, qtbot):
    another = page.catalogue.another
    look_up(page, qtbot, "maker/models")
    another.button.click()
    assert another.button.text() == "Download"
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4,)))
    assert another.rows() == ()
    assert another.field.text() == "maker/models"


def test_one_that_failed_says_why_and_can_be_taken_away(page, client):
    failed = Download(Q4.source, "absent", problem="The disk is full.", way_out="Make room.")
    client.become_ready()
    tell(client, others=(other("m-Q4", failed),))
    [row] = page.catalogue.another.rows()
    assert row.problem == "The disk is full. Make room."
    row.discard.click()
    assert client.asked(protocol.MODELS_DISCARD_PART) == [protocol.HubModel(source=Q4.source)]
    client.answer(protocol.MODELS_DISCARD_PART, protocol.Nothing())
    tell(client)
    assert page.catalogue.another.rows() == ()


def test_what_was_found_is_spoken(page, client, qtbot, monkeypatch):
    spoken = []
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: spoken.append(event.message()))
    look_up(page, qtbot, "maker/models")
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="maker/models", files=(Q4,)))
    look_up(page, qtbot, "/x")
    client.refuse(protocol.MODELS_LOOK_UP, "There is none.")
    assert spoken == ["1 model in maker/models", "There is none."]
    assert page.catalogue.another.hide_button.accessibleName()


# --- models of other applications ---


def found_dialog(page, window) -> FoundModelsDialog:
    page.look_around.click()
    [dialog] = window.findChildren(FoundModelsDialog)
    return dialog


def brought(app: str, name: str) -> FoundModel:
    return FoundModel(app=app, model=entry(name).model)


def test_models_of_other_applications_are_found_and_used_where_they_lie(page, window, client, qtbot):
    dialog = found_dialog(page, window)
    assert "Searching" in dialog.words.text()
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=(brought("LM Studio", "Small"), brought("", "Large"))))
    assert [words(row).count(app) for row, app in zip(dialog.rows, ("LM Studio", "Folder of models"), strict=True)]
    dialog.rows[0].use.click()
    assert client.asked(protocol.MODELS_USE)[-1].path == "/m/Small.gguf"


def test_all_that_were_found_can_be_put_on_the_list(page, window, client):
    dialog = found_dialog(page, window)
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=(brought("Jan", "Small"), brought("Jan", "Large"))))
    dialog.list_all.click()
    assert [asked.path for asked in client.asked(protocol.MODELS_ADD)] == ["/m/Small.gguf", "/m/Large.gguf"]


def test_that_there_are_none_or_that_nobody_could_look_is_told(page, window, client):
    dialog = found_dialog(page, window)
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=()))
    assert "No other model was found" in dialog.words.text()
    assert not dialog.rows
    assert dialog.list_all.isHidden()
    dialog.close_button.click()


def test_what_is_found_when_the_dialog_has_been_closed_harms_nobody(page, window, client, qtbot):
    dialog = found_dialog(page, window)
    with qtbot.waitSignal(dialog.destroyed):
        dialog.close_button.click()
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=(brought("Jan", "Small"),)))
    again = found_dialog(page, window)
    assert "Searching" in again.words.text()
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=(brought("Jan", "Small"),)))
    assert len(again.rows) == 1


def test_a_found_model_that_has_room_only_if_little_is_lost_may_be_allowed_that(page, window, client):
    dialog = found_dialog(page, window)
    offered = brought("Jan", "Small").model.model_copy(update={"offer": "Half the precision would do."})
    client.answer(protocol.MODELS_ELSEWHERE, FoundModels(models=(FoundModel(app="Jan", model=offered),)))
    dialog.rows[0].allow.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"memory.may_lose": True}
