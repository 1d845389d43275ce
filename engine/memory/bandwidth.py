"""Bandwidths of this machine, measured in a second or two: memory, multiplying and direct reads of the disk.

A first guess for the profile, which steps refine from then on: memory as copying uses it, the processor by a product of
matrices, the disk by reads that bypass the page cache, one, two and four at a time. Where something cannot be measured,
the profile keeps its careful default.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.memory.profile import DEPTHS, Profile

if sys.platform == "darwin":
    import fcntl

MIB = 2**20
CHUNK_BYTES, SAMPLE_BYTES, COPIED_BYTES = 2 * MIB, 64 * MIB, 64 * MIB
# The most time of each measurement.
LONGEST_SECONDS = 0.25
_MATRIX = 768
# Weights are read in blocks that must be unpacked; a copy moves each byte twice.
READING_SHARE = 0.8
# Operations per byte of 4-bit weights with their scales.
OPERATIONS_PER_BYTE = 2 * 32 / 18
# The prefix of files that are written only to be read back.
_PREFIX = ".bandwidth-"

Clock = Callable[[], float]


def measured(
    profile: Profile,
    folder: Path,
    sample: Path | None = None,
    clock: Clock = time.perf_counter,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Profile:
    """Returns the profile with what can be measured here; call it on a thread that nothing waits for: it takes seconds.

    Args:
        profile: What is known or guessed.
        folder: Where a file can be written to be read again, on the disk that the models are on.
        sample: A large file to read instead, such as a model.
        clock: Seconds.
        is_wanted: Called between measurements; once it is False, the profile is returned unchanged.
    """
    found: dict[str, Any] = {}
    for measure in (_memory_rate, _processor_rate, lambda at: _disk(folder, sample, at)):
        if not is_wanted():
            return profile
        found |= measure(clock)
    return replace(profile, is_measured=True, **found)


def _memory_rate(clock: Clock) -> dict[str, Any]:
    return {"ram_bytes_per_s": READING_SHARE * copy_rate(clock)}


def _processor_rate(clock: Clock) -> dict[str, Any]:
    return {"processor_rate": product_rate(clock) / OPERATIONS_PER_BYTE}


def _disk(folder: Path, sample: Path | None, clock: Clock) -> dict[str, Any]:
    rates = disk_rates(folder, sample, clock)
    return {} if rates is None else {"disk_bytes_per_s": rates}


def copy_rate(clock: Clock = time.perf_counter) -> float:
    """Returns how many bytes of memory all cores together read and write per second."""
    num_threads = min(os.cpu_count() or 1, 16)
    part = COPIED_BYTES // num_threads
    pairs = [(np.ones(part, np.uint8), np.zeros(part, np.uint8)) for _ in range(num_threads)]

    def copy(pair: tuple[np.ndarray, np.ndarray]) -> int:
        # numpy releases the GIL while it copies.
        np.copyto(pair[1], pair[0])
        return 2 * part

    with ThreadPoolExecutor(num_threads) as pool:
        return _best_rate(lambda: sum(pool.map(copy, pairs)), clock)


def product_rate(clock: Clock = time.perf_counter) -> float:
    """Returns operations of matrix products per second, by all cores at once: numpy uses one core for each."""
    num_threads = min(os.cpu_count() or 1, 16)
    pairs = [
        (np.ones((_MATRIX, _MATRIX), np.float32), np.ones((_MATRIX, _MATRIX), np.float32)) for _ in range(num_threads)
    ]

    def multiply(pair: tuple[np.ndarray, np.ndarray]) -> int:
        np.matmul(*pair)
        return 2 * _MATRIX**3

    with ThreadPoolExecutor(num_threads) as pool:
        return _best_rate(lambda: sum(pool.map(multiply, pairs)), clock)


def disk_rates(
    folder: Path, sample: Path | None = None, clock: Clock = time.perf_counter
) -> tuple[float, float, float] | None:
    """Returns bytes per second, read directly one, two and four at a time.

    None if nothing can be read or written, or the disk cannot be told from the cache.
    """
    try:
        with _file_to_read(folder, sample) as file, _opened(file) as opened:
            size = min(SAMPLE_BYTES, os.fstat(opened.descriptor).st_size // CHUNK_BYTES * CHUNK_BYTES)
            if not size or not opened.is_measurable:
                return None
            one, two, four = (_read_rate(opened, size, depth, clock) for depth in DEPTHS)
    except OSError:
        return None
    # From a file that was cut meanwhile nothing is read, and no plan can use a rate of 0.
    return (one, two, four) if min(one, two, four) > 0 else None


def _best_rate(work: Callable[[], int], clock: Clock) -> float:
    """Returns the fastest of several runs: other programs only take time away. The first one only warms up."""
    work()
    best, begun = 0.0, clock()
    while True:
        before = clock()
        amount = work()
        now = clock()
        best = max(best, amount / max(now - before, 1e-9))
        if now - begun >= LONGEST_SECONDS:
            return best


@contextmanager
def _file_to_read(folder: Path, sample: Path | None) -> Iterator[Path]:
    _drop_leftovers(folder)
    if sample is not None and sample.is_file() and sample.stat().st_size >= SAMPLE_BYTES:
        yield sample
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=_PREFIX) as file:
        piece = os.urandom(CHUNK_BYTES)
        for _ in range(SAMPLE_BYTES // CHUNK_BYTES):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        yield Path(file.name)


def _drop_leftovers(folder: Path) -> None:
    """Removes such files that an earlier process left when it was killed."""
    for file in folder.glob(f"{_PREFIX}*"):
        # Another process may be measuring there now; some systems keep what is open.
        with contextlib.suppress(OSError):
            file.unlink()


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that is open for reading; `is_direct`: reads bypass the cache."""

    descriptor: int
    is_direct: bool

    @property
    def is_measurable(self) -> bool:
        """Whether the disk can be told from the cache: Windows offers neither of both ways here."""
        return self.is_direct or hasattr(os, "posix_fadvise")

    def forget(self) -> None:
        """Makes the cache drop the file, where reads go through it."""
        if not self.is_direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _opened(file: Path) -> Iterator[_Opened]:
    """Opens a file so that reads bypass the cache where that is possible."""
    descriptor = None
    if hasattr(os, "O_DIRECT"):
        with contextlib.suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    if descriptor is not None and not _can_read(descriptor):
        os.close(descriptor)
        descriptor = None
    is_direct = descriptor is not None
    if descriptor is None:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
            is_direct = True
    try:
        yield _Opened(descriptor, is_direct)
    finally:
        os.close(descriptor)


