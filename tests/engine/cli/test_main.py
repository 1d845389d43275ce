"""Tests for engine.cli, as far as every command has it."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import cli
from engine.cli import library
from engine.cli.output import Output
from tests.helpers.ragdoll_command import Done, Ragdoll

Run = Callable[[argparse.Namespace, Output], None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Done]:
    """Runs this as if it were the command `status`."""

    def run(what: Run) -> Done:
        monkeypatch.setattr(library, "status", what)
        return Ragdoll(tmp_path / "home").run_here("status")

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_from_outside_ends_in_order(run, number: signal.Signals):
    ended_in_order = []

    def ended_twice(options: argparse.Namespace, out: Output) -> None:
        assert signal.getsignal(number) is not signal.SIG_DFL
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGTERM)
            ended_in_order.append(number)

    before = signal.getsignal(number)
    done = run(ended_twice)
    assert ended_in_order == [number]
    assert (done.code, done.error) == (128 + number, "ragdoll: stopped.\n")
    assert signal.getsignal(number) is before


def test_who_presses_on_is_heard_again_after_a_while(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.cli._ONE_END_SECONDS", 0.1)
    presses: list[int] = []

    def closes_slowly(options: argparse.Namespace, out: Output) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for number in range(50):
                presses.append(number)
                time.sleep(0.03)
                signal.raise_signal(signal.SIGINT)

    assert run(closes_slowly).code == 128 + signal.SIGINT
    assert len(presses) < 50


def test_what_whoever_started_us_has_us_ignore_is_ignored(run, monkeypatch: pytest.MonkeyPatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(lambda options, out: signal.raise_signal(signal.SIGHUP)).code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_reader_that_lets_us_wait_gets_all_of_it(monkeypatch: pytest.MonkeyPatch):
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    read = list[bytes]()

    def read_all() -> None:
        while block := os.read(reads, 1 << 16):
            read.append(block)

    reading = threading.Thread(target=read_all)
    with os.fdopen(writes, "wb", buffering=0) as stream:
        out = Output(stream, is_json=False)
        # More than a pipe holds.
        threading.Timer(0.05, reading.start).start()
        out.text("word " * 100_000)
    reading.join()
    os.close(reads)
    assert b"".join(read) == b"word " * 100_000


def test_a_console_that_takes_a_part_at_once_gets_all_of_it(monkeypatch: pytest.MonkeyPatch):
    class Console(io.BytesIO):
        def write(self, content: Any, /) -> int:
            return super().write(bytes(content)[:32_767])

    monkeypatch.setattr(sys, "platform", "win32")
    # On Windows it knows sockets alone.
    monkeypatch.setattr("select.select", lambda *_: pytest.fail("waited for a console"))
    stream = Console()
    Output(stream, is_json=False).text("word " * 100_000)
    assert stream.getvalue() == b"word " * 100_000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full is there on Linux only")
def test_a_disk_with_no_room_for_the_output_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(library, "status", lambda options, out: out.line("Documents"))
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(cli, "take_stdout", lambda: full)
        assert cli.main(["status"]) == cli.EXIT_FAILED
    assert capsys.readouterr().err == "ragdoll: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_an_output_that_is_closed_is_nowhere(closed: str):
    script = "import os; from engine.stdio import take_stdout; take_stdout().write(b'ours'); os.write(1, b'native')"
    run = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, script]
    ran = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == ("", "native")


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_without_standard_error_the_output_is_ours_alone_all_the_same(closed: str):
    script = (
        "import os, sys; from engine.stdio import take_stdout; ours = take_stdout();"
        "os.write(1, b'native'); os.write(2, b'native'); print('told', file=sys.stderr); print('told');"
        # A program that is started from here has its standard error, too.
        "os.system('echo told; echo told >&2'); ours.write(b'ours')"
    )
    run = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, script]
    ran = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert ran.stdout == "ours"


def test_a_command_without_standard_error_tells_its_failure_nowhere(tmp_path: Path):
    command = [sys.executable, "-m", "engine.cli", "add", str(tmp_path / "nowhere"), "--json"]
    ran = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" 2>&-', *command], stdout=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stdout) == (cli.EXIT_NOTHING_THERE, "")
