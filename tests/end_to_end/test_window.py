"""The main job as a person does it: drop, wait, ask, read, click; with the real engine, and with the engine killed."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.main import Session
from app.settings import AppHome
from app.single_instance import SingleInstance
from app.widgets.quotes_card import QuoteLine
from engine import protocol
from tests.helpers.broken_gguf import cut
from tests.helpers.corpus import Corpus, write_corpus
from tests.helpers.drops import drop_on, mime_of
from tests.helpers.homes import NewHome
from tests.helpers.shared_data import SHARED_DATA
from tests.helpers.tiny_gguf import write_tiny_model

PATIENCE_MS = 180_000
QUESTION = "How do I share state between threads?"


class Person:
    """Someone in front of the window; waits with the patience of a test."""

    def __init__(self, session: Session, qtbot) -> None:
        self.session, self.qtbot, self.window = session, qtbot, session.window

    @property
    def models(self):
        return self.session.models

    @property
    def last_turn(self):
        return self.models.conversation.turns[-1]

    def waits_until(self, is_so: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(is_so, timeout=PATIENCE_MS)

    def drops(self, *paths: Path, over: QWidget) -> None:
        drop_on(self.window, over, mime_of(*paths))

    def waits_for_index(self, num_documents: int) -> None:
        def is_indexed() -> bool:
            states = [collection.documents_by_state for collection in self.models.library.collections]
            return sum(state.get("indexed", 0) for state in states) >= num_documents

        self.waits_until(is_indexed)

    def asks(self, text: str) -> None:
        self.window.go_to("chats")
        field = self.window.chat.prompt.field
        field.setFocus()
        QTest.keyClicks(field, text)
        QTest.keyClick(field, Qt.Key.Key_Return)

    def waits_for_end(self) -> None:
        self.waits_until(lambda: bool(self.models.conversation.turns) and self.last_turn.has_ended)

    def kills_the_engine(self) -> int:
        pid = self.session.models.client.engine_pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def waits_for_another_engine(self, than: int) -> None:
        client = self.models.client
        self.waits_until(lambda: client.engine_pid not in (None, than) and client.state == "ready")


@pytest.fixture
def person(qtbot, ragdoll_home: Path, new_home: NewHome) -> Iterator[Person]:
    new_home(ragdoll_home)
    home = AppHome.find()
    home.create()
    instance = SingleInstance(home.lock_file, home.socket_file)
    assert instance.claim()
    session = Session(home, instance, ())
    session.show()
    qtbot.waitUntil(lambda: session.models is not None, timeout=PATIENCE_MS)
    yield Person(session, qtbot)
    session.window.close()
    session.close()
    session.deleteLater()


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return write_corpus(tmp_path / "my documents")


def test_a_dropped_folder_is_indexed_a_question_answered_and_its_citation_opened(person: Person, corpus: Corpus):
    person.waits_until(lambda: person.window.chat.first_run.isVisible())
    person.drops(corpus.folder, over=person.window.chat.first_run)
    person.waits_for_index(len(corpus.files))

    person.asks(QUESTION)
    person.waits_for_end()
    turn = person.last_turn
    assert turn.state == "finished"
    assert turn.quotes
    assert turn.scope.files >= 1

    view = person.window.chat.conversation.turn_views()[-1]
    (quote, *_) = view.quotes.findChildren(QuoteLine)
    QTest.mouseClick(quote, Qt.MouseButton.LeftButton)
    viewer = person.window.chat.sources.viewer
    person.waits_until(lambda: viewer.reply is not None)
    cited = turn.passages[turn.quotes[0].passage]
    assert viewer.reply.document == cited.document
    assert viewer.reply.page == cited.page
    assert viewer.reply.marks or viewer.reply.text


def test_files_dropped_over_prompt_and_library_are_indexed_too(person: Person, corpus: Corpus):
    person.drops(corpus.files[0], over=person.window.chat.prompt.field.viewport())
    library = person.window.go_to("library")
    person.drops(corpus.files[2], over=library)
    person.waits_for_index(2)
    # The table's reply comes after the counts'.
    person.waits_until(lambda: person.models.library.documents.rowCount() == 2)


@pytest.mark.expects_warnings
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_question_about_a_file_that_was_just_dropped_waits_for_it_and_is_answered_from_it_alone(
    person: Person, corpus: Corpus, tmp_path: Path, is_killed: bool
):
    person.drops(corpus.folder, over=person.window.rail)
    person.waits_for_index(len(corpus.files))
    note = tmp_path / "note.md"
    note.write_text("# Threads\n\nTo share state between threads, I write letters to the harbour master.\n")

    person.drops(note, over=person.window.chat.prompt)
    person.asks(QUESTION)
    assert person.last_turn.state == "queued"
    if is_killed:
        person.waits_for_another_engine(than=person.kills_the_engine())
    person.waits_for_end()

    assert (person.last_turn.state, person.last_turn.error_sentence) == ("finished", "")
    assert {passage.document for passage in person.last_turn.passages} == {str(note)}


def test_an_attached_file_without_text_is_told_with_its_reason(person: Person, tmp_path: Path):
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    person.waits_until(lambda: person.window.chat.first_run.isVisible())
    person.models.attach((str(empty),))
    person.models.conversation.ask(QUESTION)
    person.waits_for_end()
    assert person.last_turn.state == "failed"
    assert person.last_turn.error_sentence.startswith("“empty.txt” could not be read: There is no text in the file.")


def test_with_a_model_the_answer_streams_and_a_source_opens_as_text(person: Person, corpus: Corpus, tmp_path: Path):
    person.drops(corpus.files[2], over=person.window.chat.hero)
    person.waits_for_index(1)
    person.models.model_picker.use(str(write_tiny_model(tmp_path / "tiny.gguf", never_ends=True)))
    person.waits_until(lambda: person.models.model_picker.state == "loaded")
    person.waits_until(lambda: "weights" in owners(person))
    pieces: list[str] = []
    person.models.conversation.text_appended.connect(lambda _turn, piece: pieces.append(piece))
    person.asks("When should garlic be planted?")
    person.waits_for_end()
    assert person.last_turn.state == "finished"
    assert person.last_turn.model == "tiny-llama"
    assert len(pieces) > 1
    assert "".join(pieces) == person.last_turn.text
    (card, *_) = person.window.chat.sources.panel.cards()
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    viewer = person.window.chat.sources.viewer
    person.waits_until(lambda: viewer.reply is not None)
    assert "garlic" in viewer.reply.text.lower()
    person.models.model_picker.use_none()
    person.waits_until(lambda: "weights" not in owners(person))


def owners(person: Person) -> set[str]:
    """Who holds bytes, as the Memory page knows it."""
    memory = person.models.memory.memory
    return {span.owner for tier in memory.tiers for span in tier.spans} if memory else set()


@pytest.mark.expects_warnings
def test_an_engine_killed_while_it_answers_is_told_restarted_and_nothing_shown_is_lost(
    person: Person, corpus: Corpus, tmp_path: Path
):
    person.drops(corpus.files[2], over=person.window.chat.hero)
    person.waits_for_index(1)
    model = write_tiny_model(tmp_path / "tiny.gguf", layers=8, dim=512, ff=1024, never_ends=True)
    person.models.model_picker.use(str(model))
    person.waits_until(lambda: person.models.model_picker.state == "loaded")
    told: list[str] = []
    person.models.client.engine_died.connect(told.append)

    person.asks("When should garlic be planted?")
    person.waits_until(lambda: bool(person.models.conversation.turns) and bool(person.last_turn.text))
    shown = person.last_turn.text
    pid = person.kills_the_engine()
    person.waits_for_end()
    person.waits_for_another_engine(than=pid)

    assert told
    assert person.last_turn.state == "failed"
    assert person.last_turn.text.startswith(shown)
    assert person.last_turn.error_sentence
    assert person.window.isVisible()
    lost = person.last_turn
    view = person.window.chat.conversation.turn_views()[-1]
    QTest.mouseClick(view.outcome.go_on, Qt.MouseButton.LeftButton)
    person.waits_until(lambda: person.last_turn.state == "finished")
    assert person.last_turn.text.startswith(lost.text)
    assert len(person.last_turn.text) > len(lost.text)
    assert (person.last_turn.turn_id, person.last_turn.passages) == (lost.turn_id, lost.passages)
    person.models.conversation.regenerate(person.last_turn.turn_id)
    person.waits_until(lambda: person.last_turn.state == "finished")


def test_a_chat_is_answered_as_its_own_instructions_and_settings_say(person: Person, tmp_path: Path):
    person.models.model_picker.use(str(write_tiny_model(tmp_path / "tiny.gguf", never_ends=True)))
    person.waits_until(lambda: person.models.model_picker.state == "loaded")

    def timings() -> protocol.Timings:
        person.asks("Who are you?")
        person.waits_for_end()
        assert person.last_turn.timings is not None
        return person.last_turn.timings

    usual = timings()
    person.window.chat_actions.new_chat()
    dialog = person.window.chat.manner_choice.open()
    person.waits_until(lambda: dialog.own_box("max_tokens").isEnabled())
    dialog.own_box("max_tokens").click()
    dialog.control("max_tokens").setValue(16)
    dialog.own_box("instructions").click()
    QTest.keyClicks(dialog.control("instructions"), "Answer in German, in three sentences at most.")
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    own = timings()
    assert (usual.generated_tokens, own.generated_tokens) == (1024, 16)
    assert own.prompt_tokens > usual.prompt_tokens


@pytest.mark.expects_warnings
def test_an_engine_killed_while_it_indexes_goes_on_where_it_was(person: Person, tmp_path: Path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(24):
        text = f"# Note {number}\n\n" + f"Lighthouse {number} was painted in the year {1800 + number}. " * 30
        (folder / f"note{number}.md").write_text(text)
    person.drops(folder, over=person.window.chat.hero)
    person.waits_until(lambda: (progress := person.models.library.progress) is not None and progress.documents_done > 0)
    pid = person.kills_the_engine()
    person.waits_for_another_engine(than=pid)
    person.waits_for_index(24)
    collection = person.models.library.collections[0]
    assert {state for state, count in collection.documents_by_state.items() if count} == {"indexed"}


@pytest.mark.skipif(not SHARED_DATA.exists(), reason="shared data is not beside this checkout")
def test_real_documents_are_dropped_and_asked(person: Person):
    chapter = SHARED_DATA / "docs" / "tree-rust-book" / "src" / "ch16-03-shared-state.md"
    pdf = SHARED_DATA / "docs" / "pypdf" / "crazyones.pdf"
    person.drops(chapter, pdf, over=person.window.chat.hero)
    person.waits_for_index(2)
    person.asks(QUESTION)
    person.waits_for_end()
    assert person.last_turn.quotes[0].document == str(chapter)
    assert protocol.DEFAULT_COLLECTION in {collection.name for collection in person.models.library.collections}


@pytest.mark.expects_warnings
def test_broken_models_are_told_in_the_window_and_the_one_that_answered_goes_on(
    person: Person, corpus: Corpus, tmp_path: Path
):
    person.drops(corpus.files[2], over=person.window.chat.hero)
    person.waits_for_index(1)
    whole = write_tiny_model(tmp_path / "tiny.gguf")
    picker = person.models.model_picker
    picker.use(str(whole))
    person.waits_until(lambda: picker.state == "loaded")
    pid = person.models.client.engine_pid
    told: list[tuple[str, str]] = []
    picker.request_failed.connect(lambda sentence, way_out: told.append((sentence, way_out)))
    wrong = struct.pack("<I", 2**32 - 1)

    for number in range(9):
        broken = tmp_path / f"broken{number}.gguf"
        # The last one is whole, but for its magic's version.
        content = cut(whole, number) if number < 8 else whole.read_bytes()[:4] + wrong + whole.read_bytes()[8:]
        broken.write_bytes(content)
        picker.use(str(broken))
        person.waits_until(lambda number=number: len(told) == number + 1 or picker.state == "failed")
        sentence = " ".join(told[-1]) if len(told) == number + 1 else picker.sentence
        told[number:] = [(sentence, "")]
        assert broken.name in sentence or "GGUF" in sentence
        assert person.window.isVisible()
        picker.use(str(whole))
        person.waits_until(lambda: picker.state == "loaded")

    assert person.models.client.engine_pid == pid
    person.asks("When should garlic be planted?")
    person.waits_for_end()
    assert (person.last_turn.state, person.last_turn.model) == ("finished", "tiny-llama")
