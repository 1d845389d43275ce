"""The window's client with a real engine process; tests/app/test_engine_client.py has it meet broken ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.engine_client import EngineClient
from engine import protocol

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_MS = 180_000


@pytest.fixture
def client(qapp, tmp_path: Path) -> Iterator[EngineClient]:
    made = EngineClient(tmp_path / "logs")
    yield made
    made.stop()


def started(qtbot, client: EngineClient) -> EngineClient:
    with qtbot.wait_signal(client.became_ready, timeout=PATIENCE_MS):
        client.start()
    return client


def reply(qtbot, client: EngineClient, method, params=None) -> object:
    answers: list[object] = []
    client.request(method, params or method.params(), answers.append, answers.append)
    qtbot.wait_until(lambda: bool(answers), timeout=PATIENCE_MS)
    return answers[0]


def test_requests_are_answered_with_what_the_protocol_promises(qtbot, client):
    started(qtbot, client)
    assert reply(qtbot, client, protocol.LIBRARY).collections == ()
    assert {tier.tier for tier in reply(qtbot, client, protocol.MEMORY).tiers} >= {"ram", "disk"}
    refused = reply(qtbot, client, protocol.ADD, protocol.AddPaths(paths=("/no/such/folder",)))
    assert refused.kind == "NothingThere"
    assert "/no/such/folder" in refused.sentence


def test_what_lies_where_the_window_was_started_is_taken_for_no_module_of_the_engine(
    qtbot, client, tmp_path, monkeypatch
):
    (tmp_path / "json.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGDOLL_HOME", "here")
    started(qtbot, client)
    assert reply(qtbot, client, protocol.LIBRARY).collections == ()
    assert (tmp_path / "here" / "data" / "library").is_dir()


@pytest.mark.expects_warnings
def test_a_killed_engine_comes_again_with_its_library_unlocked(qtbot, client):
    started(qtbot, client)
    died: list[str] = []
    client.engine_died.connect(died.append)
    with qtbot.wait_signal(client.became_ready, timeout=PATIENCE_MS):
        os.kill(client.engine_pid, signal.SIGKILL)
    assert len(died) == 1
    assert reply(qtbot, client, protocol.LIBRARY).collections == ()


def test_a_polite_stop_leaves_no_process_and_nothing_to_complain_of(qtbot, client, tmp_path):
    started(qtbot, client)
    reply(qtbot, client, protocol.LIBRARY)
    process = psutil.Process(client.engine_pid)
    client.stop()
    assert not process.is_running()
    assert "Traceback" not in (tmp_path / "logs" / "engine.log").read_text()


def test_a_careful_start_loads_nothing_by_itself(qtbot, client):
    phases: list[str] = []
    client.phase_changed.connect(phases.append)
    with qtbot.wait_signal(client.became_ready, timeout=PATIENCE_MS):
        client.start_carefully()
    reply(qtbot, client, protocol.SETTINGS_GET)
    qtbot.wait(1000)
    assert phases == []


def test_the_engine_ends_with_its_window_however_that_ends(tmp_path):
    script = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.engine_client import EngineClient
application = QCoreApplication([])
client = EngineClient(Path(sys.argv[1]))
client.became_ready.connect(lambda: print(client.engine_pid, flush=True))
client.start()
application.exec()
"""
    window = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    with window:
        engine = psutil.Process(int(window.stdout.readline()))
        window.kill()
    deadline = time.monotonic() + 60
    while engine.is_running() and engine.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
