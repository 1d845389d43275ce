"""Tests for engine.generation.cache_files and its format."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFull
from engine.generation import cache_format, cache_io
from engine.generation.cache_files import BUSY_SECONDS, PAUSE_SECONDS, SILENCE_SECONDS, CacheFile, CacheFiles
from engine.generation.cache_format import CacheHeader, decode, header_length
from engine.generation.cache_thread import Urgency
from engine.generation.knowledge_tree import Piece, key_after
from engine.memory.ledger import Ledger
from tests.helpers.kept import drain

ROOT, OTHER = b"r" * 16, b"o" * 16


class Desk:
    """Cache files with what they said, a clock, and a way to wait for them."""

    def __init__(self, folder: Path, budget_bytes: int = 2**20, waits: bool = True) -> None:
        self.folder, self.ledger = folder, Ledger()
        self.problems, self.ended = [], queue.SimpleQueue()
        self.seconds, self.times_scanned = 0.0, 0
        self.files = CacheFiles(folder, self.ledger, self.problems.append, lambda: self.seconds, self._note_scan)
        assert not waits or self.files.scanned.wait(30)
        self.files.set_budget(budget_bytes)

    def _note_scan(self) -> None:
        self.times_scanned += 1

    def write(self, header: CacheHeader, data: np.ndarray) -> CacheFile | None:
        transfer = self.files.write(header, data, self.ended)
        return transfer.file if self.wait(transfer) else None

    def read(self, file: CacheFile) -> np.ndarray | None:
        data = np.zeros(file.header.num_bytes, np.uint8)
        return data if self.wait(self.files.read(file, data, self.ended)) else None

    def wait(self, transfer) -> bool:
        assert self.ended.get(timeout=30) is transfer
        return transfer.succeeded

    def on_disk(self) -> int:
        drain(self.files)
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def exists(self, *files: CacheFile) -> tuple[bool, ...]:
        drain(self.files)
        return tuple(file.path.exists() for file in files)

    def check(self) -> None:
        assert self.files.held_bytes == self.on_disk() == self.ledger.held_bytes("disk", "kv")


@pytest.fixture
def make_desk(tmp_path: Path) -> Iterator:
    desks = []

    def make(folder: Path = tmp_path / "kept", **options) -> Desk:
        desks.append(Desk(folder, **options))
        return desks[-1]

    yield make
    for desk in desks:
        desk.files.close()
        assert desk.ledger.spans() == ()


@pytest.fixture
def desk(make_desk) -> Desk:
    return make_desk()


def blob_of(num_bytes: int = 5000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, num_bytes, np.uint8)


def header_of(*, parent: bytes = ROOT, start: int = 0, number: int = 1, root: bytes = ROOT, documents=(7,), size=5000):
    piece = Piece(tuple(range(number * 100, number * 100 + 20)), frozenset(documents))
    key = key_after(parent, piece)
    return CacheHeader(root, parent, key, start, piece, size, frequency=3, cost_per_token=0.25)


def reopened(make_desk, desk: Desk) -> Desk:
    desk.files.close()
    return make_desk(desk.folder)


def test_a_header_is_read_as_it_was_written():
    header = header_of(documents=(2**40, 5))
    data = header.encode()
    assert decode(data + b"more") == header
    assert header_length(data[:200]) == len(data) == header.header_bytes
    assert header.file_bytes == len(data) + 5000


def test_no_byte_of_a_header_may_be_another_but_those_of_usage():
    data = header_of().encode()
    usage = range(cache_format.USAGE_OFFSET, 32)
    for at in range(len(data)):
        changed = decode(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        assert (changed is not None) == (at in usage)
    for length in range(len(data)):
        assert decode(data[:length]) is None


def test_what_was_written_is_read_back(desk):
    data = blob_of()
    file = desk.write(header_of(), data)
    assert (desk.read(file) == data).all()
    desk.check()
    assert desk.files.held_bytes == file.num_bytes == file.path.stat().st_size


def test_after_a_restart_the_files_tell_everything_parents_first(make_desk, desk):
    parent = header_of()
    child = header_of(parent=parent.key, start=20, number=2)
    for header in (child, parent):
        desk.write(header, blob_of())
    again = reopened(make_desk, desk)
    found = again.files.open(ROOT)
    assert [file.header.key for file in found] == [parent.key, child.key]
    assert found[0].header.piece == parent.piece
    assert (found[0].header.frequency, found[0].header.cost_per_token) == (3, 0.25)
    assert (again.read(found[0]) == blob_of()).all()
    again.check()


def test_usage_is_mended_in_place(make_desk, desk):
    file = desk.write(header_of(), blob_of())
    desk.files.note_usage(file, 12, 0.5)
    again = reopened(make_desk, desk)
    (found,) = again.files.open(ROOT)
    assert (found.header.frequency, found.header.cost_per_token) == (12, 0.5)
    assert (again.read(found) == blob_of()).all()


@pytest.mark.parametrize("seed", range(40))
def test_a_file_damaged_anywhere_is_a_miss(desk, seed):
    random_ = random.Random(seed)
    file = desk.write(header_of(), blob_of())
    content = bytearray(file.path.read_bytes())
    usage = range(cache_format.USAGE_OFFSET, 32)
    at = random_.choice([each for each in range(len(content)) if each not in usage])
    content[at] ^= random_.randrange(1, 256)
    file.path.write_bytes(content)
    assert desk.read(file) is None


def test_files_cut_at_a_hundred_random_points_are_misses_and_deleted_at_the_start(make_desk, desk):
    random_, files = random.Random(9), [desk.write(header_of(number=n), blob_of()) for n in range(1, 101)]
    for file in files:
        os.truncate(file.path, random_.randrange(file.num_bytes))
        assert desk.read(file) is None
    again = reopened(make_desk, desk)
    assert again.files.open(ROOT) == []
    assert again.on_disk() == 0


def test_a_file_that_has_gone_is_a_miss(desk):
    file = desk.write(header_of(), blob_of())
    file.path.unlink()
    assert desk.read(file) is None


def test_strangers_and_leftovers_are_deleted_at_the_start(make_desk, desk):
    good = desk.write(header_of(), blob_of())
    folder = good.path.parent
    (folder / "half.tmp").write_bytes(b"x" * 10)
    (folder / "notes.txt").write_text("hello")
    (folder / ("ab" * 16 + ".kv")).write_bytes(good.path.read_bytes())
    older = bytearray(good.path.read_bytes())
    older[8] = 99
    (folder / ("cd" * 16 + ".kv")).write_bytes(older)
    elsewhere = desk.folder / OTHER.hex()
    elsewhere.mkdir()
    (elsewhere / good.path.name).write_bytes(good.path.read_bytes())
    again = reopened(make_desk, desk)
    assert [file.path for file in again.files.open(ROOT)] == [good.path]
    again.check()


def test_a_folder_that_is_none_is_empty_and_said_when_it_is_written_to(make_desk, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    desk = make_desk(tmp_path / "file")
    assert desk.files.open(ROOT) == []
    assert desk.write(header_of(), blob_of()) is None
    assert len(desk.problems) == 1
    assert (tmp_path / "file").read_text() == "not a folder"


def test_files_of_other_models_go_first_the_longest_unused_before(make_desk, desk):
    old, young = (desk.write(header_of(number=n, root=OTHER, parent=OTHER), blob_of()) for n in (1, 2))
    own = desk.write(header_of(), blob_of())
    os.utime(old.path, ns=(1, 1))
    again = reopened(make_desk, desk)
    again.files.open(ROOT)
    again.files.set_budget(own.num_bytes * 2)
    assert again.exists(old, young, own) == (False, True, True)
    assert again.files.make_room(own.num_bytes)
    assert again.exists(young, own) == (False, True)
    assert not again.files.make_room(own.num_bytes * 2)
    assert again.exists(own) == (True,)
    again.check()


def test_whoever_shrinks_them_finds_the_room_on_the_disk(desk, monkeypatch):
    delete = cache_io.delete
    # A disk that takes its time.
    monkeypatch.setattr(cache_io, "delete", lambda path: threading.Event().wait(0.1) or delete(path))
    files = [desk.write(header_of(number=n, root=OTHER, parent=OTHER), blob_of()) for n in (1, 2)]
    desk.files.set_budget(1 << 20)
    desk.files.shrink(0)
    assert [file.path.exists() for file in files] == [False, False]
    # And nothing grows by it.
    desk.files.shrink(1 << 20)
    assert desk.files.budget_bytes == 0


def test_what_an_open_model_has_is_its_own_to_give_up(desk):
    desk.files.open(ROOT)
    file = desk.write(header_of(), blob_of())
    desk.files.set_budget(10)
    assert desk.exists(file) == (True,)
    desk.files.close_root(ROOT)
    desk.files.set_budget(10)
    assert desk.exists(file) == (False,)


def test_a_document_is_forgotten_in_every_model_with_every_path_through_it(desk):
    kept, gone = header_of(documents=()), header_of(number=2, documents=(7, 8))
    behind = header_of(parent=gone.key, start=20, number=3, documents=())
    elsewhere = header_of(root=OTHER, parent=OTHER, documents=(8,))
    files = [desk.write(header, blob_of()) for header in (kept, gone, behind, elsewhere)]
    assert desk.files.documents() == {7, 8}
    desk.files.forget([8])
    assert desk.exists(*files) == (True, False, False, False)
    assert desk.files.documents() == frozenset()
    desk.check()


def test_who_forgets_a_document_does_not_wait_for_the_disk(desk):
    file, hold = desk.write(header_of(), blob_of()), threading.Event()
    desk.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    desk.files.forget([7])
    assert (file.path.exists(), desk.files.held_bytes) == (True, 0)
    hold.set()
    assert desk.exists(file) == (False,)
    desk.check()


def test_a_file_removed_before_it_is_written_never_appears(desk):
    hold = threading.Event()
    desk.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    transfer = desk.files.write(header_of(), blob_of(), desk.ended)
    desk.files.remove(transfer.file)
    desk.files.remove(transfer.file)
    assert desk.files.held_bytes == 0
    hold.set()
    assert not desk.wait(transfer)
    assert desk.on_disk() == 0
    assert desk.problems == []


def test_reading_goes_before_writing(desk):
    file, hold = desk.write(header_of(), blob_of()), threading.Event()
    desk.files._thread.put(Urgency.READ, lambda: hold.wait(30))
    desk.files.write(header_of(number=2), blob_of(), desk.ended)
    reading = desk.files.read(file, np.zeros(5000, np.uint8), desk.ended)
    hold.set()
    assert desk.wait(reading)
    assert not desk.ended.get(timeout=30).is_read


def test_a_full_disk_is_said_once_and_writing_pauses(desk, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_io, "write_file", full)
    assert desk.write(header_of(), blob_of()) is None
    assert [type(problem) for problem in desk.problems] == [DiskFull]
    assert "in memory" in str(desk.problems[0])
    assert not desk.files.takes_more
    desk.seconds = PAUSE_SECONDS
    assert desk.files.takes_more
    assert desk.write(header_of(), blob_of()) is None
    assert len(desk.problems) == 1
    desk.seconds = SILENCE_SECONDS + 1
    assert desk.write(header_of(), blob_of()) is None
    assert len(desk.problems) == 2
    monkeypatch.undo()
    assert desk.write(header_of(), blob_of()) is not None
    desk.check()


def test_a_disk_that_fails_is_said_with_its_reason(desk, monkeypatch):
    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cache_io, "write_file", failing)
    assert desk.write(header_of(), blob_of()) is None
    assert "Input/output error" in str(desk.problems[0])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_keeps_what_it_has(small_disk, make_desk):
    desk = make_desk(small_disk)
    first = desk.write(header_of(), blob_of())
    assert desk.write(header_of(number=2), np.zeros(100_000, np.uint8)) is None
    assert [type(problem) for problem in desk.problems] == [DiskFull]
    assert (desk.read(first) == blob_of()).all()
    desk.check()
    desk.files.close()


@pytest.mark.expects_warnings
def test_whoever_waits_is_told_even_of_what_nobody_expected(desk, monkeypatch):
    monkeypatch.setattr(cache_io, "write_file", lambda *_: 1 / 0)
    assert desk.write(header_of(), blob_of()) is None
    monkeypatch.undo()
    assert desk.write(header_of(), blob_of()) is not None


def test_closing_writes_what_was_to_be_written(make_desk, desk):
    for number in range(20):
        desk.files.write(header_of(number=number), blob_of(seed=number), desk.ended)
    again = reopened(make_desk, desk)
    assert len(again.files.open(ROOT)) == 20
    again.check()


@pytest.fixture
def in_use(monkeypatch) -> set[Path]:
    """Files that another program has open, as Windows sees it: they can neither be deleted nor replaced."""
    paths: set[Path] = set()
    unlink, put_in_place = Path.unlink, Path.replace

    def refused(path: Path) -> None:
        if path in paths:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")

    monkeypatch.setattr(Path, "unlink", lambda self, **options: (refused(self), unlink(self, **options))[1])
    monkeypatch.setattr(Path, "replace", lambda self, target: (refused(target), put_in_place(self, target))[1])
    return paths


def wait_until(is_so) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("how", ["remove", "forget"])
def test_a_file_that_is_in_use_is_deleted_later(desk, in_use, how):
    file = desk.write(header_of(), blob_of())
    in_use.add(file.path)
    desk.files.remove(file) if how == "remove" else desk.files.forget([7])
    assert desk.exists(file) == (True,)
    assert (desk.files.held_bytes, desk.files.documents()) == (0, frozenset())
    in_use.clear()
    desk.seconds = BUSY_SECONDS
    drain(desk.files)
    wait_until(lambda: not file.path.exists())
    assert desk.problems == []


def test_a_file_that_is_in_use_and_no_more_wanted_is_not_found_again(make_desk, desk, in_use):
    file = desk.write(header_of(), blob_of())
    in_use.add(file.path)
    desk.files.forget([7])
    again = reopened(make_desk, desk)
    # After a restart it is a file like any other, until it is forgotten again.
    assert again.files.documents() == {7}
    in_use.clear()
    again.files.forget(again.files.documents())
    assert again.on_disk() == 0


def test_a_file_that_cannot_be_replaced_now_is_no_trouble_of_the_disk(desk, in_use):
    path = desk.folder / ROOT.hex() / (header_of().key.hex() + ".kv")
    in_use.add(path)
    transfer = desk.files.write(header_of(), blob_of(), desk.ended)
    assert not desk.wait(transfer)
    assert transfer.outcome == "later"
    assert (desk.problems, desk.files.problem, desk.files.held_bytes) == ([], "", 0)
    assert not desk.files.takes_more
    in_use.clear()
    desk.seconds = BUSY_SECONDS
    assert desk.files.takes_more
    assert desk.write(header_of(), blob_of()) is not None
    desk.check()


def test_what_is_written_again_is_not_deleted_though_one_like_it_was_to_be(desk, in_use):
    file = desk.write(header_of(), blob_of())
    in_use.add(file.path)
    desk.files.remove(file)
    drain(desk.files)
    in_use.clear()
    again = desk.write(header_of(), blob_of(seed=1))
    desk.seconds = BUSY_SECONDS
    drain(desk.files)
    drain(desk.files)
    assert (desk.read(again) == blob_of(seed=1)).all()
    desk.check()


@pytest.fixture
def locked(monkeypatch) -> set[Path]:
    """Files that cannot be opened for reading now."""
    paths: set[Path] = set()
    open_path = Path.open

    def opened(self: Path, mode: str = "r", *options, **more):
        if self in paths and "w" not in mode:
            raise PermissionError(13, "Permission denied")
        return open_path(self, mode, *options, **more)

    monkeypatch.setattr(Path, "open", opened)
    return paths


def test_a_file_that_cannot_be_opened_now_is_a_miss_and_stays(make_desk, desk, locked):
    file = desk.write(header_of(), blob_of())
    locked.add(file.path)
    transfer = desk.files.read(file, np.zeros(5000, np.uint8), desk.ended)
    assert not desk.wait(transfer)
    assert transfer.outcome == "later"
    locked.clear()
    assert (desk.read(file) == blob_of()).all()
    locked.add(file.path)
    again = reopened(make_desk, desk)
    assert again.files.open(ROOT) == []
    assert file.path.exists()


def test_a_file_that_could_not_be_opened_is_looked_at_once_more_after_all_others(make_desk, desk, locked, monkeypatch):
    files = [desk.write(header_of(number=number), blob_of()) for number in range(10)]
    desk.files.close()
    locked |= {file.path for file in files[:3]}
    looked_at, look_at = [], cache_io.look_at

    def looked(path: Path, folder: Path):
        found = look_at(path, folder)
        looked_at.append(path)
        if len(looked_at) == len(files):
            # All but one are no longer open anywhere else.
            locked.intersection_update({files[0].path})
        return found

    monkeypatch.setattr(cache_io, "look_at", looked)
    again = make_desk(desk.folder)
    assert {file.path for file in again.files.open(ROOT)} == {file.path for file in files[1:]}
    assert set(looked_at[10:]) == {file.path for file in files[:3]}
    assert len(looked_at) == 13


def test_files_turn_up_as_they_are_found_and_nobody_waits_for_that(make_desk, desk, monkeypatch):
    for number in range(50):
        desk.write(header_of(number=number), blob_of())
    desk.files.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    again = make_desk(desk.folder, waits=False)
    assert again.files.open(ROOT) == []
    assert again.files.found(ROOT, 10) == []
    assert (again.files.held_bytes, again.times_scanned) == (0, 0)
    hold.set()
    assert again.files.scanned.wait(30)
    found = [again.files.found(ROOT, 30), again.files.found(ROOT, 30), again.files.found(ROOT, 30)]
    assert [len(files) for files in found] == [30, 20, 0]
    drain(again.files)
    assert again.times_scanned == 1
    again.check()


def test_no_more_is_taken_until_all_is_known_that_counts_to_the_budget(make_desk, desk, monkeypatch):
    file = desk.write(header_of(), blob_of())
    desk.files.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    again = make_desk(desk.folder, waits=False)
    assert (again.files.takes_more, again.files.held_bytes) == (False, 0)
    hold.set()
    assert again.files.scanned.wait(30)
    assert (again.files.takes_more, again.files.held_bytes) == (True, file.num_bytes)


def test_files_that_were_removed_before_they_were_asked_for_do_not_count_as_the_last(make_desk, desk, monkeypatch):
    for number in range(50):
        desk.write(header_of(number=number, documents=(number,)), blob_of())
    desk.files.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    again = make_desk(desk.folder, waits=False)
    again.files.open(ROOT)
    hold.set()
    assert again.files.scanned.wait(30)
    again.files.forget(range(0, 50, 2))
    # A caller that gets fewer than it asked for takes them for the last.
    assert [len(again.files.found(ROOT, 10)) for _ in range(4)] == [10, 10, 5, 0]


def test_those_of_the_model_that_is_loaded_are_found_first(make_desk, desk, monkeypatch):
    for number in range(20):
        desk.write(header_of(number=number, root=OTHER, parent=OTHER), blob_of())
        desk.write(header_of(number=number), blob_of())
    desk.files.close()
    hold, looked_at, look_at = threading.Event(), [], cache_io.look_at

    def looked(path: Path, folder: Path):
        hold.wait(30)
        looked_at.append(path.parent.name)
        return look_at(path, folder)

    monkeypatch.setattr(cache_io, "look_at", looked)
    again = make_desk(desk.folder, waits=False)
    again.files.open(ROOT)
    hold.set()
    assert again.files.scanned.wait(30)
    # A file that was looked at before it was opened comes before it.
    assert looked_at[1:20] == [ROOT.hex()] * 19 or looked_at[:20] == [ROOT.hex()] * 20


def test_a_budget_that_is_set_while_no_model_is_loaded_is_kept_by_what_is_found(make_desk, desk):
    files = [desk.write(header_of(number=number), blob_of()) for number in range(10)]
    for age, file in enumerate(reversed(files)):
        os.utime(file.path, ns=(10**18 - age, 10**18 - age))
    desk.files.close()
    again = make_desk(desk.folder, budget_bytes=3 * files[0].num_bytes, waits=False)
    assert again.files.scanned.wait(30)
    assert again.exists(*files) == (False,) * 7 + (True,) * 3
    again.check()


def test_what_is_written_while_files_are_looked_for_is_not_found_twice(make_desk, desk, monkeypatch):
    desk.write(header_of(), blob_of())
    desk.files.close()
    hold, look_at = threading.Event(), cache_io.look_at
    monkeypatch.setattr(cache_io, "look_at", lambda *where: (hold.wait(30), look_at(*where))[1])
    again = make_desk(desk.folder, waits=False)
    again.files.open(ROOT)
    transfer = again.files.write(header_of(), blob_of(seed=2), again.ended)
    hold.set()
    assert again.wait(transfer)
    assert again.files.scanned.wait(30)
    assert again.files.found(ROOT, 10) == []
    assert (again.read(transfer.file) == blob_of(seed=2)).all()
    again.check()


def test_a_small_file_beside_is_written_and_given_up(desk):
    desk.files.keep_beside("note.json", lambda: b"hello")
    drain(desk.files)
    assert (desk.folder / "note.json").read_bytes() == b"hello"
    desk.files.keep_beside("note.json", lambda: b"")
    drain(desk.files)
    assert not (desk.folder / "note.json").exists()


def test_a_small_file_that_cannot_be_written_does_not_leave_an_older_one(desk, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    desk.files.keep_beside("note.json", lambda: b"of a document that is removed")
    drain(desk.files)
    monkeypatch.setattr(cache_io, "write_file", full)
    desk.files.keep_beside("note.json", lambda: b"without it")
    drain(desk.files)
    assert not (desk.folder / "note.json").exists()
    assert [type(problem) for problem in desk.problems] == [DiskFull]


def test_a_problem_is_over_once_something_was_written(desk, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(cache_io, "write_file", full)
        desk.write(header_of(), blob_of())
    assert "full" in desk.files.problem
    desk.seconds = PAUSE_SECONDS
    desk.write(header_of(), blob_of())
    assert desk.files.problem == ""
