"""Tests for app.outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices

from app import outside as module
from app.outside import Outside, is_run, outside, url_of

SHOWS = """
import os, sys
from PySide6.QtCore import QTimer
from PySide6.QtDBus import QDBusConnection, QDBusVirtualObject
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication
from app.outside import outside

class FileManager(QDBusVirtualObject):
    def introspect(self, path):
        return ""

    def handleMessage(self, message, connection):
        print(message.member(), message.signature(), *message.arguments()[0], sep="|", flush=True)
        connection.send(message.createReply())
        app.quit()
        return True

app = QApplication([])
opened = []
QDesktopServices.openUrl = lambda url: (print("folder", url.toLocalFile(), sep="|", flush=True), app.quit())
manager, bus = FileManager(), QDBusConnection.connectToBus(os.environ["DBUS_SESSION_BUS_ADDRESS"], "the file manager's")
if sys.argv[2] == "there":
    assert bus.registerVirtualObject("/org/freedesktop/FileManager1", manager)
    assert bus.registerService("org.freedesktop.FileManager1")
outside().show_in_folder(sys.argv[1])
QTimer.singleShot(30_000, app.quit)
app.exec()
"""


class Desktop:
    """What was asked of it, and what was told of that."""

    def __init__(self, qtbot, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        self.shown: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.has_programs = True
        monkeypatch.setattr(QDesktopServices, "openUrl", self._open)
        monkeypatch.setattr(Outside, "_show", lambda _, path: self.shown.append(path))
        self.outside, self._qtbot = Outside(), qtbot
        self.outside.told.connect(lambda severity, sentence, _: self.told.append((severity, sentence)))

    def _open(self, url) -> bool:
        self.opened.append(url.toLocalFile())
        return self.has_programs

    def wait(self) -> None:
        self._qtbot.wait_until(lambda: not self.outside._looking)


@pytest.fixture
def desktop(qtbot, monkeypatch: pytest.MonkeyPatch) -> Desktop:
    return Desktop(qtbot, monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "lease.pdf"
    made.write_text("It ends in May.")
    return made


def test_a_file_that_is_there_is_opened(desktop: Desktop, file: Path) -> None:
    desktop.outside.open_file(str(file))
    desktop.wait()
    assert (desktop.opened, desktop.shown, desktop.told) == ([str(file)], [], [])


def test_a_file_that_is_there_is_shown_in_its_folder(desktop: Desktop, file: Path) -> None:
    desktop.outside.show_in_folder(str(file))
    desktop.wait()
    assert (desktop.opened, desktop.shown, desktop.told) == ([], [str(file)], [])


def test_of_a_file_that_is_gone_a_sentence_tells(desktop: Desktop, file: Path) -> None:
    file.unlink()
    desktop.outside.open_file(str(file))
    desktop.wait()
    assert desktop.opened == []
    words = "“lease.pdf” was not found: it was deleted or moved, or its drive is disconnected."
    assert desktop.told == [("warning", words)]


def test_the_folder_of_a_file_that_is_gone_is_shown(desktop: Desktop, file: Path) -> None:
    file.unlink()
    desktop.outside.show_in_folder(str(file))
    desktop.wait()
    assert desktop.opened == [str(file.parent)]
    assert desktop.told == [("notice", "“lease.pdf” no longer exists; this is the folder that it was in.")]


@pytest.mark.parametrize("verb", ["open_file", "show_in_folder"])
def test_where_the_drive_is_away_what_the_engine_said_of_it_is_told(desktop: Desktop, verb: str) -> None:
    getattr(desktop.outside, verb)("/media/away/lease.pdf", "The drive is not connected.")
    desktop.wait()
    assert desktop.opened == []
    assert desktop.told == [("warning", "The drive is not connected.")]


def test_where_no_program_opens_it_that_is_told(desktop: Desktop, file: Path) -> None:
    desktop.has_programs = False
    desktop.outside.open_file(str(file))
    desktop.wait()
    assert desktop.told == [("warning", "This computer has no program that opens “lease.pdf”.")]


def test_what_the_desktop_would_run_is_shown_instead(desktop: Desktop, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module.sys, "platform", "linux")
    starter = tmp_path / "Game.DESKTOP"
    starter.write_text("[Desktop Entry]")
    desktop.outside.open_file(str(starter))
    desktop.wait()
    assert (desktop.opened, desktop.shown) == ([], [str(starter)])
    assert desktop.told == [
        ("notice", "“Game.DESKTOP” might be run as a program, so it is shown in its folder instead.")
    ]  # fmt: skip


@pytest.mark.parametrize(("platform", "runs"), [("win32", True), ("linux", False), ("darwin", False)])
def test_a_script_is_run_by_some_desktops_only(platform: str, runs: bool, monkeypatch) -> None:
    monkeypatch.setattr(module.sys, "platform", platform)
    assert is_run("/docs/tool.bat") is runs
    assert not is_run("/docs/bat.txt")


def test_a_drive_that_does_not_answer_holds_up_nobody(desktop: Desktop, file: Path, monkeypatch, qtbot) -> None:
    answers, looks = threading.Event(), []
    look_at = module.look_at

    def hang(path: str) -> module.Seen:
        looks.append(path)
        answers.wait(30)
        return look_at(path)

    monkeypatch.setattr(module, "look_at", hang)
    monkeypatch.setattr(module, "PATIENCE_MS", 10)
    for _ in range(3):
        desktop.outside.open_file(str(file))
    qtbot.wait_until(lambda: bool(desktop.told))
    assert looks == [str(file)]
    assert desktop.told[0][0] == "notice"
    assert "is not responding yet" in desktop.told[0][1]
    # The message may be gone by now, and another click is not without an effect.
    desktop.outside.open_file(str(file))
    assert desktop.told[1:] == desktop.told[:1]
    assert looks == [str(file)]
    answers.set()
    desktop.wait()
    assert desktop.opened == [str(file)]


def test_names_of_whatever_bytes_stay_what_they_are(tmp_path: Path, desktop: Desktop) -> None:
    name = os.fsdecode(b"caf\xe9 50%#?.txt")
    assert url_of(f"/docs/{name}").toEncoded().data() == b"file:///docs/caf%E9%2050%25%23%3F.txt"
    assert url_of("/docs/café 50%#?.txt").toLocalFile() == "/docs/café 50%#?.txt"
    desktop.outside.open_file(f"/nowhere/{name}")
    desktop.wait()
    assert desktop.told[0][1].startswith("“caf\ufffd 50%#?.txt” was not found")


def test_there_is_one_for_the_application(qapp) -> None:
    assert outside() is outside()


@pytest.mark.skipif(not shutil.which("dbus-run-session"), reason="needs D-Bus")
@pytest.mark.parametrize("is_there", [True, False])
def test_the_file_manager_is_asked_by_its_common_name_and_else_the_folder_opened(file: Path, is_there: bool) -> None:
    named = file.rename(file.with_name("lease & more 50%.pdf"))
    command = [sys.executable, "-c", SHOWS, str(named), "there" if is_there else "away"]
    ran = subprocess.run(
        ["dbus-run-session", "--", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    items = f"ShowItems|ass|{url_of(str(named)).toEncoded().data().decode()}"
    assert ran.stdout.splitlines() == [items if is_there else f"folder|{named.parent}"], ran.stderr
