"""Tests for engine.library.stillness."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from engine.library.stillness import (
    GONE_PATIENCE_SECONDS,
    GONE_SETTLE_SECONDS,
    MAX_PATHS,
    MAX_SETTLE_SECONDS,
    PATIENCE_SECONDS,
    SETTLE_SECONDS,
    Stillness,
    coalesced,
)


class Disk(dict[str, tuple[Hashable, bool]]):
    """What lies where; what is not in it is not there."""

    def look(self, path: str) -> tuple[Hashable, bool]:
        return self.get(path, (None, False))

    def file(self, path: str, state: int = 0) -> None:
        self[path] = (state, False)

    def folder(self, path: str) -> None:
        self[path] = ("folder", True)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def stillness(disk: Disk) -> Stillness:
    return Stillness(disk.look)


def test_a_change_is_told_once_it_is_still_and_only_once(disk: Disk, stillness: Stillness) -> None:
    disk.file("/d/a")
    stillness.note("/d/a", 10.0)

    assert stillness.due(10.0 + SETTLE_SECONDS / 2) == ()
    assert stillness.next_due() == 10.0 + SETTLE_SECONDS
    assert stillness.due(10.0 + SETTLE_SECONDS) == ("/d/a",)
    assert stillness.next_due() is None
    assert len(stillness) == 0


def test_a_file_that_grows_is_waited_for_longer_and_longer(disk: Disk, stillness: Stillness) -> None:
    for moment in range(10):
        disk.file("/d/a", moment)
        stillness.note("/d/a", float(moment))

    assert stillness.due(9.0 + MAX_SETTLE_SECONDS - 0.01) == ()
    assert stillness.due(9.0 + MAX_SETTLE_SECONDS) == ("/d/a",)


def test_a_file_that_grows_unheard_is_waited_for_too(disk: Disk, stillness: Stillness) -> None:
    disk.file("/d/a", 1)
    stillness.note("/d/a", 0.0)
    disk.file("/d/a", 2)

    assert stillness.due(SETTLE_SECONDS) == ()
    assert stillness.due(10.0) == ("/d/a",)


def test_a_file_that_never_rests_is_looked_at_all_the_same(disk: Disk, stillness: Stillness) -> None:
    told = []
    for moment in range(2 * int(PATIENCE_SECONDS)):
        disk.file("/d/log", moment)
        stillness.note("/d/log", float(moment))
        told += [moment] if stillness.due(float(moment)) else []

    assert told == [int(PATIENCE_SECONDS)]


def test_saving_by_renaming_is_one_change(disk: Disk, stillness: Stillness) -> None:
    disk.file("/d/a.new", 2)
    stillness.note("/d/a.new", 0.0)
    del disk["/d/a.new"]
    disk.file("/d/a", 2)
    stillness.note("/d/a.new", 0.05)
    stillness.note("/d/a", 0.05)

    assert stillness.due(0.05 + SETTLE_SECONDS) == ("/d/a",)
    assert stillness.due(5.0) == ("/d/a.new",)


def test_what_vanishes_waits_until_nothing_else_does(stillness: Stillness) -> None:
    for number in range(20):
        stillness.note(f"/d/{number}", number * 0.9 * GONE_SETTLE_SECONDS)
        assert stillness.due(number * 0.9 * GONE_SETTLE_SECONDS) == ()

    assert len(stillness.due(20 * GONE_SETTLE_SECONDS)) == 20


def test_what_vanishes_for_ever_is_told_after_a_while(stillness: Stillness) -> None:
    moment, told = 0.0, ()
    while not told:
        stillness.note(f"/d/{moment}", moment)
        told = stillness.due(moment)
        moment += GONE_SETTLE_SECONDS / 2

    assert moment <= GONE_PATIENCE_SECONDS + GONE_SETTLE_SECONDS


@pytest.mark.parametrize("seconds", [1, 10, 200])
def test_what_was_copied_and_then_deleted_is_told_after_its_copy(
    disk: Disk, stillness: Stillness, seconds: int
) -> None:
    disk.folder("/d/new")
    for moment in range(seconds):
        stillness.note("/d/new", float(moment))
        stillness.due(float(moment))
    stillness.note("/d/new", float(seconds))
    for number in range(20):
        stillness.note(f"/d/old/{number}", seconds + 0.01 * number)

    told: list[tuple[str, ...]] = []
    while len(stillness):
        moment = stillness.next_due()
        assert moment is not None
        told.append(stillness.due(moment))
    assert told[0] == ("/d/new",)
    assert len(told[1]) == 20


def test_what_is_deleted_for_minutes_is_told_after_a_copy_that_never_rests(disk: Disk, stillness: Stillness) -> None:
    disk.folder("/d/new")
    told: list[str] = []
    for moment in range(int(2 * PATIENCE_SECONDS)):
        stillness.note("/d/new", float(moment))
        stillness.note(f"/d/old/{moment}", float(moment))
        told += stillness.due(float(moment))

    assert told[0] == "/d/new"
    assert "/d/old/0" in told


def test_what_happens_below_a_new_folder_belongs_to_it(disk: Disk, stillness: Stillness) -> None:
    disk.folder("/d/new")
    stillness.note("/d/new", 0.0)
    disk.file("/d/new/deep/a")
    stillness.note("/d/new/deep/a", 0.3)

    assert stillness.due(SETTLE_SECONDS + 0.1) == ()
    assert stillness.due(5.0) == ("/d/new",)


def test_a_change_that_was_undone_is_told_as_what_is_now(disk: Disk, stillness: Stillness) -> None:
    disk.file("/d/a")
    stillness.note("/d/a", 0.0)
    del disk["/d/a"]
    stillness.note("/d/a", 0.1)

    assert stillness.due(0.1 + SETTLE_SECONDS) == ()
    assert stillness.due(0.1 + GONE_SETTLE_SECONDS) == ("/d/a",)


def test_what_lies_below_another_place_is_not_told_apart() -> None:
    assert coalesced(["/d/a/b", "/d/a", "/d/ab", "/d/c/d/e", "/d/c"]) == ("/d/a", "/d/ab", "/d/c")
    assert coalesced([]) == ()


def test_very_many_files_become_their_folders() -> None:
    paths = [f"/d/{number % 3}/{number}" for number in range(MAX_PATHS + 1)]

    assert coalesced(paths) == ("/d/0", "/d/1", "/d/2")
    assert len(coalesced(paths[:MAX_PATHS])) == MAX_PATHS
