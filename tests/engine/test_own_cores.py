"""Tests for engine.own_cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import own_cores
from engine.own_cores import allowed_cores, available_cores, physical_cores, time_share, wholes


@pytest.fixture
def groups(tmp_path: Path) -> tuple[Path, Path]:
    """Where made-up groups of both versions are mounted."""
    return tmp_path / "v1", tmp_path / "v2"


def said(tmp_path: Path, text: str) -> Path:
    (tmp_path / "proc").write_text(text)
    return tmp_path / "proc"


def bound_v1(folder: Path, quota: int, period: int = 100_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text(f"{period}\n")


def bound_v2(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{text}\n")


def threads_of(folder: Path, siblings: dict[int, str], name: str = "core_cpus_list") -> Path:
    for core, text in siblings.items():
        topology = folder / f"cpu{core}" / "topology"
        topology.mkdir(parents=True)
        (topology / name).write_text(f"{text}\n")
    return folder


def test_a_share_of_the_time_is_as_many_cores_as_the_tightest_group_around_gives(
    tmp_path: Path, groups: tuple[Path, Path]
):
    bound_v2(groups[1] / "slice" / "own", "max 100000")
    bound_v2(groups[1] / "slice", "250000 100000")
    bound_v2(groups[1], "800000 100000")

    assert time_share(groups, said(tmp_path, "0::/slice/own\n")) == 2.5


def test_the_first_version_of_groups_is_read_as_well(tmp_path: Path, groups: tuple[Path, Path]):
    bound_v1(groups[0], -1)
    bound_v1(groups[0] / "docker" / "one", 150_000, 50_000)

    assert time_share(groups, said(tmp_path, "4:cpu,cpuacct:/docker/one\n3:memory:/\n0::/\n")) == 3.0


def test_a_container_that_sees_only_its_own_group_finds_the_bound_at_the_root(
    tmp_path: Path, groups: tuple[Path, Path]
):
    bound_v2(groups[1], "400000 100000")

    assert time_share(groups, said(tmp_path, "0::/docker/what-the-host-calls-it\n")) == 4.0


@pytest.mark.parametrize("text", ["max 100000", "", "400000 0", "nonsense"])
def test_without_a_bound_no_share_is_told(text: str, tmp_path: Path, groups: tuple[Path, Path]):
    bound_v2(groups[1], text)
    bound_v1(groups[0], -1)

    assert time_share(groups, said(tmp_path, "1:cpu:/\n0::/\n")) is None


def test_without_groups_no_share_is_told(tmp_path: Path, groups: tuple[Path, Path]):
    assert time_share(groups, tmp_path / "no such file") is None


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_two_halves_of_a_core_are_one(name: str, tmp_path: Path):
    folder = threads_of(tmp_path, {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}, name)

    assert wholes({0, 1, 4, 5}, folder) == 2
    # Of the other half it may not use, the core is there all the same.
    assert wholes({0, 5}, folder) == 2
    assert wholes({0, 4}, folder) == 1


def test_a_system_that_does_not_tell_of_each_core_tells_of_none(tmp_path: Path):
    assert wholes({0, 1}, threads_of(tmp_path, {0: "0"})) is None


@pytest.mark.parametrize(("share", "available"), [(None, 4), (16.0, 4), (2.5, 3), (0.2, 1)])
def test_no_more_cores_are_available_than_there_is_time_for(
    share: float | None, available: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(own_cores, "allowed_cores", lambda: 4)
    monkeypatch.setattr(own_cores, "wholes", lambda cores: 4)
    monkeypatch.setattr(own_cores, "time_share", lambda: share)

    assert (available_cores(), physical_cores()) == (available, available)


def test_where_nothing_tells_of_halves_all_that_is_allowed_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own_cores, "allowed_cores", lambda: 3)
    monkeypatch.setattr(own_cores, "wholes", lambda cores: None)
    monkeypatch.setattr(own_cores, "time_share", lambda: None)
    monkeypatch.setattr(own_cores.psutil, "cpu_count", lambda logical: None)

    assert physical_cores() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are bound to cores by Linux")
def test_a_process_that_may_be_on_one_core_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert (allowed_cores(), available_cores(), physical_cores()) == (1, 1, 1)
    finally:
        os.sched_setaffinity(0, before)
