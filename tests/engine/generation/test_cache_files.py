"""Tests for engine.generation.cache_files and its format."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFull
from engine.generation import cache_format, cache_io
from engine.generation.cache_files import PAUSE_SECONDS, SILENCE_SECONDS, CacheFile, CacheFiles
from engine.generation.cache_format import CacheHeader, decode, header_length
from engine.generation.cache_thread import Urgency
from engine.generation.knowledge_tree import Piece, key_after
from engine.memory.ledger import Ledger
from tests.helpers.kept import drain

ROOT, OTHER = b"r" * 16, b"o" * 16


class Desk:
    """Cache files with what they said, a clock, and a way to wait for them."""

    def __init__(self, folder: Path, budget_bytes: int = 2**20) -> None:
        self.folder, self.ledger = folder, Ledger()
        self.problems, self.ended = [], queue.SimpleQueue()
        self.seconds = 0.0
        self.files = CacheFiles(folder, self.ledger, self.problems.append, lambda: self.seconds)
        assert self.files.scanned.wait(30)
        self.files.set_budget(budget_bytes)

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


@pytest.mark.parametrize("seed", range(20))
def test_a_file_cut_short_is_a_miss_and_deleted_at_the_start(make_desk, desk, seed):
    file = desk.write(header_of(), blob_of())
    os.truncate(file.path, random.Random(seed).randrange(file.num_bytes))
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
    assert [file.path.exists() for file in files] == [True, False, False, False]
    assert desk.files.documents() == frozenset()
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
