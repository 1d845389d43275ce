"""Tests for app.engine_client: the contract with an engine process, whatever that process does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer

from app.engine_client import EngineClient, Patience
from app.settings import AppHome
from engine import protocol, wire

SCRIPTED = Path(__file__).resolve().parents[1] / "helpers" / "scripted_engine.py"
# Short enough to test with, long enough for a busy machine to start a Python process in.
QUICK = Patience(
    ping_s=0.1,
    silence_s=20.0,
    phase_silence_s=60.0,
    back_off_s=(0.02, 0.04, 0.06),
    polite_stop_s=20.0,
    terminate_s=0.3,
)
TIMEOUT_MS = 30_000
Start = Callable[..., EngineClient]


class Heard:
    """Everything a client says, in order."""

    def __init__(self, client: EngineClient) -> None:
        self.states: list[str] = []
        self.died: list[str] = []
        self.gave_up: list[str] = []
        self.phases: list[str] = []
        self.notices: list[protocol.Notice] = []
        client.state_changed.connect(self.states.append)
        client.engine_died.connect(self.died.append)
        client.engine_gave_up.connect(self.gave_up.append)
        client.phase_changed.connect(self.phases.append)
        client.notice_received.connect(self.notices.append)


@pytest.fixture
def make(qapp, tmp_path: Path) -> Iterator[Start]:
    """Makes clients of scripted engines, and stops them all."""
    made: list[EngineClient] = []

    def make_client(*script: str, patience: Patience = QUICK) -> EngineClient:
        client = EngineClient(tmp_path / "logs", (sys.executable, str(SCRIPTED), *script), patience)
        made.append(client)
        return client

    yield make_client
    for client in made:
        client.stop()


def started(qtbot, client: EngineClient) -> EngineClient:
    with qtbot.wait_signal(client.became_ready, timeout=TIMEOUT_MS):
        client.start()
    return client


def reply(qtbot, client: EngineClient, method=protocol.LIBRARY, params=None) -> object:
    """The result of a request, or its WireError."""
    answers: list[object] = []
    client.request(method, params or method.params(), answers.append, answers.append)
    qtbot.wait_until(lambda: bool(answers), timeout=TIMEOUT_MS)
    assert len(answers) == 1
    return answers[0]


def test_a_started_engine_becomes_ready_and_answers_with_typed_results(qtbot, make):
    client = make()
    heard = Heard(client)
    started(qtbot, client)
    assert heard.states == ["starting", "ready"]
    assert client.state == "ready"
    assert reply(qtbot, client) == protocol.LibraryReply(collections=(), disk_bytes=0)


def test_requests_before_the_engine_is_ready_wait_for_it_and_keep_their_order(qtbot, make):
    client = make()
    order: list[int] = []
    for number in range(3):
        client.request(protocol.LIBRARY, protocol.Nothing(), lambda _, number=number: order.append(number))
    client.start()
    qtbot.wait_until(lambda: len(order) == 3, timeout=TIMEOUT_MS)
    assert order == [0, 1, 2]


def test_every_request_has_an_id_of_its_own(make):
    client = make()
    ids = [client.request(protocol.LIBRARY, protocol.Nothing()) for _ in range(3)]
    assert len(set(ids)) == 3


def test_notices_are_told_but_ready_is_not_one(qtbot, make):
    client = make("--flood", "3")
    heard = Heard(client)
    started(qtbot, client)
    qtbot.wait_until(lambda: len(heard.notices) == 3, timeout=TIMEOUT_MS)
    assert [notice.message for notice in heard.notices] == ["0", "1", "2"]


def test_a_flood_of_notices_arrives_whole_and_in_order_and_lets_other_events_through(qtbot, make):
    client = make("--flood", "20000")
    heard = Heard(client)
    in_between: list[int] = []
    timer = QTimer(interval=1)
    timer.timeout.connect(lambda: in_between.append(len(heard.notices)))
    timer.start()
    started(qtbot, client)
    qtbot.wait_until(lambda: len(heard.notices) == 20_000, timeout=TIMEOUT_MS)
    timer.stop()
    assert [int(notice.message) for notice in heard.notices] == list(range(20_000))
    assert any(0 < seen < 20_000 for seen in in_between)


def test_the_environment_is_passed_on(qtbot, make, monkeypatch):
    monkeypatch.setenv("RAGDOLL_HOME", "/somewhere/else")
    client = started(qtbot, make())
    assert reply(qtbot, client, protocol.SETTINGS_GET).settings["home"] == "/somewhere/else"


def test_a_data_folder_named_from_where_the_window_was_started_is_the_engines_too(qtbot, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGDOLL_HOME", "stick/ragdoll")
    client = started(qtbot, make())
    engines = reply(qtbot, client, protocol.SETTINGS_GET).settings["home"]
    assert engines == str(AppHome.find().data.parent) == str(tmp_path / "stick" / "ragdoll")


def test_what_the_engine_writes_to_stderr_lands_in_the_log(qtbot, make, tmp_path):
    started(qtbot, make("--stderr", "ggml_init: all fine"))
    log = tmp_path / "logs" / "engine.log"
    qtbot.wait_until(lambda: log.exists() and "all fine" in log.read_text(), timeout=TIMEOUT_MS)


@pytest.mark.expects_warnings
def test_a_killed_engine_is_restarted_and_the_death_is_told_in_a_sentence(qtbot, make):
    client = started(qtbot, make())
    heard = Heard(client)
    with qtbot.wait_signal(client.became_ready, timeout=TIMEOUT_MS):
        os.kill(client.engine_pid, signal.SIGKILL)
    assert heard.states == ["restarting", "ready"]
    assert len(heard.died) == 1
    assert "memory" in heard.died[0]
    assert heard.died[0].endswith("It is restarting.")
    assert reply(qtbot, client) == protocol.LibraryReply(collections=(), disk_bytes=0)


@pytest.mark.expects_warnings
def test_an_aborting_engine_is_named_as_crashed(qtbot, make):
    client = make("--abort")
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert "SIGABRT" in heard.died[0]


@pytest.mark.expects_warnings
def test_an_engine_that_exits_is_told_with_its_exit_code(qtbot, make):
    client = make("--exit", "7")
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert "7" in heard.died[0]


@pytest.mark.expects_warnings
def test_a_request_that_a_dead_engine_had_fails_once_as_engine_died(qtbot, make):
    client = started(qtbot, make("--die-on", "library.status"))
    error = reply(qtbot, client)
    assert error.kind == "EngineDied"
    assert error.sentence


@pytest.mark.expects_warnings
def test_requests_that_were_not_sent_yet_survive_a_death(qtbot, make, tmp_path):
    client = make("--die-on", "memory.get", "--die-once", str(tmp_path / "died"))
    started(qtbot, client)
    client.request(protocol.MEMORY, protocol.Nothing())
    answers: list[object] = []
    client.engine_died.connect(lambda _: client.request(protocol.LIBRARY, protocol.Nothing(), answers.append))
    qtbot.wait_until(lambda: bool(answers), timeout=TIMEOUT_MS)
    assert answers == [protocol.LibraryReply(collections=(), disk_bytes=0)]


@pytest.mark.expects_warnings
def test_a_wish_that_a_dying_engine_had_is_asked_of_the_next_one(qtbot, make, tmp_path):
    client = started(qtbot, make("--die-on", "library.rescan", "--die-once", str(tmp_path / "died")))
    assert reply(qtbot, client, protocol.RESCAN) == protocol.Nothing()


@pytest.mark.expects_warnings
def test_a_wish_that_ends_every_engine_is_not_asked_for_ever(qtbot, make):
    client = started(qtbot, make("--die-on", "library.rescan"))
    heard = Heard(client)
    assert reply(qtbot, client, protocol.RESCAN).kind == "EngineDied"
    assert len(heard.died) == 2


@pytest.mark.expects_warnings
def test_after_three_deaths_within_a_minute_it_gives_up_and_says_what_could_help(qtbot, make):
    client = make("--exit", "1")
    heard = Heard(client)
    with qtbot.wait_signal(client.engine_gave_up, timeout=TIMEOUT_MS):
        client.start()
    assert client.state == "failed"
    assert len(heard.died) == 2
    assert "model that does not fit" in heard.gave_up[0]
    assert reply(qtbot, client).kind == "EngineDied"


@pytest.mark.expects_warnings
def test_requests_still_waiting_when_it_gives_up_fail(qtbot, make):
    client = make("--exit-at-once", "1")
    errors: list[wire.WireError] = []
    client.request(protocol.LIBRARY, protocol.Nothing(), None, errors.append)
    with qtbot.wait_signal(client.engine_gave_up, timeout=TIMEOUT_MS):
        client.start()
    assert [error.kind for error in errors] == ["EngineDied"]


@pytest.mark.expects_warnings
def test_the_lower_setting_passes_careful_on(qtbot, make):
    client = make("--exit-unless-careful", "1")
    with qtbot.wait_signal(client.engine_gave_up, timeout=TIMEOUT_MS):
        client.start()
    with qtbot.wait_signal(client.became_ready, timeout=TIMEOUT_MS):
        client.start_carefully()
    assert reply(qtbot, client, protocol.SETTINGS_GET).settings["is_careful"] is True


def test_a_plain_start_is_not_careful(qtbot, make):
    client = started(qtbot, make())
    assert reply(qtbot, client, protocol.SETTINGS_GET).settings["is_careful"] is False


@pytest.mark.expects_warnings
def test_a_program_that_is_not_there_is_no_restart_loop(qtbot, tmp_path):
    client = EngineClient(tmp_path, ("/no/such/program",), QUICK)
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: client.state == "failed", timeout=TIMEOUT_MS)
    assert heard.died == []
    assert "/no/such/program" in heard.gave_up[0]
    client.stop()


@pytest.mark.expects_warnings
def test_a_hanging_engine_is_killed_and_restarted(qtbot, make):
    client = started(qtbot, make("--silent", patience=replace(QUICK, silence_s=0.6)))
    heard = Heard(client)
    with qtbot.wait_signal(client.became_ready, timeout=TIMEOUT_MS):
        pass
    assert "0.6 seconds" in heard.died[0]


def test_a_declared_phase_is_given_more_time(qtbot, make):
    client = make("--silent-in-phase", "loading model", patience=replace(QUICK, silence_s=0.6))
    heard = Heard(client)
    started(qtbot, client)
    qtbot.wait_until(lambda: heard.phases == ["loading model"], timeout=TIMEOUT_MS)
    qtbot.wait(1500)
    assert heard.died == []
    assert client.phase == "loading model"


@pytest.mark.expects_warnings
def test_an_engine_that_is_ready_but_answers_nothing_is_given_the_time_of_a_start(qtbot, make):
    client = make("--never-pong", patience=replace(QUICK, phase_silence_s=1.5, silence_s=0.6))
    started(qtbot, client)
    heard = Heard(client)
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert "1.5 seconds" in heard.died[0]


@pytest.mark.expects_warnings
def test_an_engine_that_never_becomes_ready_is_a_hang(qtbot, make):
    client = make("--never-ready", patience=Patience(ping_s=0.1, phase_silence_s=0.5, terminate_s=0.1))
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert heard.states == ["starting", "restarting"]


@pytest.mark.expects_warnings
def test_an_engine_that_hangs_each_time_is_given_up_in_the_end(qtbot, make):
    patience = replace(QUICK, phase_silence_s=0.6, silence_s=0.6, deaths_within_s=0.3, max_deaths_in_a_row=3)
    client = make("--never-pong", patience=patience)
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: client.state == "failed", timeout=2 * TIMEOUT_MS)
    assert "3 times" in heard.gave_up[0]


def test_a_request_that_no_line_holds_is_refused_at_once(qtbot, make, monkeypatch):
    client = started(qtbot, make())
    monkeypatch.setattr("engine.wire.MAX_LINE_BYTES", 1000)
    errors = []
    client.request(protocol.ASK, protocol.Ask(question_id="q", text="x" * 2000), on_error=errors.append)
    qtbot.wait_until(lambda: bool(errors), timeout=TIMEOUT_MS)
    assert errors[0].sentence == "This is too much at once."


@pytest.mark.expects_warnings
def test_a_few_garbage_lines_are_ignored(qtbot, make):
    client = started(qtbot, make("--garbage", str(QUICK.max_garbage_lines)))
    assert reply(qtbot, client) == protocol.LibraryReply(collections=(), disk_bytes=0)


@pytest.mark.expects_warnings
def test_much_garbage_restarts_the_engine(qtbot, make):
    client = make("--garbage", "40")
    heard = Heard(client)
    client.start()
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert "could not be read" in heard.died[0]


@pytest.mark.parametrize("script", [("--version", "2"), ("--strange-ready",)])
def test_another_protocol_version_fails_with_a_sentence_and_no_restart(qtbot, make, script):
    client = make(*script)
    heard = Heard(client)
    with qtbot.wait_signal(client.engine_gave_up, timeout=TIMEOUT_MS):
        client.start()
    assert heard.states == ["starting", "failed"]
    assert "version" in heard.gave_up[0]
    assert heard.died == []
    assert client.engine_pid is None


def test_stopping_ends_the_process_and_is_no_death(qtbot, make):
    client = started(qtbot, make())
    heard, pid = Heard(client), client.engine_pid
    client.stop()
    assert heard.states == ["stopped"]
    assert heard.died == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_stopping_lets_open_requests_fail_and_twice_is_harmless(qtbot, make):
    client = make("--never-ready")
    client.start()
    errors: list[wire.WireError] = []
    client.request(protocol.LIBRARY, protocol.Nothing(), None, errors.append)
    client.stop()
    client.stop()
    assert [error.kind for error in errors] == ["EngineDied"]


def test_an_engine_that_does_not_listen_is_ended_all_the_same(qtbot, make):
    impatient = Patience(polite_stop_s=0.3, terminate_s=0.2)
    client = started(qtbot, make("--deaf", patience=impatient))
    pid = client.engine_pid
    client.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_engine_that_is_there_and_refuses_is_replaced_by_another_one(qtbot, make):
    client = make()
    heard = Heard(client)
    with qtbot.waitSignal(client.became_ready, timeout=TIMEOUT_MS):
        client.start()
    before = client.engine_pid
    client.start()
    assert client.engine_pid == before
    with qtbot.waitSignal(client.became_ready, timeout=TIMEOUT_MS):
        client.start_again()
    assert client.engine_pid not in (None, before)
    assert heard.died == ["The engine is restarting."], "who had asked something asks again"
    assert not heard.gave_up


def test_a_stopped_client_can_be_started_again(qtbot, make):
    client = started(qtbot, make())
    client.stop()
    started(qtbot, client)
    assert client.state == "ready"


@pytest.mark.expects_warnings
def test_the_last_words_of_a_dying_engine_are_delivered_before_its_death(qtbot, make):
    client = started(qtbot, make("--die-answering"))
    heard = Heard(client)
    words: list[str] = []
    client.engine_died.connect(lambda _: words.extend(n.text for n in heard.notices if hasattr(n, "text")))
    client.request(protocol.ASK, protocol.Ask(question_id="q", text="?"))
    qtbot.wait_until(lambda: bool(heard.died), timeout=TIMEOUT_MS)
    assert words == ["Half ", "an ", "answer"]


def test_an_exception_in_one_callback_costs_no_other_its_answer(qtbot, make):
    client = make("--never-ready")
    errors: list[wire.WireError] = []

    def fail(_error: wire.WireError) -> None:
        raise RuntimeError("a bug in a model")

    client.request(protocol.LIBRARY, protocol.Nothing(), None, fail)
    client.request(protocol.LIBRARY, protocol.Nothing(), None, errors.append)
    client.start()
    with qtbot.capture_exceptions() as exceptions:
        client.stop()
    assert [str(error) for _, error, _ in exceptions] == ["a bug in a model"]
    assert len(errors) == 1
