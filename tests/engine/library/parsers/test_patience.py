"""Tests for engine.library.parsers.patience."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import pytest

from engine.library.parsers.patience import Patience, seconds_in_line


@dataclass
class Machine:
    """A clock, and how long our process has stood in line by then."""

    now: float = 100.0
    in_line: float = 7.0

    def patience(self, seconds: float) -> Patience:
        return Patience(1, seconds, clock=lambda: self.now, stood_in_line=lambda pid: self.in_line)


def test_a_process_that_has_the_processor_gets_its_seconds_and_no_more() -> None:
    machine = Machine()
    patience = machine.patience(30.0)
    machine.now += 29.0
    assert patience.left_seconds == 1.0
    machine.now += 1.5
    assert patience.left_seconds == -0.5


def test_time_in_line_does_not_count() -> None:
    machine = Machine()
    patience = machine.patience(30.0)
    machine.now, machine.in_line = machine.now + 40.0, machine.in_line + 25.0
    assert patience.left_seconds == 15.0


def test_what_was_stood_in_line_before_it_began_is_no_excuse() -> None:
    machine = Machine(in_line=1000.0)
    patience = machine.patience(30.0)
    machine.now += 31.0
    assert patience.left_seconds == -1.0


def test_no_machine_is_so_busy_that_it_ends_never() -> None:
    machine = Machine()
    patience = machine.patience(30.0)
    machine.now, machine.in_line = machine.now + 300.0, machine.in_line + 299.0
    assert patience.left_seconds == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_linux_tells_how_long_a_process_stood_in_line() -> None:
    before = seconds_in_line(os.getpid())
    assert 0.0 < before <= seconds_in_line(os.getpid())


def test_a_process_that_is_gone_stands_in_no_line() -> None:
    assert seconds_in_line(2**22 + 1) == 0.0
