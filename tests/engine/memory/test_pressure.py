"""Tests for engine.memory.pressure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import GIB
from engine.memory import pressure
from engine.memory.cgroup import CgroupMemory
from engine.memory.hardware import Hardware, probe
from engine.memory.pressure import PressureGauge, Sample, Stalls, level, stalls_of
from engine.memory.room import headroom_bytes

PLENTY = Sample(100 * GIB, 40 * GIB)
LITTLE = Sample(100 * GIB, 8 * GIB)
VERY_LITTLE = Sample(100 * GIB, 5 * GIB // 8)


def test_a_machine_where_nothing_waits_is_under_no_pressure_even_with_little_left():
    assert [level(one) for one in (PLENTY, LITTLE, VERY_LITTLE)] == ["none"] * 3


def test_with_nothing_left_pressure_is_full_before_anything_waits():
    assert level(Sample(100 * GIB, GIB // 4)) == "full"
    assert level(Sample(8 * GIB, GIB // 10)) == "full"


@pytest.mark.parametrize("capacity_gib", [1, 8, 16, 64, 128, 1024])
def test_what_a_plan_leaves_of_memory_is_no_pressure(capacity_gib: int):
    hardware = Hardware(capacity_gib * GIB, 0, GIB, GIB, 20 * GIB)
    left = Sample(capacity_gib * GIB, headroom_bytes(hardware), num_refused=1, stalls=Stalls(some=0.05))
    assert level(left, replace(left, num_refused=0)) == "none"


def test_what_waits_elsewhere_is_not_ours_while_there_is_plenty():
    stalls = Stalls(some=0.9, full=0.8)
    assert level(replace(PLENTY, stalls=stalls)) == "none"
    assert level(replace(LITTLE, stalls=stalls)) == "some"
    assert level(replace(VERY_LITTLE, stalls=stalls)) == "full"


def test_what_waits_in_our_own_group_is_ours_however_much_page_cache_there_is():
    assert level(replace(PLENTY, stalls=Stalls(some=0.2, is_own=True))) == "some"
    assert level(replace(PLENTY, stalls=Stalls(some=0.2, full=0.1, is_own=True))) == "full"


@pytest.mark.parametrize(("limit_bytes", "expected"), [(100 * GIB, "full"), (None, "none")])
def test_the_group_of_a_whole_session_is_not_our_own(limit_bytes: int | None, expected: str):
    """Pages that were swapped out over night come back, and nothing is gained by giving anything up."""
    group = CgroupMemory(limit_bytes, 40 * GIB, 50 * GIB, 0, 0, 0, 0)
    hardware = Hardware(100 * GIB, 40 * GIB, GIB, GIB, 20 * GIB, cgroup=group)
    assert PressureGauge(lambda: Stalls(some=0.5, full=0.3, is_own=True)).look(hardware) == expected


def test_averages_that_outlast_what_waited_count_no_more():
    before = replace(LITTLE, stalls=Stalls(some=0.5, full=0.3, is_own=True, total_seconds=7.0))
    after = replace(LITTLE, stalls=Stalls(some=0.4, full=0.2, is_own=True, total_seconds=7.001))
    going_on = replace(LITTLE, stalls=Stalls(some=0.4, full=0.2, is_own=True, total_seconds=7.1))
    assert [level(before), level(after, before), level(going_on, after)] == ["full", "none", "full"]
    # Where the total is not reported, the averages are all there is.
    untold = replace(LITTLE, stalls=Stalls(some=0.4, is_own=True))
    assert level(untold, before) == level(untold, untold) == "some"


def test_a_limit_that_is_reached_counts_where_dropping_cache_is_no_help():
    before, after = replace(VERY_LITTLE, num_refused=5), replace(VERY_LITTLE, num_refused=6)
    assert level(after, before) == "some"
    assert level(after, after) == "none"
    assert level(replace(PLENTY, num_refused=9), before) == "none"


def test_the_systems_file_is_read_in_shares():
    text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.25 avg60=0.50 avg300=0.00 total=9\n"
    assert stalls_of(text, is_own=True) == Stalls(0.125, 0.0325, True, 99e-6)
    assert stalls_of("some avg10=1.00\n", is_own=False) == Stalls(0.01)
    assert stalls_of("nothing known", is_own=False) == Stalls()


@pytest.mark.parametrize("num_refused", [0, 3])
def test_the_gauge_compares_with_its_last_look(num_refused: int):
    def look(refused: int) -> Hardware:
        group = CgroupMemory(100 * GIB, 5 * GIB // 8, 90 * GIB, 0, 0, 0, refused)
        return Hardware(100 * GIB, 5 * GIB // 8, GIB, GIB, 90 * GIB, cgroup=group)

    gauge = PressureGauge(Stalls)
    assert gauge.look(look(7)) == "none"
    assert gauge.look(look(7 + num_refused)) == ("some" if num_refused else "none")


def test_this_machine_can_be_asked(tmp_path):
    assert PressureGauge().look(probe(tmp_path)) in ("none", "some", "full")


def test_pages_that_leave_for_others_are_left_and_reading_them_again_is_no_shortage():
    def full(leaving_bytes: int) -> str:
        gauge = PressureGauge(lambda: Stalls(some=0.5, full=0.3, is_own=True))
        group = CgroupMemory(100, 0, 90, 0, 0, 0, 0)
        return gauge.look(Hardware(100, 0, 0, 0, 90, cgroup=group), leaving_bytes)

    assert (full(0), full(40)) == ("full", "none")
    # Where only few of them are left, memory is as short as ever.
    assert full(1) == "full"


@pytest.mark.parametrize("path", ["/", "/docker/0123456789ab"])
def test_the_root_of_what_a_container_shows_is_our_own_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
):
    groups, own, system = tmp_path / "groups", tmp_path / "own", tmp_path / "system"
    groups.mkdir()
    own.write_text(f"0::{path}\n")
    system.write_text("some avg10=90.00 total=9\n")
    (groups / "memory.pressure").write_text("some avg10=20.00 total=9\n")
    monkeypatch.setattr(pressure, "_GROUPS", groups)
    monkeypatch.setattr(pressure, "_OWN_GROUP", own)
    monkeypatch.setattr(pressure, "_SYSTEM_FILE", system)
    # The root of all groups reports on the whole machine.
    assert pressure._StallFile().read() == Stalls(0.9, total_seconds=9e-6)
    (groups / "memory.current").write_text("1000\n")
    assert pressure._StallFile().read() == Stalls(0.2, is_own=True, total_seconds=9e-6)


def test_our_own_group_comes_before_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    groups, own = tmp_path / "groups", tmp_path / "own"
    (groups / "us").mkdir(parents=True)
    own.write_text("0::/us\n")
    for folder, share in ((groups, 90), (groups / "us", 20)):
        (folder / "memory.current").write_text("1000\n")
        (folder / "memory.pressure").write_text(f"some avg10={share}.00 total=9\n")
    monkeypatch.setattr(pressure, "_GROUPS", groups)
    monkeypatch.setattr(pressure, "_OWN_GROUP", own)
    assert pressure._StallFile().read() == Stalls(0.2, is_own=True, total_seconds=9e-6)
