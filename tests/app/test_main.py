"""Tests for app.main: the window's whole life, with a scripted engine."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication, QMessageBox

from app import languages, main, startup_trace
from app.chats import ChatStore
from app.settings import AppHome
from app.single_instance import SingleInstance
from engine import __version__, protocol

ROOT = Path(__file__).resolve().parents[2]
SCRIPTED = ROOT / "tests" / "helpers" / "scripted_engine.py"
TIMEOUT_MS = 30_000
Open = Callable[..., main.Session]


@pytest.fixture
def open_session(qtbot) -> Iterator[Open]:
    opened: list[main.Session] = []

    def open_one(*paths: str, script: tuple[str, ...] = ()) -> main.Session:
        home = AppHome.find()
        home.create()
        instance = SingleInstance(home.lock_file, home.socket_file)
        assert instance.claim()
        session = main.Session(home, instance, paths, (sys.executable, str(SCRIPTED), *script))
        opened.append(session)
        session.show()
        qtbot.wait_until(lambda: session.models is not None, timeout=TIMEOUT_MS)
        qtbot.wait_until(lambda: session.models.client.state == "ready", timeout=TIMEOUT_MS)
        return session

    yield open_one
    for session in opened:
        session.close()
        session.window.deleteLater()


def heard_by_engine(qtbot, session: main.Session) -> list[str]:
    answers: list[protocol.SettingsReply] = []
    session.models.client.request(protocol.SETTINGS_GET, protocol.Nothing(), answers.append)
    qtbot.wait_until(lambda: bool(answers), timeout=TIMEOUT_MS)
    return answers[0].settings["methods"]


def test_the_window_paints_first_and_is_then_brought_to_life(open_session):
    session = open_session()
    assert session.window.isVisible()
    assert session.models.engine_status.sentence == "Ready"
    assert (session.home.logs / "window.log").exists()


def test_paths_of_the_command_line_are_added(qtbot, open_session, tmp_path):
    session = open_session(str(tmp_path))
    assert "library.add" in heard_by_engine(qtbot, session)


def test_closing_ends_the_engine_saves_the_chat_and_lets_the_next_start_in(qtbot, open_session):
    session = open_session()
    pid = session.models.client.engine_pid
    session.models.conversation.ask("What notice applies?")
    qtbot.wait_until(lambda: not session.models.conversation.is_answering, timeout=TIMEOUT_MS)
    session.window.close()
    session.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    store = ChatStore(session.home.chats_file)
    (chat,) = store.conversations()
    assert store.turns(chat.conversation_id)[0].outcome.text == "Half an answer"
    store.close()
    again = open_session()
    assert again.models.chat_list.rowCount() == 1
    assert again.settings.settings.geometry


@pytest.mark.expects_warnings
def test_a_killed_engine_costs_no_text_and_the_window_says_what_happened(qtbot, open_session, tmp_path):
    script = ("--die-answering", "--die-once", str(tmp_path / "died"))
    session = open_session(script=script)
    messages: list[str] = []
    session.models.message_told.connect(lambda severity, sentence, way_out: messages.append(sentence))
    with qtbot.wait_signal(session.models.client.became_ready, timeout=TIMEOUT_MS):
        session.models.conversation.ask("What notice applies?")
    (turn,) = session.models.conversation.turns
    assert (turn.state, turn.text) == ("failed", "Half an answer")
    assert turn.error_sentence in messages
    session.models.conversation.regenerate(turn.turn_id)
    qtbot.wait_until(lambda: not session.models.conversation.is_answering, timeout=TIMEOUT_MS)
    (again,) = session.models.conversation.turns
    assert (again.state, again.num_branches) == ("finished", 2)


@pytest.fixture
def english_again(monkeypatch) -> Iterator[None]:
    before = QLocale()
    monkeypatch.setattr(languages, "can_be_shown", lambda _: True)
    yield
    languages.speak("en")
    QLocale.setDefault(before)


def wish_chinese() -> None:
    file = AppHome.find().settings_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('language = "zh_CN"\n', encoding="utf-8")


def test_the_window_speaks_the_language_of_its_settings(english_again, open_session):
    wish_chinese()
    session = open_session()
    assert session.window.rail.buttons["library"].accessibleName() == "资料库"
    assert session.models.engine_status.sentence == "就绪"


def test_a_start_that_is_refused_says_so_in_the_language_of_the_settings(
    english_again, held_lock, qapp, monkeypatch, capsys
):
    wish_chinese()
    monkeypatch.setattr(main, "make_application", lambda arguments: QApplication.instance())
    monkeypatch.setattr(main, "LONGEST_CLOSING_MS", 50)
    monkeypatch.setattr(QMessageBox, "critical", lambda *_: None)
    assert main.run([]) == 1
    assert "已经打开" in capsys.readouterr().err


def test_a_wish_to_terminate_closes_the_window(qtbot, open_session):
    session = open_session()
    os.kill(os.getpid(), signal.SIGTERM)
    qtbot.wait_until(lambda: not session.window.isVisible())


@pytest.mark.expects_warnings
def test_an_exception_nobody_caught_is_shown_in_the_window(open_session):
    session = open_session()
    try:
        raise ValueError("a bug")
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    assert "a bug" in session.window.message_bar.sentence
    assert "a bug" in (session.home.logs / "window.log").read_text()


@pytest.mark.expects_warnings
def test_chats_that_cannot_be_opened_are_chats_of_this_session_only(tmp_path, qapp):
    (tmp_path / "data").write_text("a file where the folder should be")
    chats = main.open_chats(tmp_path / "data" / "chats.sqlite")
    chats.create_conversation("works")
    assert "will not be kept" in chats.problem
    chats.close()


@pytest.mark.expects_warnings
def test_chats_on_a_disk_that_is_read_only_are_shown_beside_those_of_this_session(tmp_path, qapp, monkeypatch):
    file = tmp_path / "chats.sqlite"
    chats = main.open_chats(file)
    chats.create_conversation("kept")
    chats.close()

    def refuse(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error

    monkeypatch.setattr("app.chats.schema._open", refuse)
    chats = main.open_chats(file)
    chats.create_conversation("new")
    assert {chat.title for chat in chats.conversations()} == {"kept", "new"}
    assert not chats.is_kept
    assert "will not be kept. The chats are write-protected" in chats.problem
    chats.close()
    monkeypatch.undo()
    chats = main.open_chats(file)
    assert [chat.title for chat in chats.conversations()] == ["kept"]
    chats.close()


@pytest.mark.expects_warnings
def test_an_older_ragdoll_says_that_the_chats_are_a_newer_ones_and_keeps_them(tmp_path, qapp):
    file = tmp_path / "chats.sqlite"
    chats = main.open_chats(file)
    chats.create_conversation("chat")
    chats.close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    chats = main.open_chats(file)
    assert "will not be kept" in chats.problem
    assert "newer Ragdoll" in chats.problem
    chats.create_conversation("works")
    chats.close()
    assert [path.name for path in tmp_path.iterdir()] == ["chats.sqlite"]


@pytest.mark.expects_warnings
def test_a_large_file_of_chats_that_cannot_be_tidied_is_set_aside_at_once(tmp_path, qapp, monkeypatch):
    file = tmp_path / "chats.sqlite"
    chats = main.open_chats(file)
    chat = chats.create_conversation("chat")
    for number in range(200):
        chats.add_turn(chat.conversation_id, None, f"question {number} " * 50)
    chats.close()
    content = bytearray(file.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    file.write_bytes(content)
    monkeypatch.setattr("app.chats.schema._LARGE_BYTES", 1)
    chats = main.open_chats(file)
    assert "kept in" in chats.problem
    chats.create_conversation("works")
    chats.close()


@pytest.fixture
def held_lock() -> Iterator[SingleInstance]:
    """The lock of a window that hears nothing."""
    home = AppHome.find()
    home.create()
    first = SingleInstance(home.lock_file, home.socket_file)
    assert first.claim()
    yield first
    first.release()


def test_a_second_start_that_is_never_heard_says_so(qapp, held_lock, monkeypatch, capsys):
    monkeypatch.setattr(main, "make_application", lambda arguments: QApplication.instance())
    monkeypatch.setattr(main, "LONGEST_CLOSING_MS", 50)
    monkeypatch.setattr(QMessageBox, "critical", lambda *_: None)
    assert main.run([]) == 1
    assert "already open" in capsys.readouterr().err


def test_a_start_while_the_window_before_is_closing_waits_for_it(qtbot, held_lock):
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", startup_trace.VARIABLE: "1"}
    second = subprocess.Popen(
        [sys.executable, "-m", "app"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    with second:
        qtbot.wait(2500)
        assert second.poll() is None
        held_lock.release()
        assert any("attached_s=" in line for line in second.stderr)
        second.terminate()
        second.communicate(timeout=60)
    assert second.returncode == 0


def test_a_folder_that_cannot_be_made_is_told(qapp, ragdoll_home, monkeypatch, capsys):
    ragdoll_home.write_text("a file where the folder should be")
    monkeypatch.setattr(main, "make_application", lambda arguments: QApplication.instance())
    monkeypatch.setattr(QMessageBox, "critical", lambda *_: None)
    assert main.run([]) == 1
    assert "cannot keep anything" in capsys.readouterr().err


def test_the_version_is_told_without_qt():
    script = "import sys; sys.argv = ['ragdoll-gui', '--version']\nfrom app.__main__ import main\n"
    script += "try:\n    main()\nfinally:\n    print('PySide6' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == f"Ragdoll {__version__}\nFalse\n"


def test_a_second_start_brings_the_first_window_its_paths_and_ends(qtbot, open_session, tmp_path):
    session = open_session()
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    second = subprocess.Popen([sys.executable, "-m", "app", str(tmp_path)], cwd=ROOT, env=environment)
    qtbot.wait_until(lambda: second.poll() is not None, timeout=TIMEOUT_MS)
    assert second.returncode == 0
    qtbot.wait_until(lambda: "library.add" in heard_by_engine(qtbot, session), timeout=TIMEOUT_MS)


def test_what_was_copied_does_not_crash_the_window_as_it_ends():
    code = """
        from PySide6.QtCore import QMimeData
        from app.main import leave_clipboard, make_application
        application = make_application(["ragdoll"])
        copied = QMimeData()
        copied.setText("copied")
        application.clipboard().setMimeData(copied)
        del copied
        leave_clipboard(application)
        print(application.clipboard().text())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "copied\n")
