"""Tests for linked folders as the window lives them: the engine process hears, keeps, asks, and forgets for good."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import protocol
from engine.config import Home
from tests.helpers.engine_process import PATIENCE_S, EngineProcess
from tests.helpers.homes import NewHome

NUM_NOTES = 24


class Window:
    """What the window asks the engine, in few words."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine

    def folder(self) -> protocol.Folder:
        (folder,) = self.engine.result(protocol.LIBRARY).folders
        assert isinstance(folder, protocol.Folder)
        return folder

    def best(self, words: str) -> tuple[str, bool]:
        """The name of the document with the best passage, and whether it is offline."""
        reply = self.engine.result(protocol.SEARCH, protocol.Search(query=words, top_k=1))
        (passage,) = reply.passages
        return Path(passage.document).name, passage.is_offline

    def chunks_embedded(self) -> int:
        return sum(one.chunks for one in self.engine.notices if isinstance(one, protocol.IndexFinished))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"{self.folder()}\n{self.engine.log()}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked") / "docs"
    (folder / "notes").mkdir(parents=True)
    for number in range(NUM_NOTES):
        (folder / "notes" / f"{number}.md").write_text(f"Quokka{number} lives on island number {number}.\n")
    (folder / "stays.md").write_text("The lease ends with three months of notice.\n")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, new_home: NewHome) -> Path:
    return new_home(tmp_path_factory.mktemp("folders") / "home")


@pytest.fixture(scope="module")
def window(home: Path, docs: Path) -> Iterator[Window]:
    with EngineProcess(home) as engine:
        assert engine.add(docs).indexed == NUM_NOTES + 1
        made = Window(engine)
        made.wait_until(lambda: made.folder().is_watched)
        yield made


def test_a_linked_folder_is_watched_and_told_of(window: Window, docs: Path) -> None:
    assert window.folder() == protocol.Folder(
        path=str(docs), collection="Documents", is_watched=True, num_documents=NUM_NOTES + 1
    )


def test_a_new_file_is_found_without_being_asked_for(window: Window, docs: Path) -> None:
    (docs / "new.md").write_text("Axolotls regrow their limbs.\n")

    window.wait_until(lambda: window.best("axolotls") == ("new.md", False))
    (docs / "new.md").unlink()
    window.wait_until(lambda: window.folder().num_documents == NUM_NOTES + 1)


def test_a_folder_that_is_away_answers_and_says_so(window: Window, docs: Path) -> None:
    embedded = window.chunks_embedded()
    docs.rename(docs.with_name("away"))
    window.wait_until(lambda: window.folder().absence != "")

    assert "not there" in window.folder().absence
    assert not window.folder().is_watched
    assert window.best("Quokka7") == ("7.md", True)

    docs.with_name("away").rename(docs)
    window.wait_until(lambda: window.folder().absence == "")
    window.wait_until(lambda: window.folder().is_watched)
    assert window.best("Quokka7") == ("7.md", False)
    assert window.chunks_embedded() == embedded


def test_documents_gone_at_once_are_kept_until_the_user_decides(window: Window, docs: Path) -> None:
    shutil.copytree(docs / "notes", docs.with_name("aside"))
    shutil.rmtree(docs / "notes")
    window.wait_until(lambda: window.folder().num_gone == NUM_NOTES)
    assert window.best("Quokka9") == ("9.md", True)

    kept = window.engine.result(protocol.SETTLE_GONE, protocol.SettleGone(folder=str(docs), remove=False))
    assert kept.documents == 0
    window.engine.result(protocol.RESCAN)
    window.wait_until(lambda: window.folder().num_gone == 0)
    assert window.best("Quokka9") == ("9.md", True)

    docs.with_name("aside").rename(docs / "notes")
    window.wait_until(lambda: window.best("Quokka9") == ("9.md", False))


def test_removed_documents_leave_nothing_that_could_be_found(window: Window, docs: Path, home: Path) -> None:
    shutil.rmtree(docs / "notes")
    window.wait_until(lambda: window.folder().num_gone == NUM_NOTES)

    gone = window.engine.result(protocol.SETTLE_GONE, protocol.SettleGone(folder=str(docs), remove=True))
    assert gone.documents == NUM_NOTES

    assert window.folder().num_documents == 1
    # Words and meaning both: the only passage left is the other file's.
    for words in ("Quokka9", "Quokka9 lives on island number 9."):
        assert window.best(words) == ("stays.md", False)
    reply = window.engine.request(protocol.SETTLE_GONE, protocol.SettleGone(folder=str(docs), remove=True))
    assert reply.error is not None
    assert reply.error.kind == "NothingThere"
    page = window.engine.request(protocol.PAGE, protocol.PageRequest(document_id=9))
    assert page.error is not None
    assert "no longer in the library" in page.error.sentence
    with sqlite3.connect(Home.under(home).library / "catalog.sqlite") as catalog:
        assert catalog.execute("SELECT count(*) FROM documents").fetchone() == (1,)
    catalog.close()
