"""Tests for the pages: memory, models, settings, and the first run of the chat page."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QDesktopServices, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFileDialog,
    QLabel,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QWidget,
)

from app import theme
from app.widgets.counter_words import counter_text
from app.widgets.figure import Figure
from app.widgets.model_row import speed_chips
from app.widgets.sparkline import Sparkline
from app.windows.collection_dialog import CollectionDialog
from app.windows.embedder_dialog import EmbedderDialog
from app.windows.model_dialog import ModelDialog
from engine import protocol
from engine.protocol import Collection, Span
from tests.helpers.answers import finished
from tests.helpers.cut_fields import cut_fields
from tests.helpers.shown_values import GIB, gpu_tier, passage
from tests.helpers.shown_words import shown_words
from tests.helpers.told_library import tell_library

COLLECTION = Collection("Documents", ("/docs",), {"indexed": 2, "failed": 1}, 6)


def tell_models(client, *entries, current: str = "") -> None:
    client.become_ready()
    for request in list(client.open):
        if request.method is protocol.MODELS:
            client.answer(protocol.MODELS, protocol.ModelsReply(models=entries, current=current))


# --- first run and empty chat ---


def test_before_the_library_is_known_a_question_can_already_be_written(window):
    assert window.chat.hero.isVisible()
    assert window.chat.prompt.isVisible()


def test_an_empty_library_shows_the_first_run_page(window, client, monkeypatch):
    asked = []
    monkeypatch.setattr(window.adding, "add_folder", asked.append)
    tell_library(client)
    assert window.chat.first_run.isVisible()
    assert not window.chat.prompt.isVisible()
    assert window.focusWidget() is window.chat.first_run
    window.chat.add_folder_wanted.connect(asked.append)
    window.chat.first_run.choose_folder.click()
    assert asked[-1] == ""


def test_on_the_first_run_a_model_can_be_asked_without_files(window, client):
    tell_library(client)
    tell_models(client, TINY, current=TINY.path)
    first_run, prompt = window.chat.first_run, window.chat.prompt
    assert (first_run.isVisible(), prompt.isVisible()) == (True, True)
    assert window.focusWidget() is prompt.field
    assert prompt.field.placeholderText() == "Ask the model…"
    assert "Tiny is ready" in [label.text() for label in first_run.findChildren(QLabel)]
    prompt.set_text("Say hello.")
    prompt.button.click()
    assert not first_run.isVisible()
    (ask,) = client.asked(protocol.ASK)
    assert not ask.searches
    client.tell(finished(ask.question_id, "Hello.", passages=(), quotes=(), citations=()))
    turn = window.chat.conversation.widget_of(ask.question_id)
    assert (turn.confined.isVisible(), turn.everything.isVisible()) == (True, False)
    # Once there are files, the same chat asks them.
    tell_library(client, COLLECTION)
    assert prompt.field.placeholderText() == "Ask your files…"
    assert turn.everything.isVisible()


def test_as_soon_as_files_are_on_their_way_they_can_be_searched_instead(window, client, models):
    tell_library(client)
    models.conversation.ask("Say hello.")
    (ask,) = client.asked(protocol.ASK)
    client.tell(finished(ask.question_id, "Hello.", passages=(), quotes=(), citations=()))
    turn = window.chat.conversation.widget_of(ask.question_id)
    assert (turn.everything.text(), turn.everything.isVisible()) == ("Search your files instead", False)
    client.tell(protocol.IndexProgress(documents_done=0, documents_total=9, chunks_done=0))
    assert turn.everything.isVisible()
    client.tell(protocol.IndexFailed(kind="DiskFull", sentence="The disk is full."))
    assert not turn.everything.isVisible()


def test_in_a_low_window_the_first_page_is_scrolled_and_no_words_are_cut(window, client, qtbot):
    tell_library(client)
    tell_models(client, TINY, current=TINY.path)
    window.resize(800, 520)
    first_run = window.chat.first_run
    qtbot.wait_until(lambda: first_run.verticalScrollBar().maximum() > 0)
    for label in first_run.findChildren(QLabel):
        needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
        assert label.height() >= needed, label.text()


def test_files_on_their_way_end_the_first_run(window, client):
    tell_library(client)
    client.tell(protocol.IndexProgress(documents_done=0, documents_total=9, chunks_done=0))
    assert window.chat.prompt.isVisible()
    assert window.focusWidget() is window.chat.prompt.field
    assert "being read" in window.chat.hero.sentence


def test_an_empty_chat_says_what_it_is_answered_from(window, client, models):
    tell_library(client, COLLECTION, Collection("Rust", (), {"indexed": 5}, 50))
    assert window.chat.hero.sentence == "Answers come from 7 files in your library."
    models.conversation.set_collection("Rust")
    assert window.chat.hero.sentence == "Answers come from 5 files in Rust."


def test_an_empty_chat_says_how_far_reading_has_come(window, client):
    client.tell(protocol.IndexProgress(documents_done=1, documents_total=9, chunks_done=4))
    tell_library(client, Collection("Rust", (), {"pending": 9}, 0))
    assert window.chat.hero.sentence == "Your files are being read; you can already ask."
    tell_library(client, Collection("Rust", (), {"indexed": 1, "pending": 8, "skipped": 1}, 4))
    assert window.chat.hero.sentence == "1 of 9 files in your library have been read so far; you can already ask."
    tell_library(client, Collection("Rust", (), {"indexed": 1}, 4))
    assert window.chat.hero.sentence == "Answers come from 1 file in your library."


def test_the_collection_is_chosen_at_the_top_of_the_chat(window, client, models):
    tell_library(client, COLLECTION)
    actions = window.chat.collection_picker.menu().actions()
    none = "No files · the model alone"
    assert [action.text() for action in actions] == ["All files", "Documents", "", none, "", "New collection…"]
    actions[1].trigger()
    assert models.conversation.collections == ("Documents",)


def test_no_files_can_be_chosen_at_the_top_of_the_chat_and_taken_back(window, client, models):
    tell_library(client, COLLECTION)
    tell_models(client, TINY, current=TINY.path)
    chat = window.chat
    chat.collection_picker.menu().actions()[3].trigger()
    assert chat.collection_picker.text() == " No files · the model alone"
    assert chat.collection_picker.menu().actions()[3].isChecked()
    assert chat.prompt.field.placeholderText() == "Ask the model…"
    assert chat.hero.sentence == "The model answers from what it knows; your files are not searched."
    assert not chat.filters.isVisible()
    chat.prompt.set_text("Say it politely.")
    chat.prompt.button.click()
    (ask,) = client.asked(protocol.ASK)
    assert (ask.text, ask.searches) == ("Say it politely.", False)
    # There are no sources to wait for.
    assert not chat.sources.isVisible()
    assert not chat.sources_button.isEnabled()
    client.tell(finished(ask.question_id, "Would you kindly", passages=(), quotes=(), citations=()))
    chat.collection_picker.menu().actions()[0].trigger()
    assert chat.prompt.field.placeholderText() == "Ask your files…"
    assert chat.filters.isVisible()
    models.conversation.ask("What notice applies?")
    assert client.asked(protocol.ASK)[-1].searches
    assert chat.sources.isVisible()
    models.sources.show_turn(models.conversation.turns[0])
    assert chat.sources.panel.empty.sentence == "Your files are not searched for this answer."


def test_without_files_and_without_a_model_it_is_said_that_nobody_answers(window, client, models):
    tell_library(client, COLLECTION)
    models.conversation.leave_files_out()
    assert "nobody answers" in window.chat.hero.sentence
    tell_models(client, TINY, current=TINY.path)
    assert "from what it knows" in window.chat.hero.sentence


def test_a_new_collection_gets_a_name_and_a_folder_and_is_asked_from_then_on(window, client, models):
    tell_library(client, COLLECTION)
    window.chat.collection_picker.menu().actions()[-1].trigger()
    (dialog,) = window.findChildren(CollectionDialog)
    assert not dialog.folder_button.isEnabled()
    dialog.field.setText("  Sales &  Marketing ")
    dialog.folder_button.click()
    (chooser,) = window.findChildren(QFileDialog)
    chooser.filesSelected.emit(["/sales"])
    wanted = client.asked(protocol.ADD)[-1]
    assert (wanted.paths, wanted.collection) == (("/sales",), "Sales & Marketing")
    client.answer(protocol.ADD, protocol.Nothing())
    assert models.conversation.collections == ("Sales & Marketing",)
    assert window.chat.collection_picker.text() == " Sales && Marketing"
    # A reply that was on its way when it was made does not know it yet.
    tell_library(client, COLLECTION)
    assert models.conversation.collections == ("Sales & Marketing",)
    assert window.chat.collection_picker.text() == " Sales && Marketing"


def test_a_collection_that_is_gone_is_not_what_new_chats_ask(window, client, models):
    tell_library(client, COLLECTION)
    models.conversation.set_collection("Documents")
    models.conversation.ask("Why?")
    first = models.conversation.conversation_id
    tell_library(client, Collection("Rust", (), {"indexed": 1}, 4))
    assert models.conversation.collections == ("Documents",)
    assert window.chat.collection_picker.text() == " Documents (removed)"
    models.conversation.new_chat()
    assert models.conversation.collections == ()
    assert window.chat.collection_picker.text() == " All files"
    models.conversation.ask("And now?")
    assert client.asked(protocol.ASK)[-1].collection is None
    # The one that was begun there says still that it is gone.
    models.conversation.open(first)
    assert window.chat.collection_picker.text() == " Documents (removed)"


def test_several_collections_are_chosen_at_the_top_of_the_chat_and_told_of(window, client, models):
    rust, tea = (Collection(name, (), {"indexed": number}, 50) for name, number in (("Rust", 5), ("Tea & co", 4)))
    tell_library(client, COLLECTION, rust, tea)
    picker = window.chat.collection_picker
    for action in picker.several.actions()[1:]:
        action.trigger()
    assert models.conversation.collections == ("Rust", "Tea & co")
    assert picker.text() == " Rust + Tea && co"
    assert window.chat.hero.sentence == "Answers come from 9 files in Rust + Tea & co."
    models.conversation.ask("Why?")
    (asked,) = client.asked(protocol.ASK)
    assert (asked.collection, asked.filters.collections) == (None, ("Rust", "Tea & co"))
    client.tell(finished(asked.question_id, passages=(), quotes=(), citations=()))
    (turn,) = window.chat.conversation.turn_views()
    assert turn.everything.accessibleName() == "Search all of Rust + Tea & co instead"
    models.conversation.new_chat()
    assert models.conversation.collections == ("Rust", "Tea & co")


def test_one_of_several_collections_that_is_gone_is_said_to_be_and_the_others_are_asked(window, client, models):
    rust = Collection("Rust", (), {"indexed": 5}, 50)
    tell_library(client, COLLECTION, rust)
    models.conversation.set_collections(("Documents", "Rust"))
    models.conversation.ask("Why?")
    tell_library(client, rust)
    picker = window.chat.collection_picker
    assert picker.text() == " Documents (removed) + Rust"
    models.conversation.ask("And now?")
    assert client.asked(protocol.ASK)[-1].collection == "Rust"
    models.conversation.new_chat()
    assert picker.text() == " Rust"
    assert window.chat.hero.sentence == "Answers come from 5 files in Rust."


# --- small windows and large text ---


@pytest.mark.parametrize("place", ["library", "memory", "models", "every-file"])
@pytest.mark.parametrize("scale", [1.0, 1.5, 2.5])
def test_the_buttons_of_a_page_stand_beside_its_title_or_below_it(window, client, qtbot, place, scale):
    tell_library(client, COLLECTION)
    page = window.go_to(place)
    theme.appearance().choose("light", scale)
    window.resize(800, 520)
    buttons = [button for button in page._actions.findChildren(QPushButton) if button.isVisible()]
    title = page._title

    def overlap() -> bool:
        places = [QRect(part.mapTo(page, QPoint()), part.size()) for part in (title, *buttons)]
        is_inside = all(page.rect().contains(one) for one in places)
        return not is_inside or any(one.intersects(other) for one, other in combinations(places, 2))

    qtbot.waitUntil(lambda: not overlap())
    frame = page._actions
    qtbot.waitUntil(lambda: all(frame.rect().contains(button.geometry()) for button in buttons))


@pytest.mark.parametrize("size", [(800, 520), (1280, 800)])
def test_at_large_text_no_picker_above_a_chat_is_cut(window, client, qtbot, size):
    tell_library(client, COLLECTION)
    tell_models(client, TINY, current=TINY.path)
    theme.appearance().choose("light", 2.0)
    window.resize(*size)
    for picker in (window.chat.model_picker, window.chat.collection_picker):
        qtbot.waitUntil(lambda picker=picker: picker.height() >= picker.sizeHint().height())


def test_long_names_of_collections_leave_the_other_buttons_above_a_chat_their_room(window, client, models, qtbot):
    names = [f"A collection with a name that no line has room for, number {number}" for number in (1, 2)]
    tell_library(client, *(Collection(name, (), {"indexed": 1}, 4) for name in names))
    theme.appearance().choose("light", 2.0)
    window.resize(800, 520)
    for chosen in (names[:1], names):
        models.conversation.set_collections(chosen)
        chat = window.chat
        buttons = (chat.model_picker, chat.manner_button, chat.sources_button)
        qtbot.waitUntil(lambda buttons=buttons: all(one.width() >= one.sizeHint().width() for one in buttons))
        assert window.width() == 800
        assert chat.sources_button.mapTo(window, chat.sources_button.rect().topRight()).x() < 800
        assert chat.collection_picker.cut_text.endswith("…")


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0, 2.5])
def test_no_choice_and_no_figure_of_the_settings_is_cut(window, client, scale):
    page = window.go_to("settings")
    theme.appearance().choose("light", scale)
    QApplication.processEvents()
    assert page.findChildren(QComboBox)
    assert page.findChildren(QAbstractSpinBox)
    assert cut_fields(page) == []


# --- by the keyboard ---


@pytest.mark.parametrize("place", ["chats", "every-file"])
def test_every_button_of_a_page_is_reached_by_the_tab_key(window, client, models, place):
    tell_library(client, COLLECTION)
    models.conversation.ask("Why?")
    client.tell(finished(models.conversation.turns[-1].turn_id, "So it is. [1]", passages=(passage(1),)))
    models.each_file._store.create("Why?", (), [(1, "/docs/a.pdf")])
    models.each_file._read_runs()
    page = window.go_to(place)
    window.activateWindow()
    reached = set()
    for _ in range(60):
        reached.add(window.focusWidget())
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    tab = Qt.FocusPolicy.TabFocus.value
    buttons = (button for button in page.findChildren(QAbstractButton) if button.focusPolicy().value & tab)
    assert {button.accessibleName() for button in buttons if button.isVisible() and button.isEnabled()} <= {
        widget.accessibleName() for widget in reached
    }


def test_the_tab_key_goes_from_what_is_above_a_chat_to_the_question(window, client):
    tell_library(client, COLLECTION)
    chat = window.chat
    assert window.focusWidget() is chat.prompt.field
    window.rail.buttons["settings"].setFocus()
    for part in (chat.model_picker, chat.collection_picker, chat.manner_button, chat.prompt.field):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert window.focusWidget() is part


# --- memory ---


SPAN = Span("model weights", "layers 0–27", "gpu", 4 * GIB)


def snapshot(*spans, **told) -> protocol.MemorySnapshot:
    return protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=(gpu_tier(*spans),), **told))


def test_before_a_snapshot_the_memory_page_says_so(window):
    assert window.go_to("memory").empty.isVisible()


def test_a_span_appears_when_a_model_loads_and_goes_when_it_is_unloaded(window, client):
    page = window.go_to("memory")
    client.tell(snapshot(SPAN))
    (lane,) = page.map.lanes()
    assert sum(tile.what == "layers 0–27" for tile in lane.tiles) == 28
    client.tell(snapshot())
    assert all(tile.what != "layers 0–27" for tile in lane.tiles)


def test_map_and_table_hold_the_same_spans(window, client):
    page = window.go_to("memory")
    client.tell(snapshot(SPAN))
    page.table_button.click()
    rows = [page.table.memory_row(row) for row in range(page.table.num_rows())]
    assert [row.what for row in rows if row.what] == ["layers 0–27"]
    assert page.table.isVisible()


def test_no_figure_is_pressed_together_in_a_low_window(window, client, qtbot):
    page = window.go_to("memory")
    window.resize(1000, 480)
    counters = {f"counter_{number}": float(number) for number in range(24)}
    client.tell(snapshot(SPAN, decisions=("3 chats waiting: batch 2 → 4.",) * 4, counters=counters))

    def shown() -> list[QWidget]:
        labels = [*page.counters.findChildren(QLabel), *page.counters.findChildren(Figure)]
        return [label for label in labels if label.isVisible()]

    qtbot.waitUntil(lambda: len(shown()) > 48)
    # A layout may take a few rounds to settle.
    qtbot.waitUntil(lambda: all(label.height() >= label.sizeHint().height() for label in shown()))


def test_a_hidden_memory_page_paints_nothing_until_it_is_gone_to(window, client):
    page = window.go_to("memory")
    client.tell(snapshot())
    window.go_to("chats")
    (lane,) = page.map.lanes()
    painted = lane.num_pictures
    for layers in range(20):
        client.tell(snapshot(Span("model weights", f"layers 0–{layers}", "gpu", GIB)))
        QApplication.processEvents()
    assert lane.num_pictures == painted
    window.go_to("memory")
    assert any(tile.what == "layers 0–19" for tile in lane.tiles)


def test_decisions_are_said_in_words(window, client, qtbot):
    page = window.go_to("memory")
    client.tell(snapshot(SPAN, decisions=("3 chats waiting: batch 2 → 4.",), counters={"tokens_per_s": 31.44}))
    qtbot.waitUntil(lambda: page.decisions.lines() == ("3 chats waiting: batch 2 → 4.",))


def test_figures_change_in_their_place(window, client, qtbot):
    def wait_for(*lines: tuple[str, str]) -> None:
        qtbot.waitUntil(lambda: page.counters.shown() == lines)

    page = window.go_to("memory")
    client.tell(snapshot(SPAN, counters={"tokens_per_s": 31.44, "kv_cells_free": 12}))
    wait_for(("Tokens written", "31.4/s"), ("KV cells free", "12"))
    figures = page.counters.findChildren(Figure)
    client.tell(snapshot(SPAN, counters={"tokens_per_s": 8.0, "kv_cells_free": 9}))
    wait_for(("Tokens written", "8.0/s"), ("KV cells free", "9"))
    assert page.counters.findChildren(Figure) == figures
    assert figures[0].accessibleName() == "8.0/s"
    client.tell(snapshot(SPAN, counters={"tokens_per_s": 8.0}))
    wait_for(("Tokens written", "8.0/s"))


def test_each_figure_says_what_it_is_a_figure_of(window, client, qtbot):
    page = window.go_to("memory")
    client.tell(snapshot(SPAN, counters={"tokens_per_s": 31.44, "answers_in_time_ratio": 0.834}))
    qtbot.waitUntil(lambda: page.counters.shown()[1:] == (("Answers that came in time", "83%"),))
    written, in_time = page.counters.findChildren(Figure)
    assert (written.accessibleDescription(), written.toolTip()) == ("Tokens written", "")
    assert in_time.accessibleDescription().startswith("Answers that came in time. Share of all answers since the")
    assert "generation.ttft_target_seconds" in in_time.toolTip()
    assert page.counters.findChildren(Sparkline)[1].accessibleName() == "Answers that came in time"


def test_without_counters_nothing_is_running(window, client, qtbot):
    page = window.go_to("memory")
    client.tell(snapshot(SPAN))
    words = [label.text() for label in page.counters.findChildren(QLabel) if not label.isHidden()]
    assert words == ["Figures", "Nothing is running."]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("tokens_per_s", 31.44, ("Tokens written", "31.4/s")),
     ("disk_read_bytes_per_s", 2**20, ("Read from disk", "1.0 MiB/s")),
     ("kv_hit_ratio", 0.83, ("KV hit", "83%")), ("cache_bytes", 2048, ("Cache", "2.0 KiB")),
     ("waiting_questions", 3, ("Waiting questions", "3")), ("questions_waiting", 1, ("Questions in progress", "1")),
     ("kv_found_on_disk_ratio", 0.5, ("… in the disk cache", "50%")),
     ("kv_cells_free", 1200, ("KV cells free", "1,200")),
     ("sweep_load_ms", 9.9, ("… plus for each part from disk", "10 ms")),
     ("partitions", 4, ("Index parts", "4")),
     ("answers_in_time_ratio", 0.834, ("Answers that came in time", "83%"))],
)  # fmt: skip
def test_counters_are_read_by_the_end_of_their_names(name, value, words):
    assert counter_text(name, value) == words


# --- models ---

TINY = protocol.ModelEntry(
    path="/m/tiny.gguf", name="Tiny", architecture="llama", file_bytes=2**20, num_layers=4, trained_context=512,
    planned_gpu_layers=2, has_gpu=True, fit="Fits.",
)  # fmt: skip
BROKEN = protocol.ModelEntry(path="/m/broken.gguf", name="Broken", problem="The file is cut short.")


def test_without_models_the_page_says_that_answers_are_quotes(window, client):
    page = window.go_to("models")
    tell_models(client)
    assert page.empty.isVisible()
    assert page.empty.sentence == "Answers are quotes from your files until a model is chosen."


def test_a_model_that_was_got_is_deleted_after_it_was_asked_and_ones_own_is_forgotten(window, client):
    page = window.go_to("models")
    got = TINY.model_copy(update={"deletable_bytes": 3 * GIB})
    tell_models(client, got, BROKEN)
    first, second = page.rows()
    assert (first.forget.text(), second.forget.text()) == ("Delete file…", "Remove from list")
    assert first.forget.accessibleName() == "Delete the file of Tiny, tiny.gguf"
    second.forget.click()
    assert client.asked(protocol.MODELS_FORGET) == [protocol.ModelFile(path=BROKEN.path)]
    first.forget.click()
    (box,) = page.findChildren(QMessageBox)
    assert client.asked(protocol.MODELS_DELETE) == []
    assert box.text() == "Delete the file of Tiny?"
    assert "/m/tiny.gguf" in box.informativeText()
    assert "Frees 3.0 GiB" in box.informativeText()
    assert box.defaultButton() is box.button(QMessageBox.StandardButton.Cancel)
    next(button for button in box.buttons() if button.text() == "Delete").click()
    assert client.asked(protocol.MODELS_DELETE) == [protocol.ModelFile(path=TINY.path)]
    client.refuse(protocol.MODELS_DELETE, "It is in use just now.", way_out="Wait.")
    assert window.message_bar.sentence == "It is in use just now."
    tell_models(client, BROKEN)
    assert [row.entry.path for row in page.rows()] == [BROKEN.path]


def test_a_model_is_used_with_the_planned_layers_or_the_wished_ones(window, client):
    page = window.go_to("models")
    tell_models(client, TINY)
    (row,) = page.rows()
    row.use.click()
    for layers in (3, 0):
        row.layers.setValue(layers)
        row.use.click()
    # The output head comes first where llama.cpp counts.
    assert [wanted.n_gpu_layers for wanted in client.asked(protocol.MODELS_USE)] == [None, 4, 0]


def test_the_keyboard_goes_through_the_models_as_they_are_shown(window, client):
    page = window.go_to("models")
    first, second, third = (TINY.model_copy(update={"path": f"/m/{number}.gguf"}) for number in range(3))
    tell_models(client, first, second, third)
    tell_models(client, second, first, third)
    following, reached = page.rows()[0].controls[0], []
    for _ in range(200):
        reached.append(following)
        following = following.nextInFocusChain()
    uses = [widget for widget in reached if any(widget is row.use for row in page.rows())]
    assert uses[:3] == [row.use for row in page.rows()]


def test_nobody_is_asked_for_layers_on_a_card_that_is_not_there(window, client):
    page = window.go_to("models")
    tell_models(client, TINY, TINY.model_copy(update={"path": "/m/b.gguf", "has_gpu": False}))
    assert [row.layers.isVisibleTo(row) for row in page.rows()] == [True, False]
    words = [shown_words(row) for row in page.rows()]
    assert ["GPU layers" in text for text in words] == [True, False]


def test_the_keyboard_stays_where_it_is_while_a_model_is_loaded_and_unloaded(window, client, qtbot):
    page = window.go_to("models")
    many = [TINY.model_copy(update={"path": f"/m/{number}.gguf", "name": str(number)}) for number in range(20)]
    tell_models(client, *many)
    row, area = page.rows()[12], page.findChild(QScrollArea)
    bar = area.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    row.use.setFocus()
    area.ensureWidgetVisible(row)
    before = bar.value()
    assert before > 0
    qtbot.keyClick(row.use, Qt.Key.Key_Space)
    for state in ("loading", "loaded"):
        client.tell(protocol.ModelState(state=state, path=many[12].path, name="12"))
        tell_models(client, *many, current=many[12].path)
        QApplication.processEvents()
        assert (window.focusWidget(), page.rows()[12]) == (row.use, row)
    assert bar.value() == pytest.approx(before, abs=row.height())
    row.unload.setFocus()
    qtbot.keyClick(row.unload, Qt.Key.Key_Space)
    client.tell(protocol.ModelState(state="none"))
    tell_models(client, *many)
    assert window.focusWidget() is row.use
    assert not row.unload.isVisible()


def test_layers_that_are_being_chosen_stay_when_the_plan_changes(window, client):
    page = window.go_to("models")
    tell_models(client, TINY, BROKEN)
    page.rows()[0].layers.setValue(3)
    page.rows()[0].layers.setFocus()
    window.go_to("memory")
    window.go_to("models")
    tell_models(client, BROKEN, TINY.model_copy(update={"planned_gpu_layers": 1, "fit": "Fits by now."}))
    row = page.rows()[1]
    assert (row.layers.value(), row.layers.specialValueText()) == (3, "As planned (1)")
    assert "Fits by now." in shown_words(row)
    tell_models(client, BROKEN)
    window.go_to("models")
    tell_models(client, BROKEN)
    assert [one.entry for one in page.rows()] == [BROKEN]


def test_two_files_of_one_model_can_be_told_apart(window, client):
    page = window.go_to("models")
    entries = tuple(TINY.model_copy(update={"path": f"/m/tiny-{kind}.gguf"}) for kind in ("Q4", "Q8"))
    tell_models(client, *entries)
    words = [" ".join(label.text() for label in row.findChildren(QLabel)) for row in page.rows()]
    assert ["tiny-Q4.gguf" in words[0], "tiny-Q8.gguf" in words[1]] == [True, True]


def test_two_files_of_one_name_are_told_apart_by_their_folders(window, client, models):
    page = window.go_to("models")
    entries = [TINY.model_copy(update={"path": f"/m/{folder}/tiny.gguf"}) for folder in "AB"]
    tell_models(client, *entries, current=entries[0].path)
    for row, folder in zip(page.rows(), "AB", strict=True):
        assert f"{folder}/tiny.gguf" in " ".join(shown_words(row))
        assert row.toolTip() == f"/m/{folder}/tiny.gguf"
        assert row.use.accessibleName() == f"Use Tiny, {folder}/tiny.gguf"
    picker = window.chat.model_picker
    assert picker.text().strip() == "A/tiny"
    picker.click()
    assert [row.use.accessibleName() for row in picker.popup.rows] == [f"Use Tiny, {one}/tiny.gguf" for one in "AB"]


def test_a_model_with_a_problem_says_it_and_cannot_be_used(window, client):
    page = window.go_to("models")
    tell_models(client, BROKEN)
    (row,) = page.rows()
    assert not row.use.isEnabled()
    assert any(label.text() == BROKEN.problem for label in row.findChildren(type(page.subtitle)))


def test_what_a_little_loss_would_give_is_offered_and_allowed_at_a_click(window, client):
    page = window.go_to("models")
    short = TINY.model_copy(update={"offer": "With keys and values in 8 bits it would run better: about 2 tokens/s."})
    tell_models(client, short, BROKEN)
    row, broken = page.rows()
    assert any("8 bits" in label.text() for label in row.findChildren(QLabel))
    assert [one.allow.isVisibleTo(one) for one in (row, broken)] == [True, False]
    row.allow.click()
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"memory.may_lose": True}]
    asked = len(client.asked(protocol.MODELS))
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings={}))
    # How it fits then.
    assert len(client.asked(protocol.MODELS)) == asked + 1


def test_what_is_offered_can_be_allowed_where_a_model_is_chosen_for_a_chat(window, client):
    short = TINY.model_copy(update={"offer": "With keys and values in 8 bits it would run better: about 2 tokens/s."})
    tell_models(client, short, current=TINY.path)
    picker = window.chat.model_picker
    picker.click()
    picker.popup.rows[0].allow.click()
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"memory.may_lose": True}]
    assert not picker.popup.isVisible()


def test_loading_and_failing_are_told_on_the_page_and_the_button(window, client):
    page = window.go_to("models")
    tell_models(client, TINY, current=TINY.path)
    client.tell(protocol.ModelState(state="loading", path=TINY.path, name="Tiny", fraction=0.4))
    assert "Loading Tiny… 40 %" in shown_words(page)
    assert window.chat.model_picker.text().strip() == "Loading Tiny · 40 %"
    client.tell(protocol.ModelState(state="failed", path=TINY.path, name="Tiny", sentence="There is no room for it."))
    assert "There is no room for it." in shown_words(page)
    assert "could not be loaded" in window.chat.model_picker.text()
    assert window.chat.model_picker.toolTip() == "There is no room for it."


def test_a_chosen_model_that_is_not_loaded_yet_is_no_reason_for_quotes(window, client):
    page = window.go_to("models")
    tell_models(client, TINY, current=TINY.path)
    assert "Tiny loads with the next question." in shown_words(page)


def test_of_a_model_that_is_loaded_one_speed_is_told(window, client):
    page = window.go_to("models")
    fast = TINY.model_copy(update={"fit": "All in memory: about 10 tokens/s.", "tokens_per_s": 10.0})
    tell_models(client, fast, current=TINY.path)
    assert "about 10 tokens/s" in shown_words(page.rows()[0])
    sentence = "4 layers on the GPU: about 14 tokens/s."
    client.tell(protocol.ModelState(state="loaded", path=TINY.path, name="Tiny", sentence=sentence))
    assert sentence in shown_words(page)
    assert not any("tokens/s" in words.replace("\u2060", "") for words in shown_words(page.rows()[0]))
    client.tell(protocol.ModelState(state="none"))
    assert "about 10 tokens/s" in shown_words(page.rows()[0])


def test_the_page_marks_models_that_chats_of_their_own_use(window, client):
    page = window.go_to("models")
    other = TINY.model_copy(update={"path": "/m/other.gguf", "name": "Other"})
    tell_models(client, TINY, other, current=TINY.path)
    for entry in (TINY, other):
        client.tell(protocol.ModelState(state="loaded", path=entry.path, name=entry.name))
    words = [shown_words(row) for row in page.rows()]
    assert [("In use" in row, "Loaded" in row) for row in words] == [(True, False), (False, True)]


def test_the_picker_shows_the_model_of_the_chat_that_is_open(window, client, models):
    other = TINY.model_copy(update={"path": "/m/other.gguf", "name": "Other"})
    tell_models(client, TINY, other, current=TINY.path)
    models.conversation.ask("one")
    first, picker = models.conversation.conversation_id, window.chat.model_picker
    window.chat_actions.new_chat()
    picker.click()
    assert [row.entry for row in picker.popup.rows] == [TINY, other]
    picker.popup.rows[1].use.click()
    client.tell(protocol.ModelState(state="loading", path=other.path, name="Other", fraction=0.4))
    assert picker.text().strip() == "Loading Other · 40 %"
    picker.click()
    assert [row.entry for row in picker.popup.rows] == [other, TINY]
    picker.popup.close()
    window.chat_actions.open_chat(first)
    assert picker.text().strip() == "Tiny"
    assert picker.accessibleName() == "Model: Tiny"


def test_a_chat_whose_model_left_the_list_says_so_and_offers_the_one_of_new_chats(window, client, models):
    tell_models(client, TINY, current=TINY.path)
    models.conversation.set_model("/m/other.gguf")
    picker = window.chat.model_picker
    assert picker.text().strip() == "other is not on the list"
    sentence = "The model of this chat, other.gguf, is no longer on the list of models."
    assert picker.toolTip() == sentence
    picker.click()
    assert picker.popup.fault.text() == sentence
    assert picker.popup.use_alternative.text() == "Answer with Tiny in this chat"
    picker.popup.use_alternative.click()
    assert models.conversation.model == TINY.path
    assert not picker.popup.isVisible()
    picker.click()
    assert (picker.popup.fault, picker.text().strip()) == (None, "Tiny")


def test_a_chat_whose_model_cannot_be_used_says_why(window, client, models):
    tell_models(client, TINY, BROKEN)
    models.conversation.set_model(BROKEN.path)
    picker = window.chat.model_picker
    assert (picker.text().strip(), picker.toolTip()) == ("Broken cannot be used", BROKEN.problem)
    picker.click()
    # Without another model there is nothing to offer but the buttons that are always there.
    assert (picker.popup.fault.text(), picker.popup.use_alternative) == (BROKEN.problem, None)
    assert [row.entry for row in picker.popup.rows] == [BROKEN, TINY]
    assert "In use" not in shown_words(picker.popup)
    assert picker.popup.use_none.isEnabled()


def test_a_chat_without_a_model_by_choice_says_no_more_than_that(window, client, models):
    tell_models(client, TINY, current=TINY.path)
    models.conversation.set_model("none")
    picker = window.chat.model_picker
    assert picker.text().strip() == "No model · quotes only"
    assert picker.toolTip() == "Answers in this chat are quotes from your files."


@pytest.mark.parametrize(("place", "is_for_the_chat"), [("chats", True), ("models", False)])
def test_a_file_that_is_opened_beside_a_chat_is_for_that_chat(window, client, models, place, is_for_the_chat):
    tell_models(client)
    window.go_to(place)
    models.model_picker.add(TINY.path)
    client.answer(protocol.MODELS_ADD, TINY)
    (dialog,) = window.findChildren(ModelDialog)
    dialog.row.use.click()
    assert [wanted.path for wanted in client.asked(protocol.MODELS_USE)] == [TINY.path]
    assert (models.conversation.model == TINY.path) is is_for_the_chat


def test_the_picker_says_that_there_is_no_model(window, client):
    tell_models(client)
    assert window.chat.model_picker.text().strip() == "No model · quotes only"
    assert "No model" in window.chat.model_picker.accessibleName()


def test_the_pickers_list_uses_a_model_and_closes(window, client):
    tell_models(client, TINY, BROKEN)
    window.chat.model_picker.click()
    popup = window.chat.model_picker.popup
    assert [row.entry for row in popup.rows] == [TINY, BROKEN]
    popup.rows[0].use.click()
    assert client.asked(protocol.MODELS_USE)[0].path == TINY.path
    assert not popup.isVisible()


def test_the_pickers_list_can_answer_with_quotes_only(window, client):
    tell_models(client, TINY, current=TINY.path)
    window.chat.model_picker.click()
    window.chat.model_picker.popup.use_none.click()
    assert len(client.asked(protocol.MODELS_UNLOAD)) == 1


def test_how_a_file_would_run_is_told_before_it_is_loaded(window, client):
    window._models.model_picker.add(TINY.path)
    sentence = "2 of 4 layers on the GPU, 2 streamed: a few words a second."
    fits = TINY.model_copy(update={"fit": sentence, "tokens_per_s": 4.23, "ttft_s": 3.0})
    client.answer(protocol.MODELS_ADD, fits)
    (dialog,) = window.findChildren(ModelDialog)
    words = [label.text() for label in dialog.findChildren(QLabel)]
    assert {sentence, "about 4 tokens/s", "first word after 3.0 s"} <= set(words)
    assert client.asked(protocol.MODELS_USE) == []
    dialog.row.use.click()
    assert [wanted.path for wanted in client.asked(protocol.MODELS_USE)] == [TINY.path]
    assert not dialog.isVisible()


@pytest.mark.parametrize(
    ("values", "chips"),
    [({}, ()), ({"tokens_per_s": 31.4}, (("about 31 tokens/s", "good"),)),
     ({"tokens_per_s": 0.8}, (("about 0.8 tokens/s", "warn"),)), ({"fits": False}, (("does not fit", "bad"),)),
     ({"problem": "Cut short.", "tokens_per_s": 3.0}, ())],
)  # fmt: skip
def test_what_is_expected_of_a_model_stands_beside_its_name(values, chips):
    assert speed_chips(TINY.model_copy(update=values)) == chips


def test_several_files_are_opened_at_once_and_shown_on_the_list(window, client):
    tell_models(client)
    window.adding.open_model()
    (chooser,) = window.findChildren(QFileDialog)
    assert chooser.fileMode() == QFileDialog.FileMode.ExistingFiles
    chooser.filesSelected.emit(["/m/a-00002-of-00002.gguf", "/m/a-00001-of-00002.gguf", TINY.path, "/m/notes.txt"])
    chooser.reject()
    asked = [wanted.path for wanted in client.asked(protocol.MODELS_ADD)]
    assert asked == ["/m/a-00001-of-00002.gguf", TINY.path, "/m/notes.txt"]
    split = TINY.model_copy(update={"path": asked[0]})
    client.answer(protocol.MODELS_ADD, split)
    client.answer(protocol.MODELS_ADD, TINY)
    client.refuse(protocol.MODELS_ADD, "notes.txt is no model.")
    tell_models(client, split, TINY)
    assert window.findChildren(ModelDialog) == []
    assert window.place == "models"
    assert [row.entry.path for row in window.page("models").rows()] == asked[:2]
    assert window.message_bar.sentence == "notes.txt is no model."


def test_one_file_that_is_opened_is_asked_about(window, client):
    window.adding.open_model()
    (chooser,) = window.findChildren(QFileDialog)
    chooser.filesSelected.emit([TINY.path])
    chooser.reject()
    client.answer(protocol.MODELS_ADD, TINY)
    assert len(window.findChildren(ModelDialog)) == 1


def test_a_file_need_not_be_used_at_once(window, client):
    window._models.model_picker.add(TINY.path)
    client.answer(protocol.MODELS_ADD, TINY)
    (dialog,) = window.findChildren(ModelDialog)
    dialog.later.click()
    assert not dialog.isVisible()
    assert client.asked(protocol.MODELS_USE) == []


def test_a_file_with_a_problem_is_told_and_cannot_be_used(window, client):
    window._models.model_picker.add(BROKEN.path)
    client.answer(protocol.MODELS_ADD, BROKEN)
    (dialog,) = window.findChildren(ModelDialog)
    assert BROKEN.problem in [label.text() for label in dialog.findChildren(QLabel)]
    assert not dialog.row.use.isEnabled()


# --- settings ---


def settings_page(window, client):
    page = window.go_to("settings")
    tables = {"generation": {"temperature": 0.3, "max_answer_tokens": 256, "max_context": 4096},
              "retrieval": {"passages": 4}}  # fmt: skip
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=tables))
    return page


def test_engine_settings_are_shown_and_changed_one_by_one(window, client, qtbot):
    page = settings_page(window, client)
    assert page.engine_control("generation.temperature").value() == 0.3
    page.engine_control("retrieval.passages").setValue(8)
    page.engine_control("retrieval.passages").setValue(9)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"retrieval.passages": 9}]


def test_what_a_command_beside_the_window_has_set_is_shown(window, client, qtbot):
    page = settings_page(window, client)
    client.tell(protocol.SettingsChanged())
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"generation": {"temperature": 0.7}}))
    assert page.engine_control("generation.temperature").value() == 0.7
    page.engine_control("generation.temperature").setValue(0.9)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    num_asked = len(client.asked(protocol.SETTINGS_GET))
    client.tell(protocol.SettingsChanged())
    assert len(client.asked(protocol.SETTINGS_GET)) == num_asked


def test_what_was_changed_just_before_the_window_closes_is_sent(window, client):
    page = settings_page(window, client)
    page.engine_control("retrieval.passages").setValue(8)
    window.close()
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"retrieval.passages": 8}]


@pytest.mark.parametrize("name", ["generation.temperature", "retrieval.index_mode"])
def test_who_scrolls_past_a_control_does_not_change_it(window, client, name):
    page = full_settings_page(window, client)
    control = page.engine_control(name)
    shown = [known.value() for known in page._controls.values()]
    assert not turn_wheel(control).isAccepted()
    assert [known.value() for known in page._controls.values()] == shown
    assert not control.focusPolicy() & Qt.FocusPolicy.WheelFocus & ~Qt.FocusPolicy.StrongFocus
    window.activateWindow()
    control.setFocus()
    assert turn_wheel(control).isAccepted()


def turn_wheel(widget) -> QWheelEvent:
    """Turns it downwards over the middle of a widget; what nobody accepts scrolls the page."""
    where = QPointF(widget.rect().center())
    turned = QWheelEvent(
        where, widget.mapToGlobal(where), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, turned)
    return turned


def test_penalties_are_told_and_changed_like_all_settings(window, client, qtbot):
    page = settings_page(window, client)
    for name, value in (("repeat", 1.25), ("presence", 0.5), ("frequency", -0.5)):
        page.engine_control(f"generation.{name}_penalty").setValue(value)
        qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    page.engine_control("generation.typical_p").setValue(0.9)
    wanted = {"repeat_penalty": 1.25, "presence_penalty": 0.5, "frequency_penalty": -0.5, "typical_p": 0.9}

    def told() -> dict[str, object]:
        return {name: value for asked in client.asked(protocol.SETTINGS_SET) for name, value in asked.changes.items()}

    qtbot.waitUntil(lambda: told() == {f"generation.{name}": value for name, value in wanted.items()})


def test_what_is_wanted_of_every_answer_can_be_told(window, client, qtbot):
    page = window.go_to("settings")
    settings = {"generation": {"instructions": "Be brief."}}
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=settings))
    field = page.engine_control("generation.instructions")
    assert field.toPlainText() == "Be brief."
    field.setPlainText("Be brief.\nAnswer in verse.")
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert client.asked(protocol.SETTINGS_SET)[0].changes == {"generation.instructions": "Be brief.\nAnswer in verse."}


def test_how_words_are_chosen_can_be_changed(window, client, qtbot):
    generation = {"top_k": 40, "min_p": 0.05, "dry_multiplier": 0.0, "stop": ["\n\n", "a, b"]}
    page = window.go_to("settings")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"generation": generation}))
    stops = page.engine_control("generation.stop")
    assert stops.text() == r"\n\n, a\, b"
    page.engine_control("generation.top_k").setValue(5)
    page.engine_control("generation.dry_multiplier").setValue(0.8)
    stops.setText(r"END, \n")
    stops.editingFinished.emit()

    def told() -> dict[str, object]:
        return {name: value for asked in client.asked(protocol.SETTINGS_SET) for name, value in asked.changes.items()}

    wanted = {"generation.top_k": 5, "generation.dry_multiplier": 0.8, "generation.stop": ("END", "\n")}
    qtbot.waitUntil(lambda: told() == wanted)
    assert not page.shows("generation.xtc_probability")


def test_a_refused_setting_returns_to_what_is_true(window, client, qtbot):
    page = settings_page(window, client)
    page.engine_control("generation.temperature").setValue(1.5)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    client.refuse(protocol.SETTINGS_SET, "That is too high.")
    assert page.engine_control("generation.temperature").value() == 0.3
    assert window.message_bar.sentence == "That is too high."


def test_what_is_being_typed_is_not_overwritten_by_the_reply_to_something_else(window, client, qtbot):
    page = window.go_to("settings")
    generation = {"temperature": 0.3, "top_k": 40, "stop": ["END"]}
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"generation": generation}))
    page.engine_control("generation.temperature").setValue(0.9)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    top_k, stops = page.engine_control("generation.top_k"), page.engine_control("generation.stop")
    top_k.lineEdit().setText("1")
    stops.setText("END, Use")
    told = {"generation": {**generation, "temperature": 0.9}}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings=told))
    assert (top_k.lineEdit().text(), stops.text()) == ("1", "END, Use")
    assert page.engine_control("generation.temperature").value() == 0.9


def test_instructions_that_are_refused_stay_to_be_mended(window, client, qtbot):
    page = window.go_to("settings")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"generation": {"instructions": ""}}))
    field = page.engine_control("generation.instructions")
    field.setPlainText("Too long. " * 1000)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    client.refuse(protocol.SETTINGS_SET, "That is too long.")
    assert field.toPlainText() == "Too long. " * 1000
    assert window.message_bar.sentence == "That is too long."


def test_until_the_engine_tells_its_settings_they_cannot_be_changed(window):
    page = window.go_to("settings")
    assert not page.engine_control("generation.temperature").isEnabled()


ALL_SETTINGS = {
    "generation": {
        "temperature": 0.3, "max_answer_tokens": 256, "max_context": 4096, "parallel_answers": 4,
        "kv_ram_bytes": None, "kv_disk_bytes": 2**30, "read_ahead": None, "refresh": "off",
    },
    "retrieval": {"passages": 4, "index_mode": "resident"},
    "library": {
        "watch": True, "rescan_minutes": 10.0, "ocr_languages": ["eng"],
        "max_file_bytes": 2**29, "max_chunks_per_document": 50_000,
    },
    "embedder": {"model": "e5-small"},
    "models": {"folder": ""},
    "memory": {"index_budget_bytes": None},
}  # fmt: skip


def full_settings_page(window, client):
    page = window.go_to("settings")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=ALL_SETTINGS))
    return page


def test_long_answers_can_be_refreshed(window, client, qtbot):
    page = full_settings_page(window, client)
    choice = page.engine_control("generation.refresh")
    assert choice.currentData() == "off"
    choice.setCurrentIndex(choice.findData("auto"))
    choice.activated.emit(choice.currentIndex())
    qtbot.waitUntil(lambda: len(client.asked(protocol.SETTINGS_SET)) == 1)
    assert client.asked(protocol.SETTINGS_SET)[0].changes == {"generation.refresh": "auto"}


def test_settings_that_the_engine_does_not_know_are_not_offered(window, client):
    page = settings_page(window, client)
    assert page.shows("retrieval.passages")
    assert not page.shows("library.watch")
    assert not page.shows("embedder.model")
    assert not page.shows("memory.index_budget_bytes")


def test_how_folders_are_watched_and_where_the_index_is_can_be_changed(window, client, qtbot):
    page = full_settings_page(window, client)
    assert all(page.shows(name) for name in ("library.watch", "retrieval.index_mode", "memory.index_budget_bytes"))
    page.engine_control("library.watch").click()
    page.engine_control("library.rescan_minutes").setValue(0)
    mode = page.engine_control("retrieval.index_mode")
    mode.setCurrentIndex(mode.findData("on_disk"))
    mode.activated.emit(mode.currentIndex())
    page.engine_control("memory.index_budget_bytes").setValue(1.5)
    languages = page.engine_control("library.ocr_languages")
    languages.setText("eng, deu chi_sim")
    languages.editingFinished.emit()
    qtbot.waitUntil(lambda: len(client.asked(protocol.SETTINGS_SET)) == 5)
    changes = {name: value for wanted in client.asked(protocol.SETTINGS_SET) for name, value in wanted.changes.items()}
    assert changes == {
        "library.watch": False,
        "library.rescan_minutes": 0,
        "retrieval.index_mode": "on_disk",
        "memory.index_budget_bytes": 3 * 2**29,
        "library.ocr_languages": ("eng", "deu", "chi_sim"),
    }


def test_how_large_a_file_may_be_can_be_changed(window, client, qtbot):
    page = full_settings_page(window, client)
    file, passages = (page.engine_control(f"library.max_{what}") for what in ("file_bytes", "chunks_per_document"))
    assert (file.text(), passages.text()) == ("0.50 GiB", "50,000")
    file.stepUp()
    passages.stepUp()
    qtbot.waitUntil(lambda: len(client.asked(protocol.SETTINGS_SET)) == 2)
    changes = {name: value for wanted in client.asked(protocol.SETTINGS_SET) for name, value in wanted.changes.items()}
    assert changes == {"library.max_file_bytes": 3 * 2**28, "library.max_chunks_per_document": 60_000}


def test_what_has_no_value_says_what_that_means(window, client, qtbot):
    page = full_settings_page(window, client)
    assert page.engine_control("memory.index_budget_bytes").text() == "automatic"
    page.engine_control("library.rescan_minutes").setValue(0)
    assert page.engine_control("library.rescan_minutes").text() == "never"
    page.engine_control("library.ocr_languages").editingFinished.emit()
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert [list(wanted.changes) for wanted in client.asked(protocol.SETTINGS_SET)] == [["library.rescan_minutes"]]


def test_what_was_set_elsewhere_is_shown_as_it_is_though_it_cannot_be_chosen_here(window, client, qtbot):
    page = window.go_to("settings")
    tables = {
        "generation": {"max_context": 262_144, "temperature": 3.0},
        "library": {"rescan_minutes": 0.4},
        "server": {"enabled": True, "port": 0, "needs_key": True, "key": "secret"},
        "memory": {"index_budget_bytes": 0},
    }
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=tables))
    names = (
        "generation.max_context", "generation.temperature", "library.rescan_minutes", "server.port",
        "memory.index_budget_bytes",
    )  # fmt: skip
    shown = [page.engine_control(name).text() for name in names]
    assert shown == ["262,144", "3.00", "0.4 min", "0", "0.00 GiB"]
    page.engine_control("generation.max_context").stepDown()
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"generation.max_context": 261_120}]


def test_what_is_kept_of_reading_is_bounded_or_left_to_the_engine(window, client, qtbot):
    page = full_settings_page(window, client)
    memory, disk = (page.engine_control(f"generation.kv_{tier}_bytes") for tier in ("ram", "disk"))
    assert (memory.text(), disk.text()) == ("automatic", "1.00 GiB")
    disk.setValue(0)
    memory.setValue(0.5)
    ahead = page.engine_control("generation.read_ahead")
    assert ahead.currentText() == "Automatic"
    ahead.setCurrentIndex(2)
    ahead.activated.emit(2)
    page.engine_control("generation.parallel_answers").setValue(2)
    qtbot.waitUntil(lambda: len(client.asked(protocol.SETTINGS_SET)) == 4)
    changes = {name: value for wanted in client.asked(protocol.SETTINGS_SET) for name, value in wanted.changes.items()}
    assert changes == {
        "generation.kv_disk_bytes": 0,
        "generation.kv_ram_bytes": 2**29,
        "generation.read_ahead": False,
        "generation.parallel_answers": 2,
    }


def test_another_embedding_model_is_chosen_after_its_price_was_told(window, client):
    page = full_settings_page(window, client)
    assert page.embedder_name.text() == "Now: e5-small"
    page.embedder.click()
    (dialog,) = page.findChildren(EmbedderDialog)
    words = " ".join(label.text() for label in dialog.findChildren(type(page.subtitle)))
    assert "re-indexed in the background" in words
    assert not dialog.use.isEnabled()
    dialog.field.setText("/models/multilingual")
    dialog.use.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"embedder.model": "/models/multilingual"}
    page.embedder.click()
    page.findChildren(EmbedderDialog)[-1].use_none.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"embedder.model": ""}


def test_the_folder_of_models_is_chosen_and_the_usual_one_taken_again(window, client, ragdoll_home, tmp_path):
    page = full_settings_page(window, client)
    assert page.models_folder_name.text() == f"Now: {ragdoll_home / 'data' / 'models'}"
    assert not page.usual_models_folder.isVisibleTo(page)
    page.models_folder.click()
    (dialog,) = page.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path)])
    dialog.reject()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"models.folder": str(tmp_path)}
    tables = {**ALL_SETTINGS, "models": {"folder": str(tmp_path)}}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings=tables))
    assert page.models_folder_name.text() == f"Now: {tmp_path}"
    page.usual_models_folder.setFocus()
    page.usual_models_folder.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"models.folder": ""}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings=ALL_SETTINGS))
    assert not page.usual_models_folder.isVisibleTo(page)
    assert window.focusWidget() is page.models_folder


def test_where_models_come_from_is_changed_and_an_address_that_is_none_refused(window, client, qtbot):
    page = window.go_to("settings")
    tables = {**ALL_SETTINGS, "models": {"folder": "", "hub": "https://huggingface.co"}}
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=tables))
    assert page.shows("models.hub")
    field = page.engine_control("models.hub")
    assert field.text() == "https://huggingface.co"
    assert field.minimumWidth() < field.maximumWidth()
    field.setFocus()
    field.setText("ftp://mirror")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"models.hub": "ftp://mirror"}
    client.refuse(protocol.SETTINGS_SET, "'ftp://mirror' is no address of a hub.")
    assert window.message_bar.sentence == "'ftp://mirror' is no address of a hub."
    # What is shown is what is asked.
    assert field.text() == "https://huggingface.co"
    field.setText(" mirror.example ")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(client.asked(protocol.SETTINGS_SET)) == 2)
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"models.hub": "mirror.example"}


def test_as_many_answers_are_asked_for_as_the_settings_say(window, models, client):
    page = window.go_to("settings")
    page.answers_per_question.setValue(3)
    assert models.settings.settings.answers_per_question == 3
    models.conversation.ask("How?")
    assert client.asked(protocol.ASK)[-1].num_answers == 3
    models.settings.change(answers_per_question=1)
    assert page.answers_per_question.value() == 1


def test_theme_and_text_size_take_effect_at_once(window, models):
    page = window.go_to("settings")
    page.theme_choice.activated.emit(page.theme_choice.findData("dark"))
    page.font_size.setValue(120)
    assert (models.settings.settings.theme, models.settings.settings.font_scale) == ("dark", 1.2)


def test_the_language_is_chosen_for_the_next_start(window, models):
    page = window.go_to("settings")
    choices = [page.language.itemText(row) for row in range(page.language.count())]
    assert choices == ["System default", "English", "简体中文"]
    assert page.language.currentText() == "System default"
    assert "restarted" in page.language.accessibleDescription()
    page.language.activated.emit(page.language.findData("zh_CN"))
    assert models.settings.settings.language == "zh_CN"
    assert page.language.currentText() == "简体中文"
    models.settings.change(language="")
    assert page.language.currentText() == "System default"


def test_the_data_folder_is_shown_and_opened(window, monkeypatch, ragdoll_home):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    page = window.go_to("settings")
    next(b for b in page.findChildren(type(window.rail.new_chat)) if b.accessibleName() == "Show folder").click()
    assert opened == [str(ragdoll_home / "data")]


# --- the status line ---


def test_the_status_line_says_what_the_engine_does_and_what_is_held(window, client):
    client.tell(protocol.IndexProgress(documents_done=1, documents_total=4, chunks_done=3))
    assert window.status_line.sentence == "Indexing 25 %"
    client.tell(snapshot(SPAN))
    assert "GPU 0 4.0 GiB" in shown_words(window.status_line)
