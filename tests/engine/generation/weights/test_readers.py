"""Tests for engine.generation.weights.readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.generation.weights import readers as readers_module
from engine.generation.weights.readers import READS_AT_ONCE, Readers
from engine.generation.weights.ring import Ring

PATIENCE = 10.0


class Disk:
    """Pieces of ten bytes; a piece can be held up, or fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.failing: set[int] = set()
        self.error: Exception = OSError(5, "Input/output error")
        self.lock = threading.Lock()
        self.read: list[tuple[int, int]] = []
        self.under_way = self.most_under_way = 0

    def __call__(self, stage: int, index: int) -> int:
        with self.lock:
            self.read.append((stage, index))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        self.gate.wait(PATIENCE)
        with self.lock:
            self.under_way -= 1
        if stage in self.failing:
            raise self.error
        return 10


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def readers(disk: Disk) -> Iterator[Readers]:
    """Four stages of three pieces; all but the first pass through one slot."""
    readers = Readers(Ring([3] * 4), disk, 3, PATIENCE)
    with readers.still():
        readers.arrange({0: "home", 1: "slot", 2: "slot", 3: "slot"})
    yield readers
    disk.gate.set()
    readers.close()
    assert not readers.is_running


def run_pass(readers: Readers) -> None:
    for stage in range(4):
        assert readers.wait_for(stage)
        readers.advance(stage, ends_pass=stage == 3)


def test_stages_come_when_they_are_waited_for(readers: Readers, disk: Disk) -> None:
    for _ in range(3):
        readers.begin()
        run_pass(readers)
    counters = readers.counters()
    assert counters.read_bytes >= 10 * (3 + 3 * 9)
    assert [piece for piece in disk.read if piece[0] == 0] == [(0, 0), (0, 1), (0, 2)]


def test_only_the_time_in_which_anything_is_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(readers_module.time, "perf_counter", lambda: now[0])

    def read(stage: int, index: int) -> int:
        now[0] += 2.0
        return 10

    readers = Readers(Ring([3, 3]), read, 1, PATIENCE)
    try:
        with readers.still():
            readers.arrange({0: "a", 1: "b"})
        for stage in (0, 1):
            assert readers.wait_for(stage)
        now[0] += 100.0
        assert (readers.counters().read_bytes, readers.counters().reading_seconds) == (60, 12.0)
    finally:
        readers.close()


def test_while_the_disk_is_never_without_a_request_its_time_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now, is_asked, gate = [5.0], threading.Event(), threading.Event()
    monkeypatch.setattr(readers_module.time, "perf_counter", lambda: now[0])

    def read(stage: int, index: int) -> int:
        is_asked.set()
        gate.wait(PATIENCE)
        return 10

    readers = Readers(Ring([3, 3]), read, 2, PATIENCE)
    try:
        with readers.still():
            readers.arrange({0: "a", 1: "b"})
        assert is_asked.wait(PATIENCE)
        now[0] += 7.0
        assert (readers.counters().read_bytes, readers.counters().reading_seconds) == (0, 7.0)
    finally:
        gate.set()
        readers.close()


def test_a_pass_that_was_given_up_begins_anew(readers: Readers) -> None:
    readers.begin()
    for stage in (0, 1, 2):
        assert readers.wait_for(stage)
        readers.advance(stage, ends_pass=False)
    readers.rewind()
    run_pass(readers)


@pytest.mark.expects_warnings
def test_whoever_waits_is_told_at_once_when_a_read_fails(readers: Readers, disk: Disk) -> None:
    disk.failing = {2}
    readers.begin()
    assert readers.wait_for(1)
    readers.advance(1, ends_pass=False)
    assert not readers.wait_for(2)
    assert readers.error is not None
    disk.failing = set()
    readers.begin()
    assert readers.error is None
    run_pass(readers)


@pytest.mark.expects_warnings
def test_whatever_goes_wrong_with_a_read_is_a_failed_read(readers: Readers, disk: Disk) -> None:
    disk.failing, disk.error = {2}, ValueError("negative seek value")
    readers.begin()
    assert readers.wait_for(1)
    readers.advance(1, ends_pass=False)
    assert not readers.wait_for(2)
    assert str(readers.error) == "ValueError: negative seek value"
    disk.failing = set()
    readers.begin()
    run_pass(readers)
    assert all(thread.is_alive() for thread in readers._threads)


@pytest.mark.expects_warnings
def test_reads_that_were_under_way_as_one_failed_do_not_fail_the_next_try(disk: Disk) -> None:
    """Three pieces are read at once; the first fails, the others only as the disk is already tried again."""
    all_began, others = threading.Barrier(3), threading.Event()

    def read(stage: int, index: int) -> int:
        if stage in disk.failing:
            all_began.wait(PATIENCE)
            if index > 0:
                others.wait(PATIENCE)
            raise disk.error
        return disk(stage, index)

    def recover() -> None:
        disk.failing = set()
        others.set()

    disk.failing = {0}
    readers = Readers(Ring([3] * 4), read, 3, PATIENCE)
    with readers.still():
        readers.arrange(dict.fromkeys(range(4), "slot"))
    readers.begin()
    assert not readers.wait_for(0)
    threading.Timer(0.1, recover).start()
    readers.begin()
    assert readers.error is None
    run_pass(readers)
    readers.close()


@pytest.mark.expects_warnings
def test_a_read_that_does_not_come_back_fails_the_next_try_as_well(disk: Disk) -> None:
    is_under_way = threading.Event()

    def read(stage: int, index: int) -> int:
        if index > 0:
            is_under_way.set()
            disk.gate.wait(PATIENCE)
            return 10
        is_under_way.wait(PATIENCE)
        raise disk.error

    disk.gate.clear()
    readers = Readers(Ring([2, 2]), read, READS_AT_ONCE, 0.01)
    with readers.still():
        readers.arrange({0: "slot", 1: "slot"})
    readers.begin()
    while readers.error is None:
        readers.wait_for(0)
    for _ in range(2):
        readers.begin()
        assert readers.error is disk.error
        assert not readers.wait_for(0)
    disk.gate.set()
    readers.close()


def test_whoever_waits_longer_than_it_is_patient_gives_up(disk: Disk) -> None:
    readers = Readers(Ring([1, 1]), disk, READS_AT_ONCE, 0.01)
    disk.gate.clear()
    with readers.still():
        readers.arrange({0: "slot", 1: "slot"})
    readers.begin()
    assert not readers.wait_for(0)
    with readers.still() as is_still:
        assert not is_still
    disk.gate.set()
    for thread in readers._threads:
        assert thread.is_alive()
    readers.close()


def test_nothing_is_read_while_all_is_to_be_still(readers: Readers, disk: Disk) -> None:
    with readers.still() as is_still:
        assert is_still
        assert disk.under_way == 0
        before = len(disk.read)
        readers.begin()
        assert len(disk.read) == before
    run_pass(readers)


def test_closing_wakes_whoever_waits(disk: Disk) -> None:
    readers = Readers(Ring([1]), disk, READS_AT_ONCE, PATIENCE)
    disk.gate.clear()
    with readers.still():
        readers.arrange({0: "slot"})
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(readers.wait_for(0)))
    waiting.start()
    disk.gate.set()
    readers.close()
    waiting.join(PATIENCE)
    assert len(answers) == 1
