"""Tests for engine.memory.cgroup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.memory.cgroup import CgroupMemory, own_cgroup

UNLIMITED_V1 = 9_223_372_036_854_771_712
STAT_V1 = """\
cache 700
rss 100
total_cache 900
total_rss 300
total_shmem 50
total_mapped_file 120
total_inactive_file 400
total_active_file 200
"""
STAT_V2 = """\
anon 300
file 900
shmem 50
file_mapped 120
inactive_file 400
active_file 200
"""

Look = Callable[[str], CgroupMemory | None]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """A look at the made-up groups in "v1" and "v2", of a process of which /proc says `text`."""

    def looked(text: str) -> CgroupMemory | None:
        proc = tmp_path / "proc"
        proc.write_text(text)
        return own_cgroup((tmp_path / "v1", tmp_path / "v2"), proc)

    return looked


def v1_group(folder: Path, limit: int, usage: int, stat: str = STAT_V1, refused: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(stat)
    (folder / "memory.failcnt").write_text(f"{refused}\n")


def v2_group(folder: Path, limit: str, usage: int, stat: str = STAT_V2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(stat)
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\n")


def test_the_first_version_tells_of_our_group_and_the_groups_in_it(tmp_path: Path, look: Look):
    v1_group(tmp_path / "v1", UNLIMITED_V1, 9_000)
    v1_group(tmp_path / "v1" / "us", 2_000, 1_500, refused=3)
    assert look("5:cpu:/other\n4:memory:/us\n0::/\n") == CgroupMemory(
        limit_bytes=2_000,
        free_bytes=1_100,
        anonymous_bytes=300,
        shmem_bytes=50,
        file_bytes=850,
        mapped_file_bytes=120,
        num_refused=3,
        charged_file_bytes=120,
        charged_shmem_bytes=50,
    )


def test_the_second_version_tells_the_same(tmp_path: Path, look: Look):
    v2_group(tmp_path / "v2" / "user.slice" / "us", "2000", 1_500)
    found = look("0::/user.slice/us\n")
    assert found is not None
    assert (found.limit_bytes, found.free_bytes, found.kept_bytes, found.num_refused) == (2_000, 1_100, 350, 7)


def test_what_the_kernel_can_drop_of_its_own_is_free(tmp_path: Path, look: Look):
    v2_group(tmp_path / "v2" / "us", "2000", 1_500, STAT_V2 + "slab_reclaimable 250\nslab_unreclaimable 90\n")
    found = look("0::/us\n")
    assert found is not None
    assert found.free_bytes == 1_350


def test_the_tightest_of_the_groups_above_counts_with_all_that_is_used_in_it(tmp_path: Path, look: Look):
    v1_group(tmp_path / "v1" / "slice", 5_000, 4_900, STAT_V1.replace("mapped_file 120", "mapped_file 600"))
    v1_group(tmp_path / "v1" / "slice" / "us", 8_000, 1_000)
    found = look("4:memory:/slice/us\n")
    assert found is not None
    assert (found.limit_bytes, found.free_bytes) == (5_000, 700)
    assert (found.mapped_file_bytes, found.charged_file_bytes) == (120, 600)


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_limit_only_the_use_is_told(tmp_path: Path, look: Look, version: int):
    if version == 1:
        v1_group(tmp_path / "v1" / "us", UNLIMITED_V1, 1_000)
    else:
        v2_group(tmp_path / "v2" / "us", "max", 1_000)
    found = look("4:memory:/us\n" if version == 1 else "0::/us\n")
    assert found is not None
    assert (found.limit_bytes, found.free_bytes, found.charged_file_bytes) == (None, None, None)
    assert found.anonymous_bytes > 0


def test_a_group_over_its_limit_has_nothing_free(tmp_path: Path, look: Look):
    v1_group(tmp_path / "v1" / "us", 1_000, 1_700)
    found = look("4:memory:/us\n")
    assert found is not None
    assert found.free_bytes == 0


def test_what_slows_us_down_is_a_limit_as_well(tmp_path: Path, look: Look):
    v2_group(tmp_path / "v2/user", "9000", 1_000)
    (tmp_path / "v2/user/memory.high").write_text("4000\n")
    found = look("0::/user")
    assert found is not None
    assert (found.limit_bytes, found.free_bytes) == (4_000, 3_600)
    (tmp_path / "v2/user/memory.high").write_text("max\n")
    found = look("0::/user")
    assert found is not None
    assert found.limit_bytes == 9_000


def test_a_group_whose_memory_is_counted_further_up_is_looked_at_there(tmp_path: Path, look: Look):
    v2_group(tmp_path / "v2/user", "5000", 1_000)
    (tmp_path / "v2/user/app/inner").mkdir(parents=True)
    found = look("0::/user/app/inner")
    assert found is not None
    assert (found.limit_bytes, found.free_bytes) == (5_000, 4_600)


def test_a_container_that_shows_only_its_own_groups_is_looked_at_from_their_root(tmp_path: Path, look: Look):
    v1_group(tmp_path / "v1", 3_000, 600)
    for path in ("/docker/0123456789ab", "/../elsewhere"):
        found = look(f"4:memory:{path}\n")
        assert found is not None
        assert (found.limit_bytes, found.free_bytes) == (3_000, 3_000)


def test_where_both_versions_are_mounted_the_one_that_counts_memory_is_asked(tmp_path: Path, look: Look):
    (tmp_path / "v2").mkdir()
    v1_group(tmp_path / "v1" / "us", 2_000, 700)
    found = look("4:memory:/us\n0::/\n")
    assert found is not None
    assert found.limit_bytes == 2_000


def test_a_system_without_groups_has_none(tmp_path: Path, look: Look):
    assert look("") is None
    assert own_cgroup((tmp_path / "v1", tmp_path / "v2"), tmp_path / "no such file") is None
    assert look("0::/\n") is None


def test_this_process_can_be_asked():
    found = own_cgroup()
    if found is None:
        pytest.skip("this process is in no memory group that can be looked at")
    assert found.kept_bytes > 0
    assert found.kept_bytes > 0
