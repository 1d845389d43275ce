"""Tests for tests.bench.disk_rate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.command_line import parser_of
from tests.bench.confined import CannotConfine
from tests.bench.disk_rate import add_disk_rate_option, held_reads


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """Returns a folder with a disk and a memory device."""
    made = tmp_path / "block"
    for name, number in (("vda", "254:0"), ("loop0", "7:0")):
        (made / name).mkdir(parents=True)
        (made / name / "dev").write_text(f"{number}\n")
    (made / "vda" / "device").mkdir()
    return made


def test_all_disks_are_held_and_the_process_leaves_the_group(
    tmp_path: Path, devices: Path, monkeypatch: pytest.MonkeyPatch
):
    groups = tmp_path / "groups"
    (groups / "blkio").mkdir(parents=True)
    monkeypatch.setattr(Path, "rmdir", lambda group: None)
    with held_reads(250, groups, devices):
        [group] = [one for one in (groups / "blkio").iterdir() if one.is_dir()]
        assert (group / "blkio.throttle.read_bps_device").read_text() == "254:0 250000000"
        assert (group / "cgroup.procs").read_text() == str(os.getpid())
    assert (groups / "blkio" / "cgroup.procs").read_text() == str(os.getpid())


def test_what_a_killed_bench_left_behind_is_removed_and_what_a_running_one_has_is_not(tmp_path: Path, devices: Path):
    above = tmp_path / "groups" / "blkio"
    # No process has the first id, which is the kernel's maximum; the other is ours.
    left, running = above / f"ragdoll-bench-{2**22}-1", above / f"ragdoll-bench-{os.getpid()}-1"
    for folder in (left, running):
        folder.mkdir(parents=True)
    with held_reads(250, tmp_path / "groups", devices):
        assert not left.exists()
        assert running.exists()


def test_a_group_that_a_process_is_still_in_is_waited_for(
    tmp_path: Path, devices: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "groups" / "blkio").mkdir(parents=True)
    asked = list[Path]()

    def rmdir(group: Path) -> None:
        asked.append(group)
        if len(asked) < 3:
            raise OSError("busy")

    with held_reads(250, tmp_path / "groups", devices):
        monkeypatch.setattr(Path, "rmdir", rmdir)
    assert len(asked) == 3
    assert len(set(asked)) == 1


def test_without_a_rate_nothing_is_held(tmp_path: Path, devices: Path):
    with held_reads(None, tmp_path / "nowhere", devices):
        assert not (tmp_path / "nowhere").exists()


def test_where_reads_cannot_be_held_that_is_said(tmp_path: Path, devices: Path):
    with pytest.raises(CannotConfine, match="version 1"), held_reads(250, tmp_path / "nowhere", devices):
        pass


@pytest.mark.parametrize("rate", ["0", "-1", "fast"])
def test_a_rate_is_a_number_above_zero(rate: str, capsys: pytest.CaptureFixture[str]):
    parser = parser_of("serving", "About.", "Quick.")
    add_disk_rate_option(parser)
    assert parser.parse_args(["--disk-rate", "1500"]).disk_rate == 1500
    assert parser.parse_args([]).disk_rate is None
    with pytest.raises(SystemExit):
        parser.parse_args(["--disk-rate", rate])
