"""Tests for engine.library.debounce."""

from __future__ import annotations

import pytest

from engine.library.debounce import (
    GONE,
    GONE_PATIENCE_SECONDS,
    GONE_SETTLE_SECONDS,
    MAX_PATHS,
    MAX_SETTLE_SECONDS,
    PATIENCE_SECONDS,
    SETTLE_SECONDS,
    Debouncer,
    State,
    coalesced,
)


class Disk(dict[str, State]):
    """What lies where; what is not in it is not there."""

    def look(self, path: str) -> State:
        return self.get(path, GONE)

    def file(self, path: str, state: int = 0) -> None:
        self[path] = State(state, False)

    def folder(self, path: str) -> None:
        self[path] = State("folder", True)


class Watching:
    """A debouncer, and the disk at which it is told to look."""

    def __init__(self, disk: Disk) -> None:
        self._disk, self._debouncer = disk, Debouncer()
        self.next_due = self._debouncer.next_due

    def __len__(self) -> int:
        return len(self._debouncer)

    def note(self, path: str, now: float) -> None:
        self._debouncer.note(path, self._disk.look(path), now)

    def due(self, now: float) -> tuple[str, ...]:
        return self._debouncer.due({path: self._disk.look(path) for path in self._debouncer.quiet(now)}, now)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def debouncer(disk: Disk) -> Watching:
    return Watching(disk)


def test_a_change_is_told_once_it_is_still_and_only_once(disk: Disk, debouncer: Watching) -> None:
    disk.file("/d/a")
    debouncer.note("/d/a", 10.0)

    assert debouncer.due(10.0 + SETTLE_SECONDS / 2) == ()
    assert debouncer.next_due() == 10.0 + SETTLE_SECONDS
    assert debouncer.due(10.0 + SETTLE_SECONDS) == ("/d/a",)
    assert debouncer.next_due() is None
    assert len(debouncer) == 0


def test_a_file_that_grows_is_waited_for_longer_and_longer(disk: Disk, debouncer: Watching) -> None:
    for moment in range(10):
        disk.file("/d/a", moment)
        debouncer.note("/d/a", float(moment))

    assert debouncer.due(9.0 + MAX_SETTLE_SECONDS - 0.01) == ()
    assert debouncer.due(9.0 + MAX_SETTLE_SECONDS) == ("/d/a",)


def test_a_file_that_grows_unheard_is_waited_for_too(disk: Disk, debouncer: Watching) -> None:
    disk.file("/d/a", 1)
    debouncer.note("/d/a", 0.0)
    disk.file("/d/a", 2)

    assert debouncer.due(SETTLE_SECONDS) == ()
    assert debouncer.due(10.0) == ("/d/a",)


def test_what_changes_while_it_is_looked_at_is_not_told_yet() -> None:
    debouncer = Debouncer()
    debouncer.note("/d/a", State(1, False), 0.0)
    assert debouncer.quiet(10.0) == ("/d/a",)
    debouncer.note("/d/a", State(2, False), 9.9)
    debouncer.note("/d/b", State(1, False), 0.0)

    assert debouncer.due({"/d/a": State(1, False)}, 10.0) == ()
    assert debouncer.quiet(20.0) == ("/d/a", "/d/b")


def test_a_file_that_never_rests_is_looked_at_all_the_same(disk: Disk, debouncer: Watching) -> None:
    told = []
    for moment in range(2 * int(PATIENCE_SECONDS)):
        disk.file("/d/log", moment)
        debouncer.note("/d/log", float(moment))
        told += [moment] if debouncer.due(float(moment)) else []

    assert told == [int(PATIENCE_SECONDS)]


def test_saving_by_renaming_is_one_change(disk: Disk, debouncer: Watching) -> None:
    disk.file("/d/a.new", 2)
    debouncer.note("/d/a.new", 0.0)
    del disk["/d/a.new"]
    disk.file("/d/a", 2)
    debouncer.note("/d/a.new", 0.05)
    debouncer.note("/d/a", 0.05)

    assert debouncer.due(0.05 + SETTLE_SECONDS) == ("/d/a",)
    assert debouncer.due(5.0) == ("/d/a.new",)


def test_what_vanishes_waits_until_nothing_else_does(debouncer: Watching) -> None:
    for number in range(20):
        debouncer.note(f"/d/{number}", number * 0.9 * GONE_SETTLE_SECONDS)
        assert debouncer.due(number * 0.9 * GONE_SETTLE_SECONDS) == ()

    assert len(debouncer.due(20 * GONE_SETTLE_SECONDS)) == 20


def test_what_vanishes_for_ever_is_told_after_a_while(debouncer: Watching) -> None:
    moment, told = 0.0, ()
    while not told:
        debouncer.note(f"/d/{moment}", moment)
        told = debouncer.due(moment)
        moment += GONE_SETTLE_SECONDS / 2

    assert moment <= GONE_PATIENCE_SECONDS + GONE_SETTLE_SECONDS


@pytest.mark.parametrize("seconds", [1, 10, 200])
def test_what_was_copied_and_then_deleted_is_told_after_its_copy(disk: Disk, debouncer: Watching, seconds: int) -> None:
    disk.folder("/d/new")
    for moment in range(seconds):
        debouncer.note("/d/new", float(moment))
        debouncer.due(float(moment))
    debouncer.note("/d/new", float(seconds))
    for number in range(20):
        debouncer.note(f"/d/old/{number}", seconds + 0.01 * number)

    told: list[tuple[str, ...]] = []
    while len(debouncer):
        moment = debouncer.next_due()
        assert moment is not None
        told.append(debouncer.due(moment))
    assert told[0] == ("/d/new",)
    assert len(told[1]) == 20


def test_what_is_deleted_for_minutes_is_told_after_a_copy_that_never_rests(disk: Disk, debouncer: Watching) -> None:
    disk.folder("/d/new")
    told: list[str] = []
    for moment in range(int(2 * PATIENCE_SECONDS)):
        debouncer.note("/d/new", float(moment))
        debouncer.note(f"/d/old/{moment}", float(moment))
        told += debouncer.due(float(moment))

    assert told[0] == "/d/new"
    assert "/d/old/0" in told


def test_what_happens_below_a_new_folder_belongs_to_it(disk: Disk, debouncer: Watching) -> None:
    disk.folder("/d/new")
    debouncer.note("/d/new", 0.0)
    disk.file("/d/new/deep/a")
    debouncer.note("/d/new/deep/a", 0.3)

    assert debouncer.due(SETTLE_SECONDS + 0.1) == ()
    assert debouncer.due(5.0) == ("/d/new",)


def test_a_change_that_was_undone_is_told_as_what_is_now(disk: Disk, debouncer: Watching) -> None:
    disk.file("/d/a")
    debouncer.note("/d/a", 0.0)
    del disk["/d/a"]
    debouncer.note("/d/a", 0.1)

    assert debouncer.due(0.1 + SETTLE_SECONDS) == ()
    assert debouncer.due(0.1 + GONE_SETTLE_SECONDS) == ("/d/a",)


def test_what_lies_below_another_place_is_not_told_apart() -> None:
    assert coalesced(["/d/a/b", "/d/a", "/d/ab", "/d/c/d/e", "/d/c"]) == ("/d/a", "/d/ab", "/d/c")
    assert coalesced([]) == ()


def test_very_many_files_become_their_folders() -> None:
    paths = [f"/d/{number % 3}/{number}" for number in range(MAX_PATHS + 1)]

    assert coalesced(paths) == ("/d/0", "/d/1", "/d/2")
    assert len(coalesced(paths[:MAX_PATHS])) == MAX_PATHS
