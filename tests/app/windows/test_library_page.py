"""Tests for app.windows.library_page and the dialogs it opens."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox

from app.windows.ocr_dialog import OcrDialog
from app.windows.password_dialog import PasswordDialog
from engine import protocol
from engine.protocol import Collection, EmbedderState, Folder
from tests.helpers.shown_values import document
from tests.helpers.shown_words import shown_words
from tests.helpers.told_library import answer_library, tell_library

COLLECTION = Collection("Documents", ("/docs", "/photos"), {"indexed": 2, "failed": 1}, 6)
WATCHED = Folder(path="/docs", collection="Documents", is_watched=True, num_documents=600)
AWAY = Folder(path="/photos", collection="Documents", absence="The drive is not connected.", num_documents=7)
LOCKED = document(3, "skipped", "It needs a password.", needs="password")
SCAN = document(4, "skipped", "Its pages are pictures.", needs="ocr")
BROKEN = document(5, "failed", "It is cut short.")


@pytest.fixture
def page(window):
    return window.go_to("library")


def button_of(box: QMessageBox, text: str):
    return next(button for button in box.buttons() if button.text() == text)


def click_cell(table, row: int, column: int) -> None:
    where = table.visualRect(table.model().index(row, column)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, where)


def chips_of(page, card) -> set[str]:
    labels = card.findChildren(type(page.subtitle))
    return {label.text() for label in labels if label.property("chip") and not label.isHidden()}


def test_cards_stay_while_their_figures_change_and_so_does_a_menu_that_is_open(page, client, qtbot):
    tell_library(client, COLLECTION, folders=[WATCHED, AWAY])
    (card,) = page.cards()
    lines = card.lines
    lines[0]._open_menu()
    menu = QApplication.activePopupWidget()
    assert menu is not None
    more = WATCHED.model_copy(update={"num_documents": 601})
    tell_library(client, Collection("Documents", ("/docs", "/photos"), {"indexed": 3}, 9), folders=[more, AWAY])
    assert page.cards() == (card,)
    assert card.lines == lines
    assert lines[0].facts == "601 files · watched"
    assert chips_of(page, card) == {"3 indexed", "offline"}
    assert QApplication.activePopupWidget() is menu
    menu.close()
    # One that comes into reach is another line; a collection more is another card, in its place.
    back = AWAY.model_copy(update={"absence": ""})
    other = Collection("Archive", ("/old",), {"indexed": 1}, 1)
    tell_library(client, other, COLLECTION, folders=[more, back])
    assert page.cards()[1] is card
    assert [line.path for line in card.lines] == ["/docs", "/photos"]
    assert card.lines[1].absence_sentence == ""
    assert page._collections_column.indexOf(page.cards()[0]) == 0
    tell_library(client, other)
    assert len(page.cards()) == 1


def test_an_empty_library_page_is_one_sentence_and_one_button(page, client):
    tell_library(client)
    assert page.empty.isVisible()
    assert page.empty.button.text() == "Choose a folder…"
    assert not page.check.isVisible()


def test_collections_show_their_documents_by_state_in_words(page, client):
    tell_library(client, COLLECTION)
    (card,) = page.cards()
    assert chips_of(page, card) == {"2 indexed", "1 failed"}
    assert page.subtitle.text() == "3 files · 6 chunks · 4.0 KiB on disk"


def test_a_folder_says_whether_it_is_watched_or_why_it_is_out_of_reach(page, client):
    unwatched = WATCHED.model_copy(update={"path": "/more", "is_watched": False, "num_documents": 1})
    collection = Collection("Documents", ("/docs", "/photos", "/more"), {"indexed": 2}, 6)
    tell_library(client, collection, folders=[WATCHED, AWAY, unwatched])
    docs, photos, more = page.cards()[0].lines
    assert (docs.facts, docs.absence_sentence) == ("600 files · watched", "")
    assert photos.facts == "7 files"
    assert photos.absence_sentence == "The drive is not connected. Its indexed files can still be searched."
    assert more.facts == "1 file · checked periodically"


def test_changes_can_be_looked_for_now_and_what_was_found_is_said(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    client.answer(protocol.CHECK, protocol.IndexReport(unchanged=9))
    assert window.message_bar.sentence == "Nothing has changed in your folders."
    page.check.click()
    client.answer(protocol.CHECK, protocol.IndexReport(indexed=2, removed=1))
    assert window.message_bar.sentence == "Indexed: 2. Removed: 1."


def test_the_end_of_another_job_is_not_what_a_look_has_found(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    client.tell(protocol.IndexFinished(indexed=0, unchanged=9, removed=0, skipped=(), failed=(), chunks=0, seconds=1))
    assert not window.message_bar.isVisible()
    client.answer(protocol.CHECK, protocol.IndexReport(indexed=2))
    assert window.message_bar.sentence == "Indexed: 2. Removed: 0."


def test_a_look_that_failed_says_why_and_a_later_job_is_not_taken_for_it(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    client.tell(protocol.IndexFailed(kind="DiskFull", sentence="The disk is full."))
    client.refuse(protocol.CHECK, "The disk is full.", "DiskFull")
    assert window.message_bar.sentence == "The disk is full."
    window.message_bar.clear()
    client.tell(protocol.IndexFinished(indexed=3, unchanged=9, removed=0, skipped=(), failed=(), chunks=0, seconds=1))
    assert not window.message_bar.isVisible()


def test_a_look_that_failed_is_told_once(page, client, models):
    told = []
    models.message_told.connect(lambda _severity, sentence, _way_out: told.append(sentence))
    page.check.click()
    client.tell(protocol.IndexFailed(kind="DiskFull", sentence="The disk is full."))
    client.refuse(protocol.CHECK, "The disk is full.", "DiskFull")
    assert told == ["The disk is full."]
    # What is refused at once is in no notice.
    page.check.click()
    client.refuse(protocol.CHECK, "The disk is full.", "DiskFull")
    assert told == ["The disk is full."] * 2


def test_a_look_that_was_stopped_does_not_say_that_nothing_changed(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    client.answer(protocol.CHECK, protocol.IndexReport(was_cancelled=True))
    assert not window.message_bar.isVisible()


def test_a_look_that_finds_only_what_was_wrong_before_says_that_nothing_changed(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    client.answer(protocol.CHECK, protocol.IndexReport(unchanged=9, skipped=(problem,)))
    assert window.message_bar.sentence == "Nothing has changed in your folders."


def test_new_problems_that_a_look_has_found_stay_told(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    client.tell(
        protocol.IndexFinished(indexed=1, unchanged=9, removed=0, skipped=(problem,), failed=(), chunks=1, seconds=1)
    )
    client.answer(protocol.CHECK, protocol.IndexReport(indexed=1, unchanged=9, skipped=(problem,)))
    assert window.message_bar.sentence == "1 file was indexed, 1 was not."


def test_new_problems_of_a_look_stay_told_if_there_are_too_many_to_name(page, window, client):
    tell_library(client, COLLECTION)
    page.check.click()
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    figures = {"indexed": 1, "unchanged": 9, "skipped": (problem,), "num_more": 1999}
    client.tell(protocol.IndexFinished(removed=0, failed=(), chunks=1, seconds=1, **figures))
    client.answer(protocol.CHECK, protocol.IndexReport(**figures))
    assert window.message_bar.sentence == "1 file was indexed, 2,000 were not."


def test_a_look_says_which_folders_it_could_not_look_at(page, window, client):
    tell_library(client, COLLECTION, folders=(WATCHED, AWAY))
    gone = tuple(protocol.DocumentProblem(path=folder.path, reason="It is gone.") for folder in (AWAY, WATCHED))
    nothing = protocol.IndexReport(unchanged=9, skipped=gone[:1])
    page.check.click()
    client.answer(protocol.CHECK, nothing)
    assert window.message_bar.sentence == "1 folder cannot be reached; its indexed files are kept."
    page.check.click()
    client.answer(protocol.CHECK, nothing.model_copy(update={"skipped": gone}))
    assert window.message_bar.sentence == "2 folders cannot be reached; their indexed files are kept."
    page.check.click()
    client.answer(protocol.CHECK, nothing.model_copy(update={"removed": 1}))
    assert window.message_bar.sentence == "Indexed: 0. Removed: 1."


def test_a_look_that_nobody_asked_for_is_not_talked_about(page, window, client):
    tell_library(client, COLLECTION)
    client.tell(protocol.IndexFinished(indexed=0, unchanged=9, removed=0, skipped=(), failed=(), chunks=0, seconds=1))
    assert not window.message_bar.isVisible()


# --- what went missing at once ---


def gone(page, client):
    folder = WATCHED.model_copy(update={"num_gone": 412, "path": "/home/ann/Photos"})
    tell_library(client, COLLECTION, folders=[folder, folder.model_copy(update={"collection": "Other"})])
    return page.decisions()


def test_what_went_missing_at_once_is_one_decision_and_can_be_kept(page, client):
    (card,) = gone(page, client)
    assert card.sentence == "412 of 600 files in Photos are gone."
    card.keep.click()
    assert client.asked(protocol.SETTLE_GONE) == [protocol.SettleGone(folder="/home/ann/Photos", remove=False)]
    client.answer(protocol.SETTLE_GONE, protocol.Removed(documents=0))
    answer_library(client, COLLECTION, folders=[WATCHED])
    assert page.decisions() == ()


def test_what_went_missing_is_removed_only_after_it_was_asked(page, client):
    (card,) = gone(page, client)
    card.remove.click()
    (box,) = page.findChildren(QMessageBox)
    assert client.asked(protocol.SETTLE_GONE) == []
    assert box.defaultButton() is box.button(QMessageBox.StandardButton.Cancel)
    button_of(box, "Remove").click()
    assert client.asked(protocol.SETTLE_GONE) == [protocol.SettleGone(folder="/home/ann/Photos", remove=True)]


# --- progress and embedder ---


def test_progress_shows_figures_and_can_be_paused_resumed_and_cancelled(page, client):
    progress = protocol.IndexProgress(
        documents_done=3, documents_total=12, chunks_done=1500, current="/docs/a.pdf", chunks_per_second=90.0,
        eta_seconds=95.0, bytes_done=2**20, bytes_total=4 * 2**20,
    )  # fmt: skip
    client.tell(progress)
    assert page.progress.isVisible()
    words = "3 of 12 files · 1,500 chunks · 1.0 MiB of 4.0 MiB"
    assert page.progress.figures == f"{words} · 90 chunks/s · 1 min 35 s left"
    client.tell(progress.model_copy(update={"gives_way": True}))
    assert page.progress.figures == f"{words} · slower until your question is answered"
    page.progress._pause.click()
    client.tell(progress.model_copy(update={"is_paused": True}))
    assert page.progress.figures == words
    page.progress._pause.click()
    page.progress._cancel.click()
    sent = [request.method for request in client.requests]
    assert [m for m in sent if m in (protocol.PAUSE, protocol.RESUME, protocol.CANCEL_INDEXING)] == [
        protocol.PAUSE,
        protocol.RESUME,
        protocol.CANCEL_INDEXING,
    ]
    client.tell(protocol.IndexFinished(indexed=12, unchanged=0, removed=0, skipped=(), failed=(), chunks=9, seconds=1))
    assert not page.progress.isVisible()


def test_where_what_comes_is_held_without_a_job_it_can_be_gone_on_with(page, client):
    tell_library(client, COLLECTION)
    assert not page.progress.isVisible()
    client.tell(protocol.LibraryChanged())
    page._library.refresh()
    answer_library(client, COLLECTION, is_paused=True)
    assert page.progress.isVisible()
    assert (page.progress._title.text(), page.progress.figures) == ("Indexing is paused", "")
    assert not page.progress._bar.isVisible()
    page.progress._pause.click()
    client.answer(protocol.RESUME, protocol.Nothing())
    answer_library(client, COLLECTION)
    assert not page.progress.isVisible()


def test_a_pause_that_comes_too_late_is_looked_after(page, client):
    tell_library(client, COLLECTION)
    client.tell(protocol.IndexProgress(documents_done=3, documents_total=3, chunks_done=9))
    page.progress._pause.click()
    client.tell(protocol.IndexFinished(indexed=3, unchanged=0, removed=0, skipped=(), failed=(), chunks=9, seconds=1))
    answer_library(client, COLLECTION)
    client.answer(protocol.PAUSE, protocol.Nothing())
    answer_library(client, COLLECTION, is_paused=True)
    assert page.progress.isVisible()


def test_the_bar_never_goes_back_when_more_files_are_found(page, window, client):
    shares = []
    for done, total in ((5, 10), (6, 100), (6, 400), (300, 400), (400, 400)):
        client.tell(protocol.IndexProgress(documents_done=done, documents_total=total, chunks_done=done))
        shares.append(page.progress.share)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.5, 1.0)
    assert window.status_line.sentence == "Indexing 100 %"


def test_the_embedding_model_is_named_and_a_move_to_another_has_its_own_progress(page, client):
    present = EmbedderState(name="all-MiniLM-L6-v2", description="bfloat16, batches of 8, 2 threads")
    tell_library(client, COLLECTION, embedder=present)
    words = "Searched by meaning with all-MiniLM-L6-v2 · bfloat16, batches of 8, 2 threads"
    assert shown_words(page.embedder) == [words]
    moving = present.model_copy(update={"next_name": "e5", "documents_moved": 150, "documents_to_move": 600})
    tell_library(client, COLLECTION, embedder=moving)
    assert page.embedder.title == "Switching to the embedding model e5"
    assert (page.embedder.figures, page.embedder.share) == ("150 of 600 files", 0.25)
    assert "all-MiniLM-L6-v2 is used until all files are re-indexed." in shown_words(page.embedder)


# --- documents ---


def test_documents_are_counted_and_filtered_by_state(page, client):
    tell_library(client, COLLECTION, documents=[document(1), LOCKED, BROKEN])
    buttons = page.documents.filter_buttons
    texts = [button.text() for button in buttons.values() if button.isVisibleTo(page)]
    assert texts == ["All files (3)", "Indexed (1)", "Waiting", "Not indexed (2)"]
    buttons["waiting"].click()
    assert client.asked(protocol.DOCUMENTS)[-1].states == ("pending",)
    answer_library(client, COLLECTION, documents=[document(1)])
    assert page.documents.empty.sentence == "No file is waiting."
    assert page.documents.empty.isVisible()


def test_that_nothing_is_there_is_said_once_it_is_known(page, client):
    tell_library(client, COLLECTION, documents=[document(1)])
    for name, sentence in (("waiting", "No file is waiting."), ("problems", "Every file could be indexed.")):
        page.show_filter(name)
        assert not page.documents.empty.isVisible()
        answer_library(client, COLLECTION, documents=[document(1)])
        assert page.documents.empty.isVisible()
        assert page.documents.empty.sentence == sentence


def test_documents_are_searched_by_name_once_the_typing_ends(page, client, qtbot):
    documents = [document(1), document(12), document(23, "offline")]
    tell_library(client, COLLECTION, documents=documents)
    QTest.keyClicks(page.documents.search, "file-2")
    qtbot.waitUntil(lambda: client.asked(protocol.DOCUMENTS)[-1].name == "file-2")
    assert "file-" not in [wanted.name for wanted in client.asked(protocol.DOCUMENTS)]
    answer_library(client, COLLECTION, documents=documents)
    assert page.documents.filter_buttons["all"].text() == "All files (1)"
    assert page.documents.filter_buttons["offline"].text() == "Offline (1)"
    page.documents.search.setText("nothing")
    qtbot.waitUntil(lambda: client.asked(protocol.DOCUMENTS)[-1].name == "nothing")
    answer_library(client, COLLECTION, documents=documents)
    assert page.documents.empty.sentence == "No file here has these words in its name."


def test_what_is_not_indexed_says_what_would_help_and_offers_it(page, client):
    tell_library(client, COLLECTION, documents=[LOCKED, SCAN, BROKEN])
    page.show_filter("problems")
    answer_library(client, COLLECTION, documents=[LOCKED, SCAN, BROKEN])
    assert page.documents.needs.sentences() == (
        "1 file needs a password.",
        "1 file holds scanned pages without text.",
        "1 file failed.",
    )
    page.documents.needs.buttons["retry"].click()
    assert client.asked(protocol.REINDEX)[-1].paths == (BROKEN.path,)


def test_help_is_for_the_listed_files_and_not_for_the_whole_library(page, client, qtbot):
    other = document(7, "failed", "It is cut short.")
    tell_library(client, COLLECTION, documents=[BROKEN, other])
    page.show_filter("problems")
    answer_library(client, COLLECTION, documents=[BROKEN, other])
    page.documents.search.setText("file-7")
    qtbot.waitUntil(lambda: client.asked(protocol.DOCUMENTS)[-1].name == "file-7")
    assert not page.documents.needs.isVisible()
    answer_library(client, COLLECTION, documents=[BROKEN, other])
    assert page.documents.needs.sentences() == ("1 file failed.",)
    page.documents.needs.buttons["retry"].click()
    assert client.asked(protocol.REINDEX)[-1].paths == (other.path,)

    page.documents.show_collection("Documents")
    assert [wanted.collection for wanted in client.asked(protocol.DOCUMENTS)[-2:]] == ["Documents"] * 2


def test_the_list_is_refreshed_only_while_it_is_seen_and_at_once_when_it_is_seen_again(page, window, client):
    tell_library(client, COLLECTION, documents=[document(1)])
    window.go_to("chats")
    num_asked = len(client.asked(protocol.DOCUMENTS))
    tell_library(client, COLLECTION, documents=[document(1), document(2)])
    # Only what could not be indexed is asked for.
    assert [wanted.states for wanted in client.asked(protocol.DOCUMENTS)[num_asked:]] == [("failed", "skipped")]
    assert page.documents.table.model().rowCount() == 1
    window.go_to("library")
    answer_library(client, COLLECTION, documents=[document(1), document(2)])
    assert page.documents.table.model().rowCount() == 2


def test_a_click_on_the_help_of_a_row_gives_it(page, client):
    from app.widgets.library_table import HELP, NAME

    tell_library(client, COLLECTION, documents=[document(1), BROKEN, document(6, "pending")])
    table = page.documents.table
    click_cell(table, 0, HELP)
    click_cell(table, 1, NAME)
    assert client.asked(protocol.REINDEX) == []
    click_cell(table, 1, HELP)
    assert client.asked(protocol.REINDEX)[-1].paths == (BROKEN.path,)
    table.hovered_row = 2
    click_cell(table, 2, HELP)
    assert client.asked(protocol.PRIORITISE)[-1].paths == ("/docs/file-6.pdf",)


def test_one_password_for_all_selected_is_given_and_can_be_remembered(page, client):
    other = document(8, "skipped", "It needs a password.", needs="password")
    tell_library(client, COLLECTION, documents=[document(1), LOCKED, other])
    page.documents.table.selectAll()
    assert page.documents.bar.sentence == "3 files selected"
    page.documents.bar.help_buttons["password"].click()
    (dialog,) = page.findChildren(PasswordDialog)
    assert not dialog.open_button.isEnabled()
    QTest.keyClicks(dialog.field, "sesame")
    dialog.remember.setChecked(True)
    QTest.keyClick(dialog.field, Qt.Key.Key_Return)
    wanted = protocol.Unlock(paths=(LOCKED.path, other.path), password="sesame", remember=True)
    assert client.asked(protocol.UNLOCK) == [wanted]


def test_a_wrong_password_comes_back_as_the_reason_when_it_is_asked_again(page, client, qtbot):
    wrong = document(3, "skipped", "The password does not open it.", needs="password")
    tell_library(client, COLLECTION, documents=[wrong])
    page.documents.table.selectRow(0)
    assert page.documents.bar.sentence == "The password does not open it."
    QTest.keyClick(page.documents.table, Qt.Key.Key_Return)
    (dialog,) = page.findChildren(PasswordDialog)
    texts = [label.text() for label in dialog.findChildren(type(page.subtitle))]
    assert "The password does not open it." in texts
    dialog.show_letters.click()
    assert dialog.field.echoMode() == dialog.field.EchoMode.Normal
    dialog.reject()
    assert client.asked(protocol.UNLOCK) == []


def test_scanned_pages_are_explained_and_tried_again(page, window, client):
    tell_library(client, COLLECTION, documents=[SCAN])
    page.documents.table.selectRow(0)
    page.documents.bar.help_buttons["ocr"].click()
    (dialog,) = page.findChildren(OcrDialog)
    assert any("Tesseract" in label.text() for label in dialog.findChildren(type(page.subtitle)))
    dialog.retry.click()
    assert client.asked(protocol.REINDEX)[-1].paths == (SCAN.path,)
    page._explain_ocr([SCAN.path])
    page.findChildren(OcrDialog)[-1].languages.click()
    assert window.place == "settings"


def test_the_buttons_below_the_table_follow_the_selection(page, client):
    tell_library(client, COLLECTION, documents=[document(1), BROKEN, document(6, "pending")])
    table, bar = page.documents.table, page.documents.bar
    assert not bar.isVisible()

    def shown() -> list[str]:
        buttons = (*bar.help_buttons.values(), bar.again, bar.remove)
        return [button.text() for button in buttons if button.isVisibleTo(bar)]

    table.selectRow(0)
    assert shown() == ["Index again", "Remove…"]
    table.selectRow(1)
    assert shown() == ["Try again", "Remove…"]
    table.selectRow(2)
    assert shown() == ["Index next", "Remove…"]
    bar.help_buttons["next"].click()
    assert client.asked(protocol.PRIORITISE)[-1].paths == ("/docs/file-6.pdf",)
    table.clearSelection()
    assert not bar.isVisible()


def test_the_menu_of_a_folder_removes_only_after_it_was_asked(page, client):
    tell_library(client, COLLECTION, folders=[WATCHED])
    menu = page.cards()[0].lines[0].menu()
    next(action for action in menu.actions() if "Remove" in action.text()).trigger()
    (box,) = page.findChildren(QMessageBox)
    assert client.asked(protocol.REMOVE) == []
    assert "no longer be found" in box.informativeText()
    assert box.defaultButton() is box.button(QMessageBox.StandardButton.Cancel)
    button_of(box, "Remove").click()
    assert client.asked(protocol.REMOVE)[0].paths == ("/docs",)


def test_many_files_that_were_dropped_are_one_line_and_go_together(page, client):
    paths = tuple(f"/docs/{number}.pdf" for number in range(300))
    files = [WATCHED.model_copy(update={"path": path, "is_folder": False, "num_documents": 1}) for path in paths]
    tell_library(client, Collection("Documents", paths, {"indexed": 300}, 900), folders=files)
    (line,) = page.cards()[0].lines
    assert (line.path, line.facts) == ("/docs", "300 single files · watched")
    again, remove = line.menu().actions()
    again.trigger()
    assert client.asked(protocol.REINDEX)[0].paths == paths
    remove.trigger()
    (box,) = page.findChildren(QMessageBox)
    assert box.text() == "Remove 300 files from the library?"
    button_of(box, "Remove").click()
    assert client.asked(protocol.REMOVE)[0].paths == paths
    # One of them less is the same line.
    tell_library(client, Collection("Documents", paths[1:], {"indexed": 299}, 897), folders=files[1:])
    assert page.cards()[0].lines == (line,)
    assert line.facts == "299 single files · watched"


def test_removing_documents_can_be_thought_better_of(page, client):
    tell_library(client, COLLECTION, documents=[document(1)])
    page.documents.table.selectRow(0)
    QTest.keyClick(page.documents.table, Qt.Key.Key_Delete)
    (box,) = page.findChildren(QMessageBox)
    box.button(QMessageBox.StandardButton.Cancel).click()
    assert client.asked(protocol.REMOVE) == []


def test_a_hundred_thousand_documents_are_fetched_as_they_are_scrolled_to(page, client):
    documents = [document(number) for number in range(100_000)]
    tell_library(client, COLLECTION, documents=documents)
    table = page.documents.table
    assert table.model().rowCount() == 500
    assert page.documents.filter_buttons["all"].text() == "All files (100,000)"
    table.scrollToBottom()
    answer_library(client, COLLECTION, documents=documents)
    assert table.model().rowCount() == 1000


def test_names_that_are_not_utf8_arrive_as_they_are(page, client):
    path = "/docs/caf\udce9"
    collection = Collection("Documents", (path,), {"indexed": 1}, 6)
    gone = Folder(path=path, collection="Documents", num_documents=9, num_gone=4)
    tell_library(client, collection, folders=[gone])
    again, _ = page.cards()[0].lines[0].menu().actions()
    again.trigger()
    page.decisions()[0].keep.click()
    assert client.asked(protocol.REINDEX)[0].paths == (path,)
    assert client.asked(protocol.SETTLE_GONE)[0].folder == path
