"""Tests for tests.bench.confined, tests.bench.process_marks and tests.bench.side_process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench import confined, process_marks
from tests.bench.bench_model import bench_model, plain_tokens
from tests.bench.confined import CannotConfine, Group, Usage
from tests.bench.measured_answers import MeasuredAnswers
from tests.bench.peers import PeerFailed
from tests.bench.process_marks import Marks
from tests.bench.side_process import Limit, SideProcess
from tests.bench.test_bench_model import SMALL

V1_STATISTICS = "cache 900\nrss 500\nrss_huge 0\nshmem 300\nmapped_file 40\ntotal_cache 5000\ntotal_rss 6000\n"
V2_STATISTICS = "anon 500\nfile 900\nkernel 10\nshmem 300\nfile_mapped 40\npgmajfault 7\n"
V2_EVENTS = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n"
MIB = 2**20


@pytest.fixture
def parent() -> Group:
    try:
        return confined.find()
    except CannotConfine as error:
        pytest.skip(str(error))


def test_version_1_says_what_is_held_and_how_often_the_limit_was_hit() -> None:
    usage = confined.usage_v1(V1_STATISTICS, "12\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")

    assert usage == Usage(anonymous_bytes=500, shared_bytes=300, file_bytes=600, limit_hits=12, kills=1)
    assert usage.held_bytes == 800


def test_version_2_says_the_same() -> None:
    assert confined.usage_v2(V2_STATISTICS, V2_EVENTS) == confined.usage_v1(V1_STATISTICS, "12", "oom_kill 1")


def test_version_1_is_found_where_it_limits_memory(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").touch()

    assert confined.find(tmp_path) == Group(tmp_path / "memory", 1)


@pytest.mark.parametrize(("controllers", "is_there"), [("cpu memory pids\n", True), ("cpu pids\n", False)])
def test_version_2_is_found_where_groups_below_have_memory(tmp_path: Path, controllers: str, is_there: bool) -> None:
    (tmp_path / "cgroup.subtree_control").write_text(controllers)

    if is_there:
        assert confined.find(tmp_path) == Group(tmp_path, 2)
    else:
        with pytest.raises(CannotConfine, match="no control group for memory"):
            confined.find(tmp_path)


def test_what_a_process_read_and_wrote_is_in_its_text() -> None:
    text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"

    assert process_marks.bytes_of(text) == (8192, 4096)


def test_marks_tell_what_happened_in_between() -> None:
    assert Marks(9, 8, 7, 6).since(Marks(1, 2, 3, 4)) == Marks(8, 6, 4, 2)


def test_a_read_past_the_page_cache_is_seen(tmp_path: Path) -> None:
    if not Path("/proc/self/io").exists():
        pytest.skip("the kernel does not count what a process reads")
    file = tmp_path / "file"
    file.write_bytes(os.urandom(2 * MIB))
    before = process_marks.take(None)
    confined.forget_pages(file)
    file.read_bytes()

    since = process_marks.take(None).since(before)

    # Reads from tmpfs touch no disk.
    assert since.read_bytes == 0 or since.read_bytes >= 2 * MIB
    assert since.limit_hits == 0


def test_a_side_answers_within_its_limit_and_leaves_no_group(tmp_path: Path, parent: Group) -> None:
    settings = {"model": str(bench_model(tmp_path, SMALL)), "num_cells": 256, "num_threads": 1, "is_repacked": False}
    before = set(parent.folder.iterdir())
    prompts = [list(plain_tokens(SMALL.vocabulary))[:8], list(plain_tokens(SMALL.vocabulary))[8:20]]

    with SideProcess.started("tests.bench.stock_side", settings, Limit(512 * MIB, parent)) as side:
        assert len(set(parent.folder.iterdir()) - before) == 1
        both = MeasuredAnswers.heard(side.ask(prompts=prompts, num_tokens=5))
        alone = [MeasuredAnswers.heard(side.ask(prompts=[prompt], num_tokens=5)) for prompt in prompts]

    # Groups that an earlier killed bench left behind may be gone as well.
    assert set(parent.folder.iterdir()) <= before
    assert [len(tokens) for tokens in both.tokens] == [5, 5]
    # An answer does not depend on the one beside it.
    assert both.tokens == (*alone[0].tokens, *alone[1].tokens)
    assert both.num_written == 8
    assert len(both.pass_seconds) == 4
    assert both.marks.limit_hits == 0


def test_what_a_killed_bench_left_behind_is_removed(parent: Group) -> None:
    # No process has this id: it is the kernel's maximum.
    left = parent.folder / f"ragdoll-bench-{2**22}-1"
    left.mkdir()

    with confined.confined(64 * MIB, parent) as group:
        assert group.usage().held_bytes == 0
        assert not left.exists()

    assert not group.folder.exists()


def test_a_side_that_wants_more_than_its_limit_is_said_to_have_been_killed(tmp_path: Path, parent: Group) -> None:
    settings = {"model": str(bench_model(tmp_path, SMALL)), "num_cells": 256, "num_threads": 1, "is_repacked": False}
    limit = Limit(8 * MIB, parent)

    with pytest.raises(PeerFailed, match="more memory"), SideProcess.started("tests.bench.stock_side", settings, limit):
        pass