def _can_read(descriptor: int) -> bool:
    """Returns whether direct reads work: some file systems open a file for direct reads and then refuse them."""
    with mmap.mmap(-1, CHUNK_BYTES) as buffer:
        try:
            return _read_into(descriptor, buffer, 0) > 0
        except OSError:
            return False


def _read_rate(opened: _Opened, size: int, depth: int, clock: Clock) -> float:
    """Returns bytes per second; each thread reads its own part of the file, into page-aligned memory.

    It does so repeatedly, unless the cache would answer the second time.
    """
    opened.forget()
    part = max(CHUNK_BYTES, size // depth // CHUNK_BYTES * CHUNK_BYTES)
    begun = clock()

    def read(number: int) -> int:
        total, offset = 0, 0
        with mmap.mmap(-1, CHUNK_BYTES) as buffer:
            while total == 0 or (clock() - begun < LONGEST_SECONDS and (opened.is_direct or total < part)):
                count = _read_into(opened.descriptor, buffer, (number * part + offset) % size)
                if count <= 0:
                    break
                total, offset = total + count, (offset + CHUNK_BYTES) % part
        return total

    with ThreadPoolExecutor(depth) as pool:
        total = sum(pool.map(read, range(depth)))
    return total / max(clock() - begun, 1e-9)


def _read_into(descriptor: int, buffer: mmap.mmap, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    content = os.read(descriptor, CHUNK_BYTES)
    buffer[: len(content)] = content
    return len(content)
