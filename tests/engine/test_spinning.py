"""Tests for engine.spinning."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

import pytest

from engine import spinning
from engine.spinning import (
    CROWDED_LOOKS,
    LOOK_SECONDS,
    MOST_WAITING,
    QUIET_LOOKS,
    IdleTeam,
    IdleTeams,
    Spinning,
    idle_cores_wanted,
    seconds_waited,
)

CROWDED, ALONE = 2 * MOST_WAITING * LOOK_SECONDS, MOST_WAITING * LOOK_SECONDS / 2


class Thread:
    """One that computes: what its clock says, how long it waited for a core, and which idlers there are."""

    def __init__(self) -> None:
        self.now, self.waited, self.made, self.left = 0.0, 0.0, 0, 0
        self.spinning = Spinning(self._idlers, lambda: self.waited, lambda: self.now)

    def end(self) -> None:
        self.left += 1

    def passes(self, waited: float, seconds: float = LOOK_SECONDS, count: int = 1) -> None:
        for _ in range(count):
            with self.spinning.watched():
                self.now += seconds
                self.waited += waited

    def _idlers(self) -> Thread:
        self.made += 1
        return self


def test_threads_spin_while_they_have_their_cores():
    thread = Thread()
    thread.passes(ALONE, count=50)
    assert not thread.spinning.is_short
    assert thread.made == 0


def test_they_hardly_spin_from_when_they_wait_for_them_until_that_has_long_ended():
    thread = Thread()
    thread.passes(CROWDED, count=CROWDED_LOOKS - 1)
    thread.passes(ALONE)
    thread.passes(CROWDED, count=CROWDED_LOOKS - 1)
    assert not thread.spinning.is_short
    thread.passes(CROWDED)
    assert thread.spinning.is_short
    thread.passes(ALONE, count=QUIET_LOOKS - 1)
    thread.passes(CROWDED)
    thread.passes(ALONE, count=QUIET_LOOKS - 1)
    assert (thread.spinning.is_short, thread.made, thread.left) == (True, 1, 0)
    thread.passes(ALONE)
    assert (thread.spinning.is_short, thread.made, thread.left) == (False, 1, 1)


def test_they_hardly_spin_while_work_is_done_that_takes_only_idle_cores():
    thread = Thread()
    with idle_cores_wanted():
        thread.passes(0.0, LOOK_SECONDS / 10)
        assert thread.spinning.is_short
        thread.passes(ALONE, count=2 * QUIET_LOOKS)
        assert thread.spinning.is_short
    thread.passes(ALONE, count=QUIET_LOOKS + 1)
    assert not thread.spinning.is_short


def test_what_happens_between_passes_counts_for_nothing():
    thread = Thread()
    for seconds in [LOOK_SECONDS, LOOK_SECONDS / 10] * 50:
        thread.now += 2 * LOOK_SECONDS
        thread.waited += 10 * CROWDED
        thread.passes(0.0, seconds)
    assert not thread.spinning.is_short


def test_many_short_passes_are_looked_at_together():
    thread = Thread()
    for _ in range(CROWDED_LOOKS):
        assert not thread.spinning.is_short
        thread.passes(ALONE / 10, LOOK_SECONDS / 10, count=9)
        thread.passes(CROWDED, LOOK_SECONDS / 10 * 1.01)
    assert thread.spinning.is_short


def test_who_ends_while_it_is_short_leaves_nobody_idle():
    thread = Thread()
    thread.passes(CROWDED, count=CROWDED_LOOKS)
    thread.spinning.end()
    thread.spinning.end()
    assert (thread.spinning.is_short, thread.left) == (False, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is of Linux")
def test_an_idle_team_is_there_until_it_ends():
    import llama_cpp  # noqa: F401 - it brings libgomp along

    files = spinning.loaded_libraries()
    if not files:
        pytest.skip("llama.cpp computes without libgomp here")
    before = len(os.listdir("/proc/self/task"))
    team = IdleTeam(ctypes.CDLL(str(files[0])))
    assert len(os.listdir("/proc/self/task")) > before
    assert "idle team" in {thread.name for thread in threading.enumerate()}
    team.end()
    team.end()
    assert "idle team" not in {thread.name for thread in threading.enumerate()}


def test_a_thread_is_told_how_long_it_waited_for_a_core_where_the_system_tells(tmp_path, monkeypatch):
    assert seconds_waited() >= 0.0
    told = tmp_path / "schedstat"
    monkeypatch.setattr(spinning, "_SCHEDSTAT", told)
    assert seconds_waited() == 0.0
    told.write_text("123456789 2500000000 42\n")
    assert seconds_waited() == 2.5
    told.write_text("\n")
    assert seconds_waited() == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is looked for among what Linux has mapped")
def test_each_copy_that_is_loaded_has_a_team():
    import llama_cpp  # noqa: F401 - it brings libgomp along

    teams = IdleTeams()
    assert len(teams.teams) == len(spinning.loaded_libraries())
    assert sum(thread.name == "idle team" for thread in threading.enumerate()) == len(teams.teams)
    teams.end()
    assert "idle team" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is of Linux")
@pytest.mark.expects_warnings
def test_a_copy_that_cannot_be_had_is_left_to_spin_and_told_of(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(spinning, "loaded_libraries", lambda: (tmp_path / "libgomp.so",))
    assert IdleTeams().teams == []
    assert "libgomp.so spin" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is of Linux")
@pytest.mark.expects_warnings
def test_a_library_that_only_looks_like_one_ends_nothing(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(spinning, "loaded_libraries", lambda: (tmp_path / "libgomp-notes.so",))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    assert IdleTeams().teams == []
    assert "libgomp-notes.so spin" in caplog.text


def test_a_folder_that_is_called_so_makes_no_library_one(monkeypatch):
    told = """\
7f00-7f10 r-xp 00000000 08:01 7 /opt/libgomp-env/lib/libssl.so
7f10-7f20 r-xp 00000000 08:01 8 /opt/libgomp-env/lib/libgomp-a34.so.1
7f20-7f30 r--p 00000000 08:01 8 /opt/libgomp-env/lib/libgomp-a34.so.1
7f30-7f40 r--p 00000000 08:01 9 [heap]
"""
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert spinning.loaded_libraries() == (Path("/opt/libgomp-env/lib/libgomp-a34.so.1"),)


def test_without_libgomp_nobody_is_idle(monkeypatch):
    monkeypatch.setattr(spinning, "loaded_libraries", tuple)
    teams = IdleTeams()
    assert teams.teams == []
    teams.end()
