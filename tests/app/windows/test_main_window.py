"""Tests for app.windows.main_window."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QMessageBox, QStyleOptionViewItem, QWidget

from app import theme
from app.chats import ChatStore
from app.models import AppModels
from app.models.open_chat import Choices
from app.settings import SettingsStore
from app.widgets.prompt_edit import MAX_CHARACTERS
from app.widgets.prose import Prose
from app.windows import closing
from app.windows.command_palette import Command, CommandPalette, matching
from app.windows.commands import commands_of
from app.windows.main_window import MainWindow
from app.windows.shortcuts_dialog import ShortcutsDialog
from app.windows.text_size import stepped
from engine import protocol
from engine.protocol import Answer, Collection, RagdollError, Scope
from tests.helpers.answers import finished
from tests.helpers.scripted_memory import Machine, snapshot
from tests.helpers.shown_values import passage, quote

PLACES = ("chats", "every-file", "library", "memory", "models", "settings")
CTRL = Qt.KeyboardModifier.ControlModifier


def ask(models, client, question: str = "Why?") -> str:
    models.conversation.ask(question)
    return models.conversation.turns[-1].turn_id


def finish(client, turn_id: str, text: str = "Because. [1]") -> None:
    found = {"passages": (passage(1), passage(2)), "quotes": (quote(0),), "scope": Scope(2, 9, 2)}
    timings = protocol.Timings(
        queued_s=0, retrieval_s=0, prefill_s=0, ttft_s=0, total_s=0, prompt_tokens=0, generated_tokens=0
    )
    answer = Answer(text=text, citations=(), model="tiny", finish_reason="stop", **found)
    client.tell(protocol.AnswerFound(question_id=turn_id, **found))
    client.tell(protocol.AnswerFinished(question_id=turn_id, answer=answer, timings=timings))


def test_the_window_is_painted_before_anything_heavy_is_imported():
    script = """if True:
        import sys
        from PySide6.QtWidgets import QApplication
        application = QApplication([])
        from app.windows.main_window import MainWindow
        window = MainWindow()
        window.show()
        application.processEvents()
        heavy = ("markdown_it", "pygments", "numpy", "pydantic", "engine.protocol", "torch", "lancedb", "llama_cpp")
        print([name for name in heavy if name in sys.modules])
    """
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "[]"


def test_without_models_the_window_is_whole_and_does_nothing(qtbot):
    window = MainWindow()
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    for place in PLACES:
        window.go_to(place)
    window.chat_actions.new_chat()
    window.chat.stop()
    window.chat.regenerate()
    assert window.chat.isVisible()


def test_a_place_gone_to_before_models_came_is_shown_when_they_come(qtbot, models):
    window = MainWindow()
    qtbot.addWidget(window)
    window.go_to("library")
    window.attach(models)
    window.show()
    assert window.page("library").isVisible()


def test_pages_are_made_when_they_are_first_gone_to(window):
    assert window._pages == {}
    library = window.go_to("library")
    window.go_to("chats")
    assert window.go_to("library") is library


@pytest.mark.parametrize("place", PLACES)
def test_the_rail_goes_to_every_place_and_marks_it(window, place):
    window.rail.buttons[place].click()
    assert window.place == place
    assert [name for name, button in window.rail.buttons.items() if button.isChecked()] == [place]


# --- accessibility ---


def unnamed(root: QWidget) -> list[str]:
    """Widgets that can have the keyboard but no name to be read out."""
    return [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parentWidget()).__name__}"
        for widget in root.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not widget.accessibleName()
        and not (isinstance(widget, QLabel) and not widget.text())  # says nothing, so shows nothing
        and not (hasattr(widget, "text") and widget.text())
        and not widget.objectName().startswith("qt_")
    ]


@pytest.mark.parametrize("place", PLACES)
def test_everything_that_can_have_the_keyboard_has_a_name(window, models, client, place):
    client.tell(protocol.IndexProgress(documents_done=1, documents_total=2, chunks_done=3))
    finish(client, ask(models, client), "Text [1]\n\n```python\nx = 1\n```")
    page = window.go_to(place)
    fill(client)
    QApplication.processEvents()
    assert unnamed(page) == []
    assert unnamed(window.rail) == []
    assert unnamed(window.status_line) == []


def fill(client) -> None:
    """Gives models and collections to whoever asked for them."""
    entries = (protocol.ModelEntry(path="/m/a.gguf", name="A", num_layers=4, fit="Fits."),)
    replies = {
        protocol.MODELS.name: protocol.ModelsReply(models=entries, current="/m/a.gguf"),
        protocol.LIBRARY.name: protocol.LibraryReply(
            collections=(Collection("Documents", ("/docs",), {"indexed": 2}, 6),), disk_bytes=1, num_documents=2
        ),
        protocol.SETTINGS_GET.name: protocol.SettingsReply(
            settings={
                "generation": {"temperature": 0.2},
                "memory": {f"{tier}_budget_bytes": None for tier in ("gpu", "ram", "disk")} | {"may_lose": False},
            }
        ),
    }
    client.become_ready()
    client.tell(protocol.MemorySnapshot(memory=snapshot(Machine(), 45)))
    for request in [request for request in client.open if request.method.name in replies]:
        client.answer(request.method, replies[request.method.name])


def test_no_label_interprets_what_it_shows(window, models, client):
    finish(client, ask(models, client, "<b>bold?</b>"))
    for place in PLACES:
        window.go_to(place)
    rich = [
        label.text()
        for label in window.findChildren(QLabel)
        if label.text() and label.textFormat() != Qt.TextFormat.PlainText
    ]
    assert rich == []


# --- a conversation in the window ---


def test_a_question_is_asked_and_its_answer_streams(window, models, client):
    window.chat.prompt.set_text("What notice period applies?")
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    (asked,) = client.asked(protocol.ASK)
    assert asked.text == "What notice period applies?"
    client.tell(protocol.AnswerTokens(question_id=asked.question_id, text="Three "))
    client.tell(protocol.AnswerTokens(question_id=asked.question_id, text="months."))
    view = window.chat.conversation.widget_of(asked.question_id)
    view.markdown.finish()
    assert view.markdown.text == "Three months."
    assert view.markdown.block_views()[0].toPlainText() == "Three months."
    finish(client, asked.question_id, "Three months. [1]")
    assert view.state_sentence == ""
    assert not models.conversation.is_answering


def test_a_model_thinks_before_it_answers(window, models, client):
    turn_id = ask(models, client)
    client.tell(protocol.AnswerThoughts(question_id=turn_id, text="They ask "))
    client.tell(protocol.AnswerThoughts(question_id=turn_id, text="for a period."))
    view = window.chat.conversation.widget_of(turn_id)
    assert (view.thoughts.thoughts, view.markdown.text) == ("They ask for a period.", "")
    assert view.state_sentence == "Thinking…"
    client.tell(protocol.AnswerTokens(question_id=turn_id, text="Three months."))
    assert view.state_sentence == "Writing…"
    client.tell(finished(turn_id, "Three months. [1]", thoughts="They ask for a period."))
    assert view.thoughts.title == "Thoughts"
    conversation_id = models.conversation.conversation_id
    models.conversation.new_chat()
    models.conversation.open(conversation_id)
    assert models.conversation.turns[0].thoughts == "They ask for a period."


def test_an_answer_that_was_cut_off_is_continued_with_a_click(window, models, client):
    fill(client)
    turn_id = ask(models, client)
    client.tell(finished(turn_id, "Three ", finish_reason="length"))
    view = window.chat.conversation.widget_of(turn_id)
    assert view.outcome.go_on.accessibleName() == "Continue"
    view.outcome.go_on.setFocus()
    QTest.keyClick(view.outcome.go_on, Qt.Key.Key_Space)
    assert client.asked(protocol.ASK)[-1].unfinished.text == "Three "
    # The button has gone, and what is said next is typed.
    assert (view.outcome.isVisible(), window.focusWidget()) == (False, window.chat.prompt.field)
    client.tell(protocol.AnswerState(question_id=turn_id, state="writing"))
    assert view.state_sentence == "Writing…"
    client.tell(protocol.AnswerTokens(question_id=turn_id, text="months."))
    client.tell(finished(turn_id, "Three months. [1]"))
    assert window.chat.conversation.turn_views() == (view,)
    assert view.markdown.text == "Three months. [1]"
    assert not view.outcome.isVisible()


def test_where_quotes_answer_nothing_is_continued(window, models, client):
    fill(client)
    turn_id = ask(models, client)
    client.tell(finished(turn_id, "Three ", finish_reason="length"))
    view = window.chat.conversation.widget_of(turn_id)
    assert view.outcome.go_on.isVisible()
    models.chat_model.use_none()
    assert not view.outcome.go_on.isVisible()


def test_a_click_on_the_citation_selects_the_source_and_shows_its_page(window, models, client, qtbot):
    turn_id = ask(models, client)
    finish(client, turn_id, "Three months [2].")
    prose = window.chat.conversation.widget_of(turn_id).markdown.block_views()[0]
    assert isinstance(prose, Prose)
    QApplication.processEvents()
    (chip,) = prose.citation_rects()
    QTest.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=chip.center().toPoint())
    (asked,) = client.asked(protocol.PAGE)
    assert asked.document_id == 2
    client.answer(
        protocol.PAGE,
        protocol.PageReply(document="/docs/file-2.md", page=None, num_pages=0, text="marked", mark_end=6),
    )
    assert window.chat.sources.is_viewing
    assert window.chat.sources.viewer.text.toPlainText() == "marked"


def test_a_new_chat_is_empty_and_the_old_one_is_in_the_list(window, models, client):
    finish(client, ask(models, client, "First question?"))
    window.rail.new_chat.click()
    assert models.conversation.turns == []
    assert not window.chat.conversation.isVisible()
    index = window.chats.list.model().index(0, 0)
    assert index.data() == "First question?"
    window.chats.opened.emit(window.chats.id_at(index))
    assert [turn.question for turn in models.conversation.turns] == ["First question?"]


def test_sources_hidden_by_the_user_stay_hidden_until_a_source_is_wanted(window, models, client):
    turn_id = ask(models, client)
    finish(client, turn_id)
    assert window.chat.sources.isVisible()
    window.chat.sources.closed.emit()
    assert not window.chat.sources.isVisible()
    finish(client, ask(models, client))
    assert not window.chat.sources.isVisible()
    window.chat.conversation.selected.emit(turn_id)
    assert window.chat.sources.isVisible()


# --- shortcuts ---


def test_ctrl_n_opens_a_new_chat(window, models, client):
    finish(client, ask(models, client))
    window.go_to("memory")
    QTest.keyClick(window, Qt.Key.Key_N, CTRL)
    assert window.place == "chats"
    assert models.conversation.turns == []


def test_ctrl_comma_opens_the_settings(window):
    QTest.keyClick(window, Qt.Key.Key_Comma, CTRL)
    assert window.place == "settings"


def test_ctrl_b_folds_the_rail_and_remembers_it(window, models):
    QTest.keyClick(window, Qt.Key.Key_B, CTRL)
    assert window.rail.is_compact
    assert not models.settings.settings.is_sidebar_visible
    QTest.keyClick(window, Qt.Key.Key_B, CTRL)
    assert not window.rail.is_compact


def test_ctrl_l_goes_to_the_question(window):
    window.go_to("library")
    QTest.keyClick(window, Qt.Key.Key_L, CTRL)
    assert window.place == "chats"
    assert window.chat.prompt.field.hasFocus()


@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        # Where "+" is above "=".
        ([Qt.Key.Key_Plus, Qt.Key.Key_Equal], 1.2),
        ([Qt.Key.Key_Plus, *[Qt.Key.Key_Minus] * 2], 0.9),
        ([Qt.Key.Key_Minus, Qt.Key.Key_0], 1.0),
    ],
)
def test_text_is_made_larger_and_smaller_by_keys_all_of_them_at_once(window, models, qtbot, keys, scale):
    sizes = []
    models.settings.settings_changed.connect(lambda: sizes.append(models.settings.settings.font_scale))
    for key in keys:
        QTest.keyClick(window, key, CTRL)
    qtbot.waitUntil(lambda: not window.text_size._settling.isActive())
    assert models.settings.settings.font_scale == scale
    assert len(set(sizes)) <= 1


@pytest.mark.parametrize(
    ("scale", "steps", "then"),
    [(1.0, 1, 1.1), (1.15, 1, 1.2), (1.15, -1, 1.1), (2.5, 1, 2.5), (0.7, -1, 0.7), (2.45, 1, 2.5)],
)
def test_text_goes_to_the_next_step_within_bounds(scale, steps, then):
    assert stepped(scale, steps) == then


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_an_answer_that_ends_unseen_marks_the_window(window, models, client, monkeypatch, is_looked_at):
    marked = []
    monkeypatch.setattr(QApplication, "alert", lambda *window: marked.append(window))
    monkeypatch.setattr(window, "isActiveWindow", lambda: is_looked_at)
    turn_id = ask(models, client)
    assert not marked
    finish(client, turn_id)
    assert marked == ([] if is_looked_at else [(window,)])


def test_ctrl_slash_shows_every_shortcut(window):
    QTest.keyClick(window, Qt.Key.Key_Slash, CTRL)
    (dialog,) = window.findChildren(ShortcutsDialog)
    told = [label.text() for label in dialog.findChildren(QLabel)]
    assert all(shortcut.does in told for shortcut in window.shortcuts)
    dialog.accept()


def test_escape_stops_the_answer(window, models, client):
    turn_id = ask(models, client)
    QTest.keyClick(window, Qt.Key.Key_Escape)
    (cancelled,) = client.asked(protocol.CANCEL)
    assert cancelled.question_id == turn_id


def test_escape_closes_the_page_when_nothing_is_answered(window, models, client):
    finish(client, ask(models, client))
    window.chat.sources.open_passage(0)
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not window.chat.sources.is_viewing
    assert client.asked(protocol.CANCEL) == []


def test_ctrl_r_answers_the_last_question_again(window, models, client):
    finish(client, ask(models, client, "Again?"))
    QTest.keyClick(window, Qt.Key.Key_R, CTRL)
    assert [request.text for request in client.asked(protocol.ASK)] == ["Again?", "Again?"]
    assert models.conversation.turns[-1].num_branches == 2


@pytest.mark.parametrize("way", ["_retry", "regenerate", "more", "edit"])
def test_after_asking_again_the_keyboard_is_where_the_next_question_is_written(window, models, client, way):
    turn_id = ask(models, client)
    if way == "_retry":
        client.tell(protocol.AnswerFailed(question_id=turn_id, kind="NoCells", sentence="No room.", way_out="Wait."))
    else:
        finish(client, turn_id)
    shown = window.chat.conversation.widget_of(turn_id)
    if way == "edit":
        QTest.keyClick(shown.bubble._edit, Qt.Key.Key_Space)
        editor = shown.bubble._editor.field
        QTest.keyClicks(editor, " Or not?")
        QTest.keyClick(editor, Qt.Key.Key_Return)
    else:
        button = getattr(shown.outcome if way == "_retry" else shown, way)
        button.setFocus()
        QTest.keyClick(button, Qt.Key.Key_Space)
    QApplication.processEvents()
    assert models.conversation.turns[-1].turn_id != turn_id
    assert window.focusWidget() is window.chat.prompt.field


def test_who_steps_through_branches_by_keyboard_stays_at_the_switch(window, models, client):
    for _ in range(3):
        finish(client, ask(models, client) if not models.conversation.turns else again(window, models))

    def shown():
        (view,) = window.chat.conversation.turn_views()
        return view

    shown().earlier.setFocus()
    QTest.keyClick(shown().earlier, Qt.Key.Key_Space)
    assert window.focusWidget() is shown().earlier
    QTest.keyClick(shown().earlier, Qt.Key.Key_Space)
    # There is none before the first.
    assert window.focusWidget() is shown().later


def test_the_sources_are_those_of_the_answer_that_one_goes_to(window, models, client):
    first = ask(models, client, "First?")
    finish(client, first)
    models.conversation.regenerate(first)
    again_id = models.conversation.turns[-1].turn_id
    finish(client, again_id)
    finish(client, ask(models, client, "Second?"))
    window.chat.sources.closed.emit()
    assert models.sources.turn_id == models.conversation.turns[-1].turn_id
    models.conversation.switch_branch(again_id, -1)
    assert models.sources.turn_id == first
    models.conversation.switch_branch(first, 1)
    assert [turn.question for turn in models.conversation.turns] == ["First?", "Second?"]
    assert models.sources.turn_id == again_id
    # Whoever has hidden them sees them no sooner.
    assert not window.chat.sources.isVisible()


@pytest.mark.parametrize("way", ["chat", "branch"])
def test_an_edited_question_that_was_not_asked_is_there_after_another_chat_or_branch_was_looked_at(
    window, models, client, way
):
    finish(client, ask(models, client, "First?"))
    chat_id = models.conversation.conversation_id
    if way == "branch":
        finish(client, again(window, models))
    turn_id = models.conversation.turns[-1].turn_id
    bubble = window.chat.conversation.widget_of(turn_id).bubble
    QTest.keyClick(bubble._edit, Qt.Key.Key_Space)
    QTest.keyClicks(bubble._editor.field, " Or not?")
    if way == "branch":
        models.conversation.switch_branch(turn_id, -1)
        models.conversation.switch_branch(models.conversation.turns[-1].turn_id, 1)
    else:
        models.conversation.new_chat()
        window.chat_actions.open_chat(chat_id)
    shown = window.chat.conversation.widget_of(turn_id)
    assert shown.bubble._editor.text == "First? Or not?"
    shown.bubble._editor.field.setFocus()
    QTest.keyClick(shown.bubble._editor.field, Qt.Key.Key_Return)
    assert client.asked(protocol.ASK)[-1].text == "First? Or not?"


def test_an_edited_question_that_cannot_be_written_down_is_edited_on_where_it_stands(window, models, client):
    turn_id = ask(models, client, "First?")
    finish(client, turn_id)
    window.chat.prompt.set_text("And half of the ne")
    bubble = window.chat.conversation.widget_of(turn_id).bubble
    QTest.keyClick(bubble._edit, Qt.Key.Key_Space)
    QTest.keyClicks(bubble._editor.field, " Or not?")
    connection = models.conversation._store._connection
    connection.execute("PRAGMA query_only = ON")
    QTest.keyClick(bubble._editor.field, Qt.Key.Key_Return)
    assert (bubble.draft, window.chat.prompt.text) == ("First? Or not?", "And half of the ne")
    assert window.focusWidget() is bubble._editor.field
    connection.execute("PRAGMA query_only = OFF")
    QTest.keyClick(bubble._editor.field, Qt.Key.Key_Return)
    assert client.asked(protocol.ASK)[-1].text == "First? Or not?"


def again(window, models):
    window.chat.regenerate()
    return models.conversation.turns[-1].turn_id


def test_a_button_that_has_nothing_to_stop_any_more_leaves_the_keyboard_to_the_field(window, models, client):
    turn_id = ask(models, client)
    window.chat.prompt.button.setFocus()
    finish(client, turn_id)
    assert not window.chat.prompt.button.isEnabled()
    assert window.focusWidget() is window.chat.prompt.field


def test_f6_steps_through_the_panes_and_around(window, models, client):
    finish(client, ask(models, client))
    window.chat.prompt.setFocus()
    panes = (window.chat.sources, window.rail, window.chat.conversation, window.chat.prompt)
    for pane in panes:
        QTest.keyClick(window, Qt.Key.Key_F6)
        focused = QApplication.focusWidget()
        assert pane is focused or pane.isAncestorOf(focused)


def test_f6_goes_to_no_conversation_where_there_is_none(window):
    window.chat.prompt.setFocus()
    for pane in (window.rail, window.chat.prompt):
        QTest.keyClick(window, Qt.Key.Key_F6)
        assert pane.isAncestorOf(QApplication.focusWidget())


def test_from_the_question_one_pages_through_the_chat(window, models, client):
    finish(client, ask(models, client), "Words. [1] " * 600)
    QApplication.processEvents()
    view, field = window.chat.conversation, window.chat.prompt.field
    bar = view.verticalScrollBar()
    end = bar.value()
    assert end == bar.maximum() > bar.pageStep()
    QTest.keyClick(field, Qt.Key.Key_PageUp)
    assert bar.value() == end - bar.pageStep()
    QTest.keyClick(field, Qt.Key.Key_PageDown)
    assert bar.value() == end
    QTest.keyClick(field, Qt.Key.Key_Home, CTRL)
    assert bar.value() == 0
    QTest.keyClick(field, Qt.Key.Key_End, CTRL)
    assert bar.value() == end
    window.chat.prompt.set_text("Half a question")
    QTest.keyClick(field, Qt.Key.Key_Home, CTRL)
    assert bar.value() == end
    assert field.textCursor().atStart()


def test_from_among_the_sources_no_key_scrolls_the_chat(window, models, client):
    finish(client, ask(models, client), "Words. [1] " * 600)
    QApplication.processEvents()
    bar = window.chat.conversation.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    sources = window.chat.sources
    for pressed in (sources.panel.cards()[0], sources.viewer.picture, sources.viewer.text):
        if pressed is sources.viewer.picture:
            # The chat is narrower then, and longer.
            sources.open_passage(0)
            QApplication.processEvents()
        pressed.setFocus()
        for key, modifiers in ((Qt.Key.Key_Home, CTRL), (Qt.Key.Key_PageUp, Qt.KeyboardModifier.NoModifier)):
            QTest.keyClick(pressed, key, modifiers)
            assert bar.value() == bar.maximum()
    window.chat.prompt.setFocus()
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Home, CTRL)
    assert bar.value() == 0


def test_where_nothing_was_asked_the_keys_that_scroll_do_nothing(window):
    for key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
        QTest.keyClick(window.chat.prompt.field, key)
    assert window.focusWidget() is window.chat.prompt.field


def test_ctrl_k_finds_a_chat_and_opens_it(window, models, client):
    finish(client, ask(models, client, "The lease of the flat?"))
    window.chat_actions.new_chat()
    QTest.keyClick(window, Qt.Key.Key_K, CTRL)
    (palette,) = window.findChildren(CommandPalette)
    QTest.keyClicks(palette.field, "lease")
    assert palette.titles() == ["The lease of the flat?"]
    QTest.keyClick(palette.field, Qt.Key.Key_Return)
    assert [turn.question for turn in models.conversation.turns] == ["The lease of the flat?"]


def test_the_palette_puts_titles_that_begin_with_the_word_first(window, models):
    found = matching(commands_of(window, models), "theme")
    assert {command.title for command in found} == {"Light theme", "Dark theme", "System theme"}
    assert matching(commands_of(window, models), "go lib")[0].title == "Go to Library"


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_no_title_of_the_palette_runs_into_its_key(window, models, scale):
    theme.appearance().choose("light", scale)
    long = Command("Search " + "very " * 40 + "long", lambda: None, hint="Ctrl+Shift+K")
    palette = CommandPalette([long, Command("Short", lambda: None, hint="Ctrl+S")], window)
    palette.show()
    assert palette.width() <= window.width()
    assert palette.height() <= window.height()
    shown = []
    for row in range(2):
        index = palette.list.model().index(row, 0)
        option = QStyleOptionViewItem()
        palette.list.initViewItemOption(option)
        option.rect = palette.list.visualRect(index)
        palette.list.itemDelegate().initStyleOption(option, index)
        measured, hint = option.fontMetrics, index.data(Qt.ItemDataRole.AccessibleDescriptionRole)
        both = measured.horizontalAdvance(option.text) + measured.horizontalAdvance(hint)
        assert both + palette.list.iconSize().width() < option.rect.width()
        shown.append(option.text)
    assert shown[0].endswith("…")
    assert shown[1] == "Short"
    palette.close()


# --- what it remembers, and what goes wrong ---


def test_the_theme_follows_the_settings(window, models):
    models.settings.change(theme="dark")
    assert theme.current() is theme.DARK


def test_place_and_size_are_remembered(window, models, qtbot):
    window.resize(790, 600)  # offscreen, the screen is 800 pixels wide
    window.close()
    again = MainWindow()
    qtbot.addWidget(again)
    again.apply_settings(models.settings.settings)
    assert (again.width(), again.height()) == (790, 600)


def test_a_question_that_was_not_sent_stands_in_the_prompt_again(window, models, qtbot):
    window.chat.prompt.set_text("Which notice\n“applies”?")
    window.close()
    again = MainWindow()
    qtbot.addWidget(again)
    again.apply_settings(models.settings.settings)
    assert again.chat.prompt.text == "Which notice\n“applies”?"
    # What was typed before the models came stays.
    again.chat.prompt.set_text("Another one?")
    again.attach(models)
    assert again.chat.prompt.text == "Another one?"


def test_of_an_endless_question_that_was_not_sent_the_beginning_is_kept(window, models):
    window.chat.prompt.set_text("x" * (MAX_CHARACTERS + 1))
    window.close()
    assert models.settings.settings.unsent_question == "x" * MAX_CHARACTERS


def test_what_was_being_written_in_the_place_of_a_question_is_there_at_the_next_start(window, models, client, qtbot):
    turn_id = ask(models, client, "First?")
    finish(client, turn_id)
    bubble = window.chat.conversation.widget_of(turn_id).bubble
    QTest.keyClick(bubble._edit, Qt.Key.Key_Space)
    bubble._editor.set_text("First? Or “not”?")
    chat_id = models.conversation.conversation_id
    window.close()
    models.conversation.new_chat()
    again = MainWindow()
    qtbot.addWidget(again)
    again.attach(models)
    assert "conversation" in again.chat.__dict__
    # Also where that chat is not opened before it is closed again.
    again.close()
    once_more = MainWindow()
    qtbot.addWidget(once_more)
    once_more.attach(models)
    once_more.chat_actions.open_chat(chat_id)
    bubble = once_more.chat.conversation.widget_of(turn_id).bubble
    assert (bubble.draft, bubble.question) == ("First? Or “not”?", "First?")
    bubble._editor.set_text("First?")
    once_more.close()
    assert models.settings.settings.unsent_edits == ""


def test_what_was_being_typed_for_every_file_is_there_at_the_next_start(window, models, qtbot):
    window.go_to("every-file").question.setText("When does it end?")
    window.close()
    for _start in range(2):
        again = MainWindow()
        qtbot.addWidget(again)
        again.attach(models)
        # Also where nobody went to that page in between.
        again.close()
    last = MainWindow()
    qtbot.addWidget(last)
    last.attach(models)
    page = last.go_to("every-file")
    assert page.question.text() == "When does it end?"
    page.question.clear()
    last.close()
    assert models.settings.settings.unsent_for_every_file == ""


def edited(window, models, client, text):
    turn_id = ask(models, client, "First?")
    finish(client, turn_id)
    bubble = window.chat.conversation.widget_of(turn_id).bubble
    QTest.keyClick(bubble._edit, Qt.Key.Key_Space)
    bubble._editor.set_text(text)
    return bubble


def test_an_edit_that_was_sent_does_not_come_back_where_the_window_is_never_closed_in_order(window, models, client):
    bubble = edited(window, models, client, "First, 还是第二?")
    window.close()
    assert "还是第二" in models.settings.settings.unsent_edits
    QTest.keyClick(bubble._editor.field, Qt.Key.Key_Return)
    assert models.settings.settings.unsent_edits == ""


def test_an_edit_in_a_chat_that_was_deleted_is_not_kept(window, models, client):
    edited(window, models, client, "First and last?")
    models.chat_list.delete(models.conversation.conversation_id)
    assert models.conversation.conversation_id is None
    assert window.chat.edits != {}
    window.close()
    assert models.settings.settings.unsent_edits == ""


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '"a"'])
def test_edits_that_are_none_of_ours_are_none(text):
    assert closing.edits_in(text) == {}


def test_of_many_edits_the_newest_are_kept_and_of_endless_ones_the_beginning():
    edits = {str(number): "x" * (MAX_CHARACTERS + 1) for number in range(30)}
    kept = closing.edits_in(closing.as_text(edits))
    assert list(kept) == [str(number) for number in range(30 - closing.MOST_EDITS, 30)]
    assert set(map(len, kept.values())) == {MAX_CHARACTERS}


def on_full_disk(models):
    models.conversation._store._connection.execute("PRAGMA query_only = ON")


def test_a_window_whose_answers_are_not_on_the_disk_asks_before_it_closes(window, models, client):
    turn_id = ask(models, client)
    on_full_disk(models)
    finish(client, turn_id)
    assert not window.close()
    (box,) = window.findChildren(QMessageBox)
    assert "are lost" in box.informativeText()
    assert window.isVisible()
    box.button(QMessageBox.StandardButton.Cancel).click()
    models.conversation._store._connection.execute("PRAGMA query_only = OFF")
    # Now they are: nobody is asked.
    assert window.close()
    assert models.conversation._store.turns(models.conversation.conversation_id)[0].outcome.state == "finished"


def window_on(store, client, tmp_path, qtbot):
    models = AppModels(client, store, SettingsStore(tmp_path / "window.toml"), None, tmp_path / "pasted")
    window = MainWindow()
    qtbot.addWidget(window)
    window.attach(models)
    window.show()
    return window, models


def test_chats_that_are_not_kept_are_not_lost_without_a_question(client, tmp_path, qtbot):
    store = ChatStore.in_memory("No disk.")
    window, models = window_on(store, client, tmp_path, qtbot)
    finish(client, ask(models, client))
    assert not window.close()
    (box,) = window.findChildren(QMessageBox)
    assert box.informativeText().startswith("No disk. Export what you need. If you close")
    assert window.isVisible()
    next(button for button in box.buttons() if button.text() == "Close anyway").click()
    assert not window.isVisible()
    models.close()
    store.close()


def test_where_there_are_no_chats_that_could_be_lost_nobody_is_asked(client, tmp_path, qtbot):
    store = ChatStore.in_memory("No disk.")
    window, models = window_on(store, client, tmp_path, qtbot)
    models.each_file._store.create("Why?", (), [(1, "/docs/a.pdf")])
    assert isinstance(models.save(), protocol.RagdollError)
    models.each_file._store.delete(models.each_file._store.runs()[0].run_id)
    assert window.close()
    models.close()
    store.close()


def test_whoever_wants_to_lose_them_can_close_it_and_a_signal_asks_nobody(window, models, client):
    turn_id = ask(models, client)
    on_full_disk(models)
    finish(client, turn_id)
    window.close()
    (box,) = window.findChildren(QMessageBox)
    next(button for button in box.buttons() if button.text() == "Close anyway").click()
    assert not window.isVisible()


def test_a_window_that_cannot_keep_an_unsent_question_asks_before_it_closes(window, models, monkeypatch):
    def full(file: object, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    window.chat.prompt.set_text("Which notice applies?")
    with monkeypatch.context() as patches:
        patches.setattr("app.settings.write_atomically", full)
        assert not window.close()
    (box,) = window.findChildren(QMessageBox)
    assert "No space left on device" in box.informativeText()
    box.button(QMessageBox.StandardButton.Cancel).click()
    assert window.close()
    assert SettingsStore(models.settings._file).settings.unsent_question == "Which notice applies?"


@pytest.mark.parametrize(
    "chosen",
    [
        Choices(manner=protocol.Manner(instructions="In verse.")),
        Choices(protocol.Filters(paths=("/docs/na\udcefve.pdf",)), model="/m/na\udcefve.gguf"),
        Choices(protocol.Filters(formats=("pdf",), changed_since="2026-01-01", reads_question=False), searches=False),
    ],
)
def test_what_was_chosen_for_a_new_chat_is_there_at_the_next_start(client, store, tmp_path, qtbot, chosen):
    window, models = window_on(store, client, tmp_path, qtbot)
    models.conversation.choose(chosen)
    window.close()
    models.close()
    again, models = window_on(store, client, tmp_path, qtbot)
    assert models.conversation.unasked == chosen
    # Once it is asked, the next start begins as any other.
    ask(models, client)
    again.chat.prompt.submitted.emit("Why?")
    again.close()
    models.close()
    _, models = window_on(store, client, tmp_path, qtbot)
    assert models.conversation.unasked == Choices()
    models.close()


@pytest.mark.parametrize("text", ["{", "[1]", '{"filters": 1, "model": 2, "manner": 3, "searches": 4}', '"a"'])
def test_choices_that_are_none_of_ours_are_none(text):
    assert closing.choices_in(text) == Choices()


def test_on_a_very_wide_screen_the_sources_are_as_wide_as_is_remembered(window, models):
    window.chat.sources_width_changed.emit(4105)
    assert models.settings.settings.sources_width_px == 4000


def test_a_question_that_was_sent_does_not_come_back(window, models):
    models.settings.change(unsent_question="Why?")
    window.chat.take_back("Why?")
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    assert models.settings.settings.unsent_question == ""


def test_unsent_text_stays_with_its_chat_also_at_the_next_start(window, models, client, qtbot):
    prompt, chats = window.chat.prompt, window.chats.list.model()
    finish(client, ask(models, client, "First?"))
    first = models.conversation.conversation_id
    prompt.set_text("More of the first?")
    window.chat_actions.new_chat()
    assert prompt.text == ""
    assert chats.index(0, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) == "Unsent text"
    prompt.set_text("Something new?")
    window.chat_actions.open_chat(first)
    assert prompt.text == "More of the first?"
    assert chats.index(0, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) is None
    # Another branch is the same chat: not even the cursor moves.
    QTest.keyClick(prompt.field, Qt.Key.Key_Home)
    models.conversation.regenerate(models.conversation.turns[-1].turn_id)
    finish(client, models.conversation.turns[-1].turn_id)
    assert (prompt.text, prompt.field.textCursor().position()) == ("More of the first?", 0)
    window.close()

    models.conversation.new_chat()
    again = MainWindow()
    qtbot.addWidget(again)
    again.attach(models)
    assert again.chat.prompt.text == "Something new?"
    again.chat_actions.open_chat(first)
    assert again.chat.prompt.text == "More of the first?"
    # What is sent does not come back, even if this window is never closed properly; the other text does.
    QTest.keyClick(again.chat.prompt.field, Qt.Key.Key_Return)
    assert models.settings.settings.unsent_drafts == ""
    assert models.settings.settings.unsent_question == "Something new?"


def test_the_first_question_of_a_chat_takes_no_text_away(window, models, client):
    window.chat.prompt.set_text("Typed meanwhile")
    finish(client, ask(models, client, "First?"))
    assert window.chat.prompt.text == "Typed meanwhile"
    window.chat_actions.new_chat()
    assert window.chat.prompt.text == ""


def test_unsent_text_of_a_chat_that_was_deleted_is_not_kept(window, models, client):
    finish(client, ask(models, client, "First?"))
    window.chat.prompt.set_text("Precious?")
    models.chat_list.delete(models.conversation.conversation_id)
    assert window.chat.prompt.text == ""
    window.chats.bring_back()
    assert window.chat.prompt.text == "Precious?"
    models.chat_list.delete(models.conversation.conversation_id)
    window.close()
    assert (models.settings.settings.unsent_drafts, models.settings.settings.unsent_question) == ("", "")


@pytest.mark.parametrize("trouble", ["no disk", "copy", "no read"])
def test_unsent_text_stays_if_the_chats_cannot_be_read(client, store, tmp_path, qtbot, monkeypatch, trouble):
    window, models = window_on(store, client, tmp_path, qtbot)
    edited(window, models, client, "First, or last?")
    window.chat.prompt.set_text("Precious?")
    window.close()
    models.close()
    kept = models.settings.settings
    assert "Precious?" in kept.unsent_drafts
    assert "or last?" in kept.unsent_edits

    def refuse(*_: object) -> None:
        raise RagdollError("The disk is away.")

    session = ChatStore.in_memory("No disk.") if trouble == "no disk" else store
    if trouble == "copy":
        session = ChatStore.copy_of(tmp_path / "chats.sqlite", "It is write-protected.")
        session.delete(models.conversation.conversation_id)
    if trouble == "no read":
        monkeypatch.setattr(store, "conversations", refuse)
        monkeypatch.setattr(store, "kept_turns", refuse)
    again, models = window_on(session, client, tmp_path, qtbot)
    QTest.keyClicks(again.chat.prompt.field, "Now?")
    QTest.keyClick(again.chat.prompt.field, Qt.Key.Key_Return)
    again.close_whatever_is_lost()
    now = models.settings.settings
    assert (now.unsent_drafts, now.unsent_edits) == (kept.unsent_drafts, kept.unsent_edits)
    models.close()


def test_a_first_question_that_cannot_be_saved_stays_with_its_chat(window, models, store, monkeypatch):
    models.conversation.ask("Another?")
    other = models.conversation.conversation_id
    window.chat_actions.new_chat()

    def refuse(*_: object, **__: object) -> None:
        raise RagdollError("The disk is full.")

    with monkeypatch.context() as full:
        full.setattr(models._chat_store, "add_turn", refuse)
        QTest.keyClicks(window.chat.prompt.field, "Precious?")
        QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    made = models.conversation.conversation_id
    assert window.chat.prompt.text == "Precious?"
    assert models.chat_list.row_of(made) is not None
    window.chat_actions.open_chat(other)
    assert window._drafts.texts == {made: "Precious?"}
    window.chat_actions.new_chat()
    assert window.chat.prompt.text == ""
    window.chat_actions.open_chat(made)
    assert window.chat.prompt.text == "Precious?"


def test_earlier_questions_of_the_chat_are_recalled(window, models, client):
    finish(client, ask(models, client, "First?"))
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Up)
    assert window.chat.prompt.text == "First?"


def test_a_narrow_window_shows_icons_alone_and_a_wide_one_the_words_again(window):
    window.resize(900, 700)
    QApplication.processEvents()
    assert window.rail.is_compact
    window.resize(1280, 800)
    QApplication.processEvents()
    assert not window.rail.is_compact


def test_an_error_is_a_sentence_in_the_bar(window, models, client):
    models.library.pause()
    client.refuse(protocol.PAUSE, "Nothing is being indexed.")
    assert window.message_bar.isVisible()
    assert window.message_bar.sentence == "Nothing is being indexed."


def test_a_dead_engine_is_told_and_the_words_leave_once_it_is_back(window, client, monkeypatch, qtbot):
    monkeypatch.setattr("app.windows.notices.DEATH_SHOWN_S", 0.05)
    client.die("The engine ended unexpectedly.")
    assert window.message_bar.sentence == "The engine ended unexpectedly."
    client.become_ready()
    qtbot.waitUntil(lambda: not window.message_bar.isVisible())


def test_an_engine_that_gave_up_can_be_started_carefully(window, models, client):
    client.give_up("The engine ended three times.")
    # Whatever is tried meanwhile fails, which must not take the way out from the bar.
    models.library.request_failed.emit("The engine is not running.", "")
    assert window.message_bar.sentence == "The engine ended three times."
    # What has another reason is told afterwards.
    models.conversation.store_failed.emit("The disk is full.", "Make room.")
    models.library.request_failed.emit("The engine is not running.", "")
    assert window.message_bar.sentence == "The engine ended three times."
    window.message_bar._button.click()
    assert client.starts == ["start_carefully"]
    assert window.message_bar.sentence == "The disk is full."


def test_an_engine_that_was_started_carefully_loads_no_model_until_one_is_chosen(window, models, client):
    models.conversation.set_model("/m.gguf")
    models.conversation.ask("First?")
    client.give_up("The engine ended three times.")
    window.message_bar._button.click()
    client.become_ready()
    assert "started in safe mode" in window.message_bar.sentence
    models.conversation.ask("Second?")
    assert [asked.model for asked in client.asked(protocol.ASK)][-1] == "none"
    assert models.chat_model.path == ""
    # No model at all is not one that was chosen.
    models.chat_model.use_none()
    assert window.message_bar.isVisible()
    client.tell(protocol.Problem(sentence="engine.toml has a wrong value."))
    assert "started in safe mode" in window.message_bar.sentence
    models.conversation.set_model("/m.gguf")
    assert window.message_bar.sentence == "engine.toml has a wrong value."
    models.conversation.ask("Third?")
    assert [asked.model for asked in client.asked(protocol.ASK)][-1] == "/m.gguf"


def test_a_model_that_is_used_from_its_page_ends_carefulness_in_all_chats(models, client):
    models.conversation.be_careful(True)
    models.model_picker.use("/m.gguf")
    models.conversation.ask("Why?")
    assert client.asked(protocol.ASK)[-1].model != "none"


def test_an_engine_that_gave_up_and_was_started_all_the_same_is_no_news_any_more(window, models, client):
    client.give_up("The engine ended three times.")
    models.start_as_usual()
    client.become_ready()
    assert not window.message_bar.isVisible()


def test_a_job_with_problems_leads_to_them(window, client):
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    client.tell(
        protocol.IndexFinished(
            indexed=3, unchanged=0, removed=0, skipped=(problem,), failed=(), chunks=9, seconds=1.0
        )
    )  # fmt: skip
    assert "3" in window.message_bar.sentence
    fill(client)
    window.message_bar._button.click()
    assert window.place == "library"
    assert window.page("library").documents.filter_buttons["problems"].isChecked()
    assert client.asked(protocol.DOCUMENTS)[-1].states == ("skipped", "failed")


def test_problems_are_told_when_they_are_new_and_not_at_every_look(window, client):
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    look = protocol.IndexFinished(
        indexed=0, unchanged=7, removed=0, skipped=(problem,), failed=(), chunks=0, seconds=1.0
    )  # fmt: skip
    client.tell(look)
    assert not window.message_bar.isVisible()
    another = protocol.DocumentProblem(path="/docs/b.pdf", reason="It is cut short.")
    client.tell(look.model_copy(update={"failed": (another,)}))
    assert window.message_bar.sentence == "2 files could not be indexed."
    window.message_bar.clear()
    client.tell(look.model_copy(update={"failed": (another,)}))
    assert not window.message_bar.isVisible()


def test_problems_that_are_too_many_to_be_named_are_counted_and_told_when_they_become_more(window, client):
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="It needs a password.")
    look = protocol.IndexFinished(
        indexed=1, unchanged=7, removed=0, skipped=(problem,), failed=(), chunks=0, seconds=1.0, num_more=1999
    )  # fmt: skip
    client.tell(look)
    assert window.message_bar.sentence == "1 file was indexed, 2,000 were not."
    window.message_bar.clear()
    client.tell(look)
    assert not window.message_bar.isVisible()
    client.tell(look.model_copy(update={"num_more": 2000}))
    assert window.message_bar.sentence == "1 file was indexed, 2,001 were not."


def test_a_problem_that_was_seen_to_is_not_told_any_longer(window, client):
    problem = protocol.DocumentProblem(path="/docs/a.pdf", reason="The password does not open it.")
    nothing = protocol.IndexFinished(indexed=0, unchanged=0, removed=0, skipped=(), failed=(), chunks=0, seconds=1.0)
    client.tell(nothing.model_copy(update={"skipped": (problem,)}))
    assert window.message_bar.sentence == "1 file could not be indexed."
    assert window.message_bar._button.text() == "Show it"
    client.tell(nothing.model_copy(update={"unchanged": 3}))
    assert window.message_bar.isVisible()

    client.tell(nothing.model_copy(update={"indexed": 1}))

    assert not window.message_bar.isVisible()


def test_a_job_without_problems_says_nothing(window, client):
    client.tell(protocol.IndexFinished(indexed=3, unchanged=0, removed=0, skipped=(), failed=(), chunks=9, seconds=1.0))
    assert not window.message_bar.isVisible()


def test_the_chat_is_exported_to_the_chosen_file(window, models, client, tmp_path):
    finish(client, ask(models, client, "Exported?"), "Yes. [1]")
    window.chat_actions.export_chat()
    (dialog,) = window.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(tmp_path / "chat.md")])
    dialog.close()
    assert "Yes. [1]" in (tmp_path / "chat.md").read_text()


def test_an_export_that_fails_leaves_the_earlier_one_as_it_is(window, models, client, tmp_path, monkeypatch):
    finish(client, ask(models, client))
    file = tmp_path / "exports" / "chat.md"
    file.parent.mkdir()
    file.write_text("An earlier one.")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    window.chat_actions._export_to((str(file),), models.conversation.conversation_id)
    assert "could not be written" in window.message_bar.sentence
    assert [(one.name, one.read_text()) for one in file.parent.iterdir()] == [("chat.md", "An earlier one.")]


def test_a_question_that_cannot_be_written_down_is_still_there(window, models, client):
    finish(client, ask(models, client))
    connection = models.conversation._store._connection
    connection.execute("PRAGMA query_only = ON")
    window.chat.prompt.set_text("What notice period applies?")
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    assert window.chat.prompt.text == "What notice period applies?"
    assert len(client.asked(protocol.ASK)) == 1
    connection.execute("PRAGMA query_only = OFF")
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    assert window.chat.prompt.text == ""
    assert client.asked(protocol.ASK)[-1].text == "What notice period applies?"


def test_an_answer_goes_on_where_what_is_to_replace_it_cannot_be_written_down(window, models, client):
    turn_id = ask(models, client)
    models.conversation._store._connection.execute("PRAGMA query_only = ON")
    models.conversation.edit(turn_id, "Something else?")
    assert client.asked(protocol.CANCEL) == []
    assert window.chat.conversation.widget_of(turn_id).bubble.draft == "Something else?"


def test_on_other_pages_the_shortcuts_of_a_chat_do_nothing(window, models, client):
    ask(models, client)
    window.go_to("library")
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert client.asked(protocol.CANCEL) == []
    assert models.conversation.is_answering
    window.go_to("chats")
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert len(client.asked(protocol.CANCEL)) == 1


def test_a_problem_of_the_settings_is_told_once(window, models, tmp_path):
    (tmp_path / "window.toml").unlink(missing_ok=True)
    (tmp_path / "window.toml").mkdir()
    models.settings.change(last_collection="Contracts")
    assert "window.toml cannot be written" in window.message_bar.sentence
    window.message_bar.show_message("warning", "Something newer.")
    models.settings.settings_changed.emit()
    assert window.message_bar.sentence == "Something newer."


def test_an_export_that_fails_is_told(window, models, client, tmp_path):
    finish(client, ask(models, client))
    window.chat_actions._export_to((str(tmp_path / "no such folder" / "chat.md"),), models.conversation.conversation_id)
    assert "could not be written" in window.message_bar.sentence


def test_a_chat_renamed_in_the_list_names_the_window(window, models, client):
    finish(client, ask(models, client, "Old?"))
    model = window.chats.list.model()
    model.setData(model.index(0, 0), "New title", Qt.ItemDataRole.EditRole)
    assert window.windowTitle().startswith("New title")


def test_a_chat_is_marked_while_an_answer_is_written_in_it(window, models, client):
    def described() -> list[str | None]:
        model = window.chats.list.model()
        return [model.index(n, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) for n in range(model.rowCount())]

    def icon():
        return window.chats.list.model().index(0, 0).data(Qt.ItemDataRole.DecorationRole)

    first = ask(models, client, "First?")
    assert described() == ["An answer is being written"]
    assert icon() is not None
    models.conversation.new_chat()
    second = ask(models, client, "Second?")
    finish(client, second)
    assert described() == [None, "An answer is being written"]
    models.chat_list.set_pinned(models.chat_list.index(1).data(models.chat_list.ID_ROLE), True)
    assert described() == ["An answer is being written, Pinned", None]
    finish(client, first)
    assert described() == ["Pinned", None]


def test_a_deleted_chat_can_be_brought_back(window, models, client):
    finish(client, ask(models, client, "Precious?"))
    index = window.chats.list.model().index(0, 0)
    window.chats.list.setCurrentIndex(index)
    QTest.keyClick(window.chats.list, Qt.Key.Key_Delete)
    assert window.chats.list.model().rowCount() == 0
    assert models.conversation.turns == []
    window.chats.undo.button.click()
    assert window.chats.list.model().rowCount() == 1
    assert not window.chats.undo.isVisible()


@pytest.fixture
def spoken(monkeypatch) -> list[str]:
    """What a screen reader is to say of the list of chats."""
    said: list[str] = []
    monkeypatch.setattr(
        "app.widgets.undo_bar.QAccessible.updateAccessibility", lambda event: said.append(event.message())
    )
    return said


def test_whoever_hears_that_a_chat_was_deleted_can_bring_it_back_at_any_time(window, models, client, spoken):
    finish(client, ask(models, client, "Precious?"))
    chats = window.chats
    chats.list.setFocus()
    chats.list.setCurrentIndex(chats.list.model().index(0, 0))
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    assert spoken[-1] == "“Precious?” deleted. Ctrl+Z restores it."
    chats.undo._timer.timeout.emit()
    assert not chats.undo.isVisible()
    QTest.keyClick(chats.list, Qt.Key.Key_Z, CTRL)
    assert [turn.question for turn in models.conversation.turns] == ["Precious?"]
    assert chats.list.model().rowCount() == 1
    # There is no other one.
    QTest.keyClick(chats.list, Qt.Key.Key_Z, CTRL)
    assert chats.list.model().rowCount() == 1
    assert not chats.undo.isVisible()


def test_the_palette_brings_a_deleted_chat_back(window, models, client):
    def offered() -> list[str]:
        return [command.title for command in matching(commands_of(window, models), "restore")]

    finish(client, ask(models, client, "Precious?"))
    assert offered() == []
    models.chat_list.delete(models.conversation.conversation_id)
    window.go_to("library")
    assert offered() == ["Restore “Precious?”"]
    matching(commands_of(window, models), "restore")[0].run()
    assert window.place == "chats"
    assert models.conversation.title == "Precious?"
    assert not window.chats.undo.isVisible()
    assert offered() == []


def test_each_chat_that_was_deleted_can_be_brought_back_the_last_one_first(window, models, client):
    for question in ("First?", "Second?", "Third?"):
        models.conversation.new_chat()
        finish(client, ask(models, client, question))
    chats, undo = window.chats, window.chats.undo
    chats.list.setFocus()
    chats.list.setCurrentIndex(chats.list.model().index(1, 0))
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    # The cursor stays in its place, whichever chat is open: the next Delete is not for that one.
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    assert [chats.list.model().index(row, 0).data() for row in range(chats.list.model().rowCount())] == ["Third?"]
    assert models.conversation.title == "Third?"
    assert undo.words.text() == "“First?” deleted"
    undo.button.click()
    assert undo.isVisible()
    assert undo.words.text() == "“Second?” deleted"
    undo.button.click()
    assert chats.list.model().rowCount() == 3
    assert not undo.isVisible()


def test_whoever_deletes_the_open_chat_by_the_keyboard_is_at_the_next_one(window, models, client):
    for question in ("First?", "Second?", "Third?"):
        models.conversation.new_chat()
        finish(client, ask(models, client, question))
    chats = window.chats
    chats.list.setFocus()
    assert chats.list.currentIndex().data() == models.conversation.title == "Third?"
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    assert models.conversation.turns == []
    assert chats.list.currentIndex().data() == "Second?"
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    assert chats.list.model().rowCount() == 1


def test_a_new_chat_is_no_chat_of_the_list(window, models, client):
    finish(client, ask(models, client, "First?"))
    window.chats.list.setFocus()
    QTest.keyClick(window, Qt.Key.Key_N, CTRL)
    assert not window.chats.list.currentIndex().isValid()


def test_the_open_chat_is_marked_again_when_the_keyboard_leaves_the_list(window, models, client):
    for question in ("First?", "Second?", "Third?"):
        models.conversation.new_chat()
        finish(client, ask(models, client, question))
    chats = window.chats
    chats.list.setFocus()
    chats.list.setCurrentIndex(chats.list.model().index(1, 0))
    QTest.keyClick(chats.list, Qt.Key.Key_Delete)
    assert chats.list.currentIndex().data() == "First?"
    window.chat.prompt.setFocus(Qt.FocusReason.TabFocusReason)
    assert chats.list.currentIndex().data() == models.conversation.title == "Third?"


def search_chats(window, text):
    window.chats.search.setText(text)
    QTest.keyClick(window.chats.search, Qt.Key.Key_Return)


def test_escape_ends_the_search_of_chats_then_leaves_it_and_stops_no_answer(window, models, client):
    ask(models, client, "Apples?")
    search = window.chats.search
    search.setFocus()
    search_chats(window, "pears")
    assert window.chats.list.model().rowCount() == 0
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert (search.text(), window.chats.list.model().rowCount()) == ("", 1)
    assert window.focusWidget() is search
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert window.focusWidget() is window.chat.prompt.field
    assert client.asked(protocol.CANCEL) == []
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Escape)
    assert len(client.asked(protocol.CANCEL)) == 1


def test_from_the_search_of_chats_one_comes_back_to_the_page_one_is_at(window):
    page = window.go_to("settings")
    window.chats.search.setFocus()
    QTest.keyClick(window.chats.search, Qt.Key.Key_Escape)
    assert window.place == "settings"
    assert window.focusWidget() is page.starting_point


def test_the_palette_finds_chats_that_the_list_is_not_searched_for(window, models, client):
    finish(client, ask(models, client, "Tax?"))
    first = models.conversation.conversation_id
    search_chats(window, "nothing of the kind")
    assert window.chats.list.model().rowCount() == 0
    assert any(command.title == "Tax?" for command in commands_of(window, models))
    assert models.chat_list.title_of(first) == "Tax?"


def test_a_pinned_chat_says_so(window, models, client):
    finish(client, ask(models, client))
    index = window.chats.list.model().index(0, 0)
    menu = window.chats.menu_for(index)
    next(action for action in menu.actions() if action.text() == "Pin").trigger()
    assert window.chats.list.model().index(0, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) == "Pinned"


def test_searching_chats_narrows_the_list(window, models, client):
    finish(client, ask(models, client, "Apples?"))
    window.chat_actions.new_chat()
    finish(client, ask(models, client, "Pears?"))
    search_chats(window, "apples")
    rows = window.chats.list.model()
    assert [rows.index(row, 0).data() for row in range(rows.rowCount())] == ["Apples?"]
    search_chats(window, "nothing like it")
    assert window.chats._nothing.text() == "No chat matches."


def test_an_empty_list_says_that_no_chat_matches_once_all_were_looked_through(
    window, models, client, qtbot, monkeypatch
):
    finish(client, ask(models, client, "Apples?"))
    search_chats(window, "nothing like it")
    monkeypatch.setattr("app.models.chat_list._STEP_S", 0.0)
    search_chats(window, "zz")
    assert window.chats._nothing.isVisible()
    assert window.chats._nothing.text() == "Searching…"
    qtbot.wait_until(lambda: window.chats._nothing.text() == "No chat matches.")
    search_chats(window, "ca")
    assert window.chats._nothing.text() == "Searching…"
    qtbot.wait_until(lambda: not window.chats._nothing.isVisible())
    assert window.chats.list.model().rowCount() == 1


def test_chats_are_searched_once_what_is_looked_for_is_written(window, models, qtbot, monkeypatch):
    searched: list[str] = []
    monkeypatch.setattr(models.chat_list, "set_filter", searched.append)
    for text in ("a", "ap", "app"):
        window.chats.search.setText(text)
    assert searched == []
    qtbot.wait_until(lambda: bool(searched))
    assert searched == ["app"]


def test_a_closed_window_leaves_no_timer_running(window, models, client, qtbot):
    ask(models, client)
    client.tell(protocol.IndexProgress(documents_done=1, documents_total=2, chunks_done=3))
    for place in PLACES:
        window.go_to(place)
    window.go_to("chats")
    assert any(timer.isActive() for timer in window.findChildren(QTimer))
    window.close()
    # Timers that fire once may do so; what repeats would never end.
    qtbot.waitUntil(lambda: not any(timer.isActive() for timer in window.findChildren(QTimer)))


@pytest.mark.parametrize(
    ("indexed", "problems", "sentence"),
    [(0, 1, "1 file could not be indexed."), (1, 1, "1 file was indexed, 1 was not."),
     (1, 2, "1 file was indexed, 2 were not."), (7, 1, "7 files were indexed, 1 was not."),
     (1200, 3, "1,200 files were indexed, 3 were not.")],
)  # fmt: skip
def test_what_could_not_be_indexed_is_counted_in_words(window, client, indexed, problems, sentence):
    found = tuple(protocol.DocumentProblem(path=f"/docs/{n}.pdf", reason="It is cut short.") for n in range(problems))
    client.tell(
        protocol.IndexFinished(
            indexed=indexed, unchanged=0, removed=0, skipped=(), failed=found, chunks=9, seconds=1.0
        )
    )  # fmt: skip
    assert window.message_bar.sentence == sentence
