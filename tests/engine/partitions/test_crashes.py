"""Tests for the partitions' files under kills and full disks: whatever is left, the next start finds every row."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.partitions import open_rows
from engine.partitions.store import PartitionStore
from tests.helpers.partitions import FakeTable, assert_finds_what_the_table_has, document, filled_table, open_store


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it happens."""


class Disk:
    """Counts what is done to files, and from a chosen step on refuses: with a kill, or because it is full."""

    def __init__(self, refuse_at: int | None, refusal: Callable[[], BaseException]) -> None:
        self._refuse_at, self._refusal = refuse_at, refusal
        self.num_steps = 0

    def step(self) -> bool:
        """Whether this step is refused."""
        self.num_steps += 1
        return self._refuse_at is not None and self.num_steps > self._refuse_at

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **options: Any) -> Any:
            if self.step():
                raise self._refusal()
            return function(*args, **options)

        return stepping

    def opened(self, path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "w" in mode and self.step():
            raise self._refusal()
        file = open(path, mode, *args, **options)  # noqa: SIM115 - closed by the code under test
        return self._torn(file) if "w" in mode else file

    def _torn(self, file: Any) -> Any:
        """Of a write that is refused, half reaches the file."""
        disk = self

        class Torn:
            def __enter__(self) -> Torn:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

            def write(self, content: Any) -> None:
                if disk.step():
                    file.write(bytes(content)[: len(bytes(content)) // 2])
                    file.flush()
                    raise disk._refusal()
                file.write(content)

        return Torn()


@contextmanager
def disk(refuse_at: int | None, refusal: Callable[[], BaseException] = Killed) -> Iterator[Disk]:
    """Every file-system call that changes something is a step."""
    counted = Disk(refuse_at, refusal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", lambda path, *args, **options: counted.opened(path, *args, **options))
        patch.setattr(Path, "unlink", counted.wrapped(Path.unlink))
        patch.setattr(os, "replace", counted.wrapped(os.replace))
        patch.setattr(os, "mkdir", counted.wrapped(os.mkdir))
        patch.setattr(os, "fsync", counted.wrapped(lambda _: None))
        yield counted


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 16)


def a_life(table: FakeTable, folder: Path) -> PartitionStore:
    """Seals, rewrites, rebuilds, drops and notes, in the order of a busy library."""
    store = open_store(table, folder)
    store.maintain()
    table.delete_documents([1, 2, 9])
    table.put_documents(document(10, 7, 3, "changed"))
    store.maintain()
    table.delete_documents(range(17, 25))
    store.maintain()
    table.optimize()
    store._shards.mark_missing([store._shards.snapshot().sealed[0].partition])
    store.maintain()
    table.put_documents(document(100, 4, 4, "newest"))
    store.maintain()
    store.close()
    return store


def whole_life(folder: Path) -> int:
    """How many steps it has."""
    with disk(None) as counted:
        a_life(filled_table(4), folder)
    return counted.num_steps


def assert_the_next_start_mends(table: FakeTable, folder: Path) -> None:
    store = open_store(table, folder)
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 60)
    store.maintain()
    store.check_integrity()
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table, 60)
    assert table.asked_for == []
    assert not list(folder.glob("*.tmp"))
    assert {path.name for path in folder.glob("*.shard")} == {
        sealed.partition.path.name for sealed in store._shards.snapshot().sealed
    }
    store.close()


def test_a_kill_at_any_step_is_mended_by_the_next_start(tmp_path: Path):
    num_steps = whole_life(tmp_path / "whole")
    assert num_steps > 60
    for step in range(num_steps):
        table, folder = filled_table(4), tmp_path / str(step)
        with disk(step), pytest.raises(Killed):
            a_life(table, folder)
        assert_the_next_start_mends(table, folder)


def test_a_disk_that_is_full_at_any_step_loses_nothing(tmp_path: Path):
    num_steps = whole_life(tmp_path / "whole")
    for step in range(1, num_steps, 3):
        table, folder = filled_table(4), tmp_path / str(step)
        with disk(step, lambda: OSError(errno.ENOSPC, "No space left on device")), suppress(OSError):
            a_life(table, folder)
        assert_the_next_start_mends(table, folder)


def test_a_full_disk_stops_the_files_but_not_the_search(tmp_path: Path):
    table = filled_table(4)
    store = open_store(table, tmp_path)
    with disk(0, lambda: OSError(errno.ENOSPC, "No space left on device")):
        with pytest.raises(OSError, match="No space"):
            store.maintain()
        table.put_documents(document(100, 4, 4, "newest"))
        table.delete_documents([3])
        with pytest.raises(OSError, match="No space"):
            store.maintain()
        store.check_integrity()
        assert_finds_what_the_table_has(store, table, 60)
    store.maintain()
    store.check_integrity()
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table, 60)
    assert table.asked_for == []
    store.close()


@pytest.mark.expects_warnings
def test_a_store_opens_on_a_full_disk_and_recovers(tmp_path: Path):
    table, folder = filled_table(4), tmp_path / "shards"
    with disk(0, lambda: OSError(errno.ENOSPC, "No space left on device")):
        store = open_store(table, folder)
        table.delete_documents([3])
        assert_finds_what_the_table_has(store, table)
    store.maintain()
    store.check_integrity()
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == []
    store.close()


@pytest.mark.parametrize("seed", range(8))
def test_any_history_ends_with_what_the_table_has(tmp_path: Path, seed: int):
    random = np.random.default_rng(seed)
    table, arrived = FakeTable(), 0
    store = open_store(table, tmp_path, budget_bytes=int(random.integers(0, 20_000)))
    for _ in range(120):
        match random.choice(["put", "put", "put", "put", "delete", "search", "maintain", "close", "kill", "damage"]):
            case "put":
                count = int(random.integers(1, 9))
                table.put_documents(document(int(random.integers(1, 40)), count, arrived // 40, f"v{arrived}"))
                arrived += count
            case "delete":
                table.delete_documents(random.integers(1, 40, 2).tolist())
            case "search":
                wanted = None if random.random() < 0.5 else random.integers(1, 40, 10).tolist()
                assert_finds_what_the_table_has(store, table, 8, wanted)
            case "maintain":
                store.maintain()
            case "close":
                store.close()
                store = open_store(table, tmp_path, budget_bytes=int(random.integers(0, 20_000)))
            case "kill":
                store._caretaker.stop()
                killed, store = store, open_store(table, tmp_path)
                killed._folder = tmp_path / "nowhere"
                killed.close()
            case "damage":
                for path in list(tmp_path.glob("*.shard"))[:1]:
                    path.unlink()
        store.check_integrity() if random.random() < 0.2 and list(tmp_path.glob("*.shard")) else None
    store.close()
    again = open_store(table, tmp_path)
    again.maintain()
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 30)
    again.close()
