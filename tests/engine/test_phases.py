"""Tests for engine.phases."""

from __future__ import annotations

import pytest

from engine.events import PhaseChanged
from engine.phases import Phases


def test_the_end_of_one_phase_does_not_hide_another_that_still_runs():
    told: list[PhaseChanged] = []
    phases = Phases(told.append)
    libraries = phases.during("loading libraries")
    libraries.__enter__()
    with phases.during("loading model"):
        pass
    libraries.__exit__(None, None, None)
    assert [event.phase for event in told] == ["loading libraries", "loading model", "loading libraries", ""]


def test_a_phase_that_fails_ends_too():
    told: list[PhaseChanged] = []
    with pytest.raises(OSError, match="gone"), Phases(told.append).during("loading model"):
        raise OSError("gone")
    assert told[-1] == PhaseChanged("")
