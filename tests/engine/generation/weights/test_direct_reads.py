"""Tests for engine.generation.weights.direct_reads."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from pathlib import Path

import pytest

from engine.generation.weights import direct_reads
from engine.generation.weights.direct_reads import DirectFiles, FileChanged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="direct reads are Linux's")

PAGE = mmap.PAGESIZE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    path.write_bytes(os.urandom(8 * PAGE + 100))
    return path


def read(files: DirectFiles, offset: int, num_bytes: int) -> bytes:
    # A mapping begins where a page does, which direct reads want.
    into = mmap.mmap(-1, num_bytes)
    files.read(0, offset, into)
    return into[:]


def test_pages_are_read_as_they_are(path: Path) -> None:
    files = DirectFiles([path])
    assert read(files, 2 * PAGE, 3 * PAGE) == path.read_bytes()[2 * PAGE : 5 * PAGE]
    assert files.read_buffered(0, 8 * PAGE, PAGE) == path.read_bytes()[8 * PAGE :]
    files.close()


def test_pages_are_read_through_the_cache_where_direct_reads_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preadv, refused = os.preadv, []

    def refuse(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if descriptor in direct:
            refused.append(descriptor)
            raise OSError(errno.EINVAL, "Invalid argument")
        return preadv(descriptor, buffers, offset)

    files = DirectFiles([path])
    direct = [one for one in files._direct if one is not None]
    monkeypatch.setattr(os, "preadv", refuse)
    for offset in (0, PAGE):
        assert read(files, offset, 2 * PAGE) == path.read_bytes()[offset : offset + 2 * PAGE]
    assert len(refused) == len(direct) == 1
    files.close()


def test_pages_are_read_through_the_cache_where_a_file_cannot_be_opened_for_direct_reads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_reads, "alignment", lambda descriptor: 0)
    files = DirectFiles([path])
    assert read(files, PAGE, PAGE) == path.read_bytes()[PAGE : 2 * PAGE]
    files.close()


def test_a_read_beyond_the_end_fails(path: Path) -> None:
    files = DirectFiles([path])
    with pytest.raises(FileChanged):
        read(files, 16 * PAGE, PAGE)
    files.close()


def test_what_was_written_since_the_file_was_opened_is_not_read(path: Path) -> None:
    files = DirectFiles([path])
    assert read(files, PAGE, PAGE) == path.read_bytes()[PAGE : 2 * PAGE]
    with path.open("r+b") as stream:
        stream.write(b"another model")
    with pytest.raises(FileChanged, match="changed while it was in use"):
        read(files, PAGE, PAGE)
    files.close()


def test_other_failures_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    files = DirectFiles([path])
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read(files, 0, PAGE)
    files.close()


def test_a_file_that_is_missing_leaves_no_other_open(path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        DirectFiles([path, path.with_name("missing.gguf")])
    assert set(os.listdir("/proc/self/fd")) == before


def test_the_unit_of_direct_reads_is_a_power_of_two_or_none(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    unit = direct_reads.alignment(descriptor)
    os.close(descriptor)
    assert unit & (unit - 1) == 0
    assert direct_reads.alignment(descriptor) == direct_reads.DEFAULT_ALIGN


def test_nothing_of_what_is_read_stays_in_the_page_cache(path: Path) -> None:
    files = DirectFiles([path])
    os.posix_fadvise(files._descriptors[0], 0, 0, os.POSIX_FADV_DONTNEED)
    os.sync()
    files.forget()
    read(files, 0, 8 * PAGE)
    assert num_cached(path) == 0
    files.close()


def num_cached(path: Path) -> int:
    """Pages of a file that are in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, flags=mmap.MAP_PRIVATE) as view:
        pages = (ctypes.c_ubyte * -(-len(view) // PAGE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(view)), pages) == 0
        return sum(page & 1 for page in pages)
