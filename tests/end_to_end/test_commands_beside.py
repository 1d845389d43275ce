"""Tests for commands while the window is open: they go to its engine, a real process, and leave it as it was."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import protocol
from engine.door import FILE
from tests.helpers.corpus import write_corpus
from tests.helpers.engine_process import CAREFUL, PATIENCE_S, EngineProcess
from tests.helpers.homes import NewHome
from tests.helpers.ragdoll_command import Ragdoll
from tests.helpers.tiny_gguf import write_tiny_model

QUESTION = "How do I share state between threads?"
GONE = "ragdoll: Ragdoll was closed, or its engine ended, before this was done. Run the command again.\n"


@pytest.fixture(scope="module")
def ragdoll(tmp_path_factory: pytest.TempPathFactory, new_home: NewHome) -> Ragdoll:
    """The command on a data folder with the generated corpus in it."""
    folder = tmp_path_factory.mktemp("beside")
    write_corpus(folder / "corpus")
    ragdoll = Ragdoll(new_home(folder / "home"))
    ragdoll.json("add", folder / "corpus")
    return ragdoll


@pytest.fixture
def window(ragdoll: Ragdoll, tmp_path: Path) -> Iterator[EngineProcess]:
    with EngineProcess(ragdoll.home, tmp_path / "engine.log", CAREFUL) as engine:
        engine.result(protocol.LIBRARY)
        yield engine


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "endless.gguf", never_ends=True)


def is_writing(notice: protocol.Notice) -> bool:
    return isinstance(notice, protocol.AnswerState) and notice.state == "writing"


def test_a_command_in_a_process_of_its_own_is_answered_by_the_engine_of_the_window(
    ragdoll: Ragdoll, window: EngineProcess
) -> None:
    answer = ragdoll.run("ask", QUESTION, "--json").json
    assert answer["quotes"][0]["text"] in answer["answer"]
    assert ragdoll.json("search", QUESTION)["passages"]
    end = window.wait_for_kind(protocol.AnswerFinished)
    assert end.answer.text == answer["answer"]
    assert not any(isinstance(notice, protocol.AnswerFound | protocol.AnswerTokens) for notice in window.notices)
    window.result(protocol.ASK, protocol.Ask(question_id="window's", text=QUESTION))
    assert isinstance(window.answer_to("window's"), protocol.AnswerFinished)


def test_what_a_command_adds_is_in_the_window_and_other_way_round(
    ragdoll: Ragdoll, window: EngineProcess, tmp_path: Path
) -> None:
    (tmp_path / "ferry.md").write_text("The ferry to the island leaves at seven in the morning.")
    assert ragdoll.json("add", tmp_path / "ferry.md")["documents"]["indexed"] == 1
    window.wait_for_kind(protocol.LibraryChanged)
    found = window.result(protocol.SEARCH, protocol.Search(query="ferry to the island"))
    assert found.passages[0].document == str(tmp_path / "ferry.md")
    window.result(protocol.REMOVE, protocol.Paths(paths=(str(tmp_path / "ferry.md"),)))
    gone = ragdoll.run_here("remove", tmp_path / "ferry.md")
    assert (gone.code, gone.out) == (4, "")


def test_ctrl_c_ends_the_question_and_nothing_else(ragdoll: Ragdoll, window: EngineProcess, endless: Path) -> None:
    # What a shell starts in the background ignores the signal, and hands that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ragdoll.start("ask", QUESTION, "--model", endless, "--max-tokens", "100000") as asking:
        window.wait_for(is_writing)
        asking.send_signal(signal.SIGINT)
        out, error = asking.communicate(timeout=PATIENCE_S)
    assert (asking.returncode, out, error) == (130, "", "ragdoll: stopping…\nragdoll: stopped.\n")
    window.wait_for_kind(protocol.AnswerCancelled)
    assert window.result(protocol.SETTINGS_GET).settings["models"]["current"] == ""


def test_a_command_that_is_killed_has_its_question_cancelled(
    ragdoll: Ragdoll, window: EngineProcess, endless: Path
) -> None:
    with ragdoll.start("ask", QUESTION, "--model", endless, "--max-tokens", "100000") as asking:
        window.wait_for(is_writing)
        asking.kill()
        asking.communicate(timeout=PATIENCE_S)
    window.wait_for_kind(protocol.AnswerCancelled)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_window_that_goes_in_the_middle_of_a_command_is_told_of(
    ragdoll: Ragdoll, window: EngineProcess, endless: Path, is_killed: bool
) -> None:
    with ragdoll.start("ask", QUESTION, "--model", endless, "--max-tokens", "100000") as asking:
        window.wait_for(is_writing)
        window.kill() if is_killed else window.close()
        out, error = asking.communicate(timeout=PATIENCE_S)
    assert (asking.returncode, out, error) == (1, "", GONE)
    # What a killed engine leaves keeps nobody from anything.
    assert (ragdoll.home / "data" / "library" / FILE).exists() == is_killed
    assert ragdoll.json("status")["documents"]["indexed"]


def test_a_command_that_comes_as_the_window_closes_waits_for_its_engine(ragdoll: Ragdoll, tmp_path: Path) -> None:
    # One that loads its libraries takes longest to end.
    engine = EngineProcess(ragdoll.home, tmp_path / "engine.log")
    engine.result(protocol.LIBRARY)
    closing = threading.Thread(target=engine.close)
    closing.start()
    while (ragdoll.home / "data" / "library" / FILE).exists():
        time.sleep(0.01)
    assert ragdoll.json("settings", "generation.seed")["settings"] == {"generation.seed": None}
    closing.join(PATIENCE_S)


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("watch",)])
def test_commands_reach_an_engine_that_another_command_keeps_open(ragdoll: Ragdoll, command: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ragdoll.start(*command) as serving:
        assert serving.stdout is not None
        assert "Ctrl+C ends it." in serving.stdout.readline()
        assert ragdoll.json("search", QUESTION)["passages"]
        assert ragdoll.json("settings", "generation.seed=3")["settings"] == {"generation.seed": 3}
        ragdoll.json("settings", "generation.seed=null")
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=PATIENCE_S)
    assert serving.returncode == 0
