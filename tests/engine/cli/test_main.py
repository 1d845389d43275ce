"""Tests for engine.cli, as far as every command has it."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_what_whoever_started_us_has_us_ignore_is_ignored(run, monkeypatch: pytest.MonkeyPatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(lambda options, out: signal.raise_signal(signal.SIGHUP)).code == 0
    finally:
        signal.signal(signal.SIGHUP, before)
