"""Tests for the page of every file: asked, watched, read, paused, exported, found again."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox

from app import theme
from app.models import AppModels
from app.windows.command_palette import CommandPalette
from app.windows.every_file_page import EveryFilePage
from app.windows.main_window import MainWindow
from engine import protocol
from engine.protocol import Collection, Document
from tests.helpers.answers import finished, passage
from tests.helpers.fake_engine_client import FakeEngineClient
from tests.helpers.told_library import tell_library

QUESTION = "When does it end?"
COLLECTION = Collection("Contracts", ("/docs",), {"indexed": 2}, 6)


@pytest.fixture
def page(window: MainWindow) -> EveryFilePage:
    page = window.go_to("every-file")
    assert isinstance(page, EveryFilePage)
    return page


def list_files(client: FakeEngineClient, *paths: str) -> None:
    """Answers the request for the files of the collection, whatever else is asked of the library."""
    documents = tuple(
        Document(number, ("Contracts",), path, "indexed", "", 1, 1, "hash", "pdf", 3)
        for number, path in enumerate(paths)
    )
    request = next(
        one
        for one in client.open
        if isinstance(one.params, protocol.ListDocuments)
        and set(one.params.states) == {"indexed", "offline", "pending"}
    )
    client.open.remove(request)
    assert request.on_result is not None
    request.on_result(protocol.DocumentsReply(documents=documents, total=len(documents), by_state={}))


def ask_all(page: EveryFilePage, client: FakeEngineClient, qtbot) -> list[str]:
    qtbot.keyClicks(page.question, QUESTION)
    qtbot.mouseClick(page.ask, Qt.MouseButton.LeftButton)
    list_files(client, "/docs/a.pdf", "/docs/b.pdf")
    return [one.question_id for one in client.asked(protocol.ASK)]  # type: ignore[attr-defined]


def test_a_question_is_put_to_the_files_of_the_chosen_collection(page, client, qtbot) -> None:
    assert page.empty.isVisible()
    assert not page.ask.isEnabled()
    tell_library(client, COLLECTION)
    page.collection.menu().actions()[1].trigger()
    ask_all(page, client, qtbot)
    listed = [one for one in client.asked(protocol.DOCUMENTS) if "offline" in one.states]
    assert listed[0].collection == "Contracts"
    assert page.table.isVisible()
    assert page.table.model().rowCount() == 2
    assert page.run.figures == "0 of 2 files answered"
    assert page.question.text() == ""


def test_no_word_of_a_state_is_cut(page, client, qtbot) -> None:
    tell_library(client, COLLECTION)
    ask_all(page, client, qtbot)
    table, column = page.table, page.table.model().columnCount() - 1
    assert [table.model().index(row, column).data() for row in range(2)] == ["searching"] * 2
    assert table.sizeHintForColumn(column) <= table.columnWidth(column)


def test_files_whose_names_differ_at_the_end_can_be_told_apart(page, client, qtbot) -> None:
    tell_library(client, COLLECTION)
    page.question.setText(QUESTION)
    page.ask.click()
    list_files(client, *(f"/docs/Annual report on all contracts and leases {year}.pdf" for year in (2021, 2022)))
    table = page.table
    cells = [table.visualRect(table.model().index(row, 0)) for row in range(2)]
    one, other = (table.viewport().grab(cell).toImage() for cell in cells)
    assert one != other


def test_whoever_goes_to_the_page_begins_with_the_question(page, window) -> None:
    assert window.focusWidget() is page.question
    window.activateWindow()
    window.rail.buttons["settings"].setFocus()
    window.next_pane()
    assert window.focusWidget() is page.question


def test_the_answer_of_a_row_is_read_and_its_citation_opens_the_page(page, client, qtbot) -> None:
    first, _ = ask_all(page, client, qtbot)
    page.table.selectRow(0)
    assert page.answer.text == "No answer yet."
    client.tell(finished(first, "In **May** [1].", passages=(passage(3, document="/docs/a.pdf", place="page 4"),)))
    assert page.answer.text == "In **May** [1]."
    assert "cite:1" in page.answer.block_views()[0].toHtml()
    assert not page.side.isVisible()
    page.answer.citation_clicked.emit(1)
    assert page.side.isVisible()
    assert client.asked(protocol.PAGE)[-1].page == 4
    page.table.selectRow(1)
    assert not page.side.isVisible()


def test_numbers_that_no_passage_of_a_row_has_are_shown_as_they_stand(page, client, qtbot) -> None:
    first, _ = ask_all(page, client, qtbot)
    page.table.selectRow(0)
    client.tell(finished(first, "Values [10, 20] of [2024].", passages=(passage(3, document="/docs/a.pdf"),)))
    (block,) = page.answer.block_views()
    assert block.toPlainText() == "Values [10, 20] of [2024]."


def test_a_source_whose_file_has_left_the_library_says_so(page, client, qtbot) -> None:
    first, _ = ask_all(page, client, qtbot)
    source = passage(3, document="/docs/a.pdf", place="page 4")
    client.tell(finished(first, "In May [1].", passages=(source,)))
    page.table.selectRow(0)
    asked = next(
        one
        for one in client.open
        if isinstance(one.params, protocol.ListDocuments) and one.params.document_ids == (source.document_id,)
    )
    asked.on_result(protocol.DocumentsReply(documents=(), total=0, by_state={}))
    num_pages = len(client.asked(protocol.PAGE))
    page.answer.citation_clicked.emit(1)
    assert len(client.asked(protocol.PAGE)) == num_pages


def test_it_is_paused_and_goes_on(page, client, qtbot) -> None:
    ask_all(page, client, qtbot)
    page.run.pause.click()
    assert page.run.figures == "0 of 2 files answered · paused"
    assert page.run.resume.isVisible()
    assert not page.run.pause.isVisible()
    page.run.resume.click()
    assert page.run.pause.isVisible()


def test_the_keyboard_goes_from_pause_to_resume_and_back(page, client, qtbot) -> None:
    first, second = ask_all(page, client, qtbot)
    client.tell(finished(first, "In May [1]."))
    page.run.pause.setFocus()
    qtbot.keyClick(page.run.pause, Qt.Key.Key_Space)
    assert page.run.resume.hasFocus()
    qtbot.keyClick(page.run.resume, Qt.Key.Key_Space)
    assert page.run.pause.hasFocus()
    client.tell(protocol.AnswerFailed(question_id=second, kind="NothingThere", sentence="It is gone.", way_out=""))
    page.run.ask_again.setFocus()
    qtbot.keyClick(page.run.ask_again, Qt.Key.Key_Space)
    assert page.run.pause.hasFocus()


@pytest.mark.parametrize(
    ("scale", "size"), [(1.0, (800, 520)), (1.5, (800, 520)), (2.5, (800, 520)), (2.5, (1280, 800))]
)
def test_no_part_is_pressed_together_in_a_small_window_or_by_large_text(
    page, window, client, qtbot, scale, size
) -> None:
    first, _ = ask_all(page, client, qtbot)
    client.tell(finished(first, "In May [1]. " * 40, passages=(passage(3, document="/docs/a.pdf", place="page 4"),)))
    page.run.pause.click()
    theme.appearance().choose("light", scale)
    window.resize(*size)
    page.table.selectRow(0)
    table, row = page.table, page.table.verticalHeader().defaultSectionSize()
    qtbot.waitUntil(lambda: table.viewport().height() >= 3 * row - 8)
    parts = [page.question, page.ask, page.run.resume, page.run.export, table, page.answer]
    places = [QRect(part.mapTo(page, QPoint()), part.size()) for part in parts]
    assert not any(one.intersects(other) for one, other in combinations(places, 2))
    for _ in range(10):
        QApplication.processEvents()
    page.answer.citation_clicked.emit(1)
    side = page.side
    qtbot.waitUntil(lambda: side.height() >= 300 and table.columnWidth(1) > table.viewport().width() // 4)
    qtbot.waitUntil(lambda: side.visibleRegion().boundingRect().height() >= min(side.height(), size[1] // 3))


def test_a_question_is_put_to_the_files_of_several_collections(page, client, models: AppModels) -> None:
    others = [Collection(name, (f"/{name}",), {"indexed": 1}, 6) for name in ("Invoices", "Letters")]
    tell_library(client, COLLECTION, *others)
    page.question.setText(QUESTION)
    for action in page.collection.several.actions()[:2]:
        action.trigger()
    assert page.collection.text() == " Contracts + Invoices"
    # One of them goes before it is asked.
    tell_library(client, COLLECTION, others[1])
    assert page.collection.text() == " Contracts + Invoices (removed)"
    assert page.ask.isEnabled()
    page.collection.several.actions()[1].trigger()
    assert page.collection.current == ("Contracts", "Letters", "Invoices")
    page.question.returnPressed.emit()
    list_files(client, "/docs/a.pdf", "/docs/b.pdf")
    list_files(client, "/docs/a.pdf")
    listed = [one for one in client.asked(protocol.DOCUMENTS) if "offline" in one.states]
    assert [one.collection for one in listed] == ["Contracts", "Letters"]
    assert models.each_file.run.collections == ("Contracts", "Letters")


def test_a_collection_that_is_removed_is_not_replaced_by_all_files(page, client, models: AppModels) -> None:
    other = Collection("Other", ("/other",), {"indexed": 1}, 6)
    tell_library(client, COLLECTION, other)
    page.question.setText(QUESTION)
    page.collection.menu().actions()[1].trigger()
    tell_library(client, other)
    assert page.collection.text() == " Contracts (removed)"
    assert not page.ask.isEnabled()
    page.question.returnPressed.emit()
    assert models.each_file.state == "none"
    page.collection.menu().actions()[1].trigger()
    assert (page.collection.current, page.ask.isEnabled()) == (("Other",), True)


def test_answers_are_exported_and_a_disk_that_refuses_is_told(page, client, qtbot, models, tmp_path: Path) -> None:
    first, _ = ask_all(page, client, qtbot)
    client.tell(finished(first, "In May [1]."))
    assert page.run.export.isVisible()
    page.export_to(tmp_path / "answers.csv")
    text = (tmp_path / "answers.csv").read_text("utf-8-sig")
    assert text.splitlines()[0].startswith("file,state,answer")
    assert "/docs/a.pdf,finished,In May [1]." in text
    assert "/docs/b.pdf,waiting" in text
    told: list[tuple[str, ...]] = []
    page.message_told.connect(lambda *words: told.append(words))
    page.export_to(tmp_path / "no such folder" / "answers.csv")
    assert [file.name for file in tmp_path.iterdir() if "answers" in file.name] == ["answers.csv"]
    assert told[0][0] == "error"
    assert "could not be written" in told[0][1]


@pytest.mark.parametrize(("question", "name"), [("When does it end?", "When does it end.csv"), ("???", "answers.csv")])
def test_answers_are_exported_under_the_name_of_their_question(page, client, question: str, name: str) -> None:
    page.question.setText(question)
    page.question.returnPressed.emit()
    list_files(client, "/docs/a.pdf")
    page.run.export_wanted.emit()
    (dialog,) = page.findChildren(QFileDialog)
    assert [Path(file).name for file in dialog.selectedFiles()] == [name]
    dialog.reject()


def test_a_question_whose_files_cannot_be_listed_is_still_there(page, client, models: AppModels) -> None:
    page.question.setText(QUESTION)
    page.ask.click()
    assert page.question.text() == QUESTION
    client.refuse(protocol.DOCUMENTS, "The library is busy.")
    assert models.each_file.state == "none"
    assert page.question.text() == QUESTION
    page.ask.click()
    list_files(client, "/docs/a.pdf")
    assert page.question.text() == ""


def test_earlier_questions_are_found_again_and_can_be_deleted(page, client, qtbot, models: AppModels) -> None:
    ask_all(page, client, qtbot)
    page.question.setText("Who signed it?")
    page.ask.click()
    list_files(client, "/docs/a.pdf")
    earlier = page.earlier.menu().actions()
    assert [action.text().split(" · ")[0] for action in earlier] == ["Who signed it?", QUESTION]
    earlier[1].trigger()
    assert models.each_file.run.question == QUESTION
    page.run.delete.click()
    box = page.findChild(QMessageBox)
    next(button for button in box.buttons() if button.text() == "Delete").click()
    assert [run.question for run in models.each_file.runs] == ["Who signed it?"]
    assert page.empty.isVisible()
    assert page.window().focusWidget() is page.question


def test_what_is_asked_goes_on_while_an_earlier_question_is_looked_at_and_one_gets_back_to_it(
    page, window, client, qtbot, models: AppModels
) -> None:
    client.become_ready()
    [first, _] = ask_all(page, client, qtbot)
    page.run.pause.click()
    told: list[tuple[str, ...]] = []
    page.message_told.connect(lambda *words: told.append(words))
    page.question.setText("Who signed it?")
    page.ask.click()
    list_files(client, "/docs/a.pdf", "/docs/b.pdf")
    num_asked = len(client.asked(protocol.ASK))
    assert not page.asked.isVisible()
    page.earlier.menu().aboutToShow.emit()
    earlier = page.earlier.menu().actions()
    assert [action.text().split(" · ")[0::2] for action in earlier] == [
        ["Who signed it?", "being asked, 0 %"],
        [QUESTION, "paused, 0 %"],
    ]
    earlier[1].trigger()
    assert page.asked.isVisible()
    assert page.asked.words == "“Who signed it?” is still being asked, 0 %"
    assert page.run.figures == "0 of 2 files answered · paused"
    client.tell(finished(client.asked(protocol.ASK)[num_asked - 1].question_id, passages=(passage(),)))
    assert page.asked.words == "“Who signed it?” is still being asked, 50 %"
    assert window.status_line.sentence == "Asking every file, 50 %"
    page.asked.show_it.setFocus()
    qtbot.keyClick(page.asked.show_it, Qt.Key.Key_Space)
    assert models.each_file.run.question == "Who signed it?"
    assert page.run.figures.startswith("1 of 2 files answered · about ")
    assert not page.asked.isVisible()
    assert window.focusWidget() is page.table
    # Whoever goes on with the other one pauses this one, and is told so.
    page.earlier.menu().aboutToShow.emit()
    page.earlier.menu().actions()[1].trigger()
    page.run.resume.click()
    assert told == [("notice", "“Who signed it?” is paused at 50 %. It goes on from “Earlier questions”.", "")]
    client.tell(protocol.AnswerCancelled(question_id=first))
    page.earlier.menu().aboutToShow.emit()
    assert page.earlier.menu().actions()[0].text().endswith(" · paused, 50 %")


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_end_of_a_question_marks_a_window_that_nobody_looks_at(
    page, window, client, qtbot, models: AppModels, monkeypatch, is_shown: bool
) -> None:
    client.become_ready()
    marked: list[tuple[MainWindow, ...]] = []
    monkeypatch.setattr(QApplication, "alert", lambda *windows: marked.append(windows))
    monkeypatch.setattr(window, "isActiveWindow", lambda: False)
    first, second = ask_all(page, client, qtbot)
    if not is_shown:
        page.run.pause.click()
        marked.clear()
        earlier = models.each_file.run
        page.question.setText("Who signed it?")
        page.ask.click()
        list_files(client, "/docs/a.pdf", "/docs/b.pdf")
        first, second = [one.question_id for one in client.asked(protocol.ASK)[-2:]]
        models.each_file.open(earlier.run_id)
    client.tell(finished(first, passages=(passage(),)))
    assert marked == []
    client.tell(finished(second, passages=(passage(),)))
    assert marked == [(window,)]


def test_every_earlier_question_can_be_found(page, models: AppModels, qtbot) -> None:
    for number in range(35):
        models.each_file._store.create(f"Who signed §{number}?", (), [(1, "/docs/a.pdf")])
    models.each_file._read_runs()
    last = page.earlier.menu().actions()[-1]
    assert last.text() == "All 35 questions…"
    last.trigger()
    palette = page.findChild(CommandPalette)
    assert len(palette.titles()) == 35
    qtbot.keyClicks(palette.field, "§0?")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert models.each_file.run.question == "Who signed §0?"


def test_the_page_opens_with_what_was_asked_last(window, models: AppModels) -> None:
    models.each_file._store.create(QUESTION, (), [(1, "/docs/a.pdf")])
    models.each_file._read_runs()
    page = window.go_to("every-file")
    assert page.table.model().rowCount() == 1
    assert page.run.figures == "0 of 1 file answered · paused"


def test_how_far_it_is_is_told_at_the_foot_of_every_page(page, window, client, qtbot) -> None:
    client.become_ready()
    line = window.status_line
    page.question.setText("When does it end?")
    qtbot.mouseClick(page.ask, Qt.MouseButton.LeftButton)
    assert line.sentence == "Asking every file…"
    list_files(client, *(f"/docs/{number}.pdf" for number in range(4)))
    asked = [ask.question_id for ask in client.asked(protocol.ASK)]
    for place in ("library", "chats"):
        window.go_to(place)
        client.tell(
            protocol.AnswerState(question_id=asked[0], state="writing"), finished(asked.pop(0), passages=(passage(),))
        )
    assert line.sentence == "Asking every file, 50 %"
    assert line._sentence.accessibleName() == "Asking every file, 50 %"
    assert line._spinner.isVisible()
    # The next engine is asked what this one did not answer.
    client.die("The engine crashed.")
    assert line.sentence == "The engine crashed."
    client.become_ready()
    assert line.sentence == "Asking every file, 50 %"
    page.run.pause.click()
    for question_id in asked:
        client.tell(protocol.AnswerCancelled(question_id=question_id))
    assert line.sentence == "A question to every file is paused"
    assert not line._spinner.isVisible()
    page.run.resume.click()
    # Half of it was answered by a model, and it is not known yet whether that one is there.
    num_asked = len(client.asked(protocol.ASK))
    assert line.sentence == "Asking every file, 50 %"
    client.answer(protocol.MODELS, protocol.ModelsReply(models=(), current=""))
    assert len(client.asked(protocol.ASK)) == num_asked + len(asked)
    for question_id in asked:
        client.tell(finished(question_id, passages=(passage(),)))
    assert line.sentence == "Ready"
