"""Kept KV on disk: one file per node, under one budget for all models, read ahead and written behind by a thread.

The files are the truth: there is no index that could disagree with them. A file that is stale, cut short, damaged or
somebody else's is a miss and is deleted; nothing here fails an answer. A disk that is full or failing becomes a
sentence, and caching goes on in memory.
"""

from __future__ import annotations

import errno
import itertools
import logging
import queue
import threading
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import DiskFull, LibraryError, RagdollError, is_disk_full
from engine.generation import cache_io
from engine.generation.cache_format import CacheHeader, encode_usage
from engine.memory.ledger import Ledger

log = logging.getLogger(__name__)

# After a failed write, none is tried for so long; and the sentence is said again no sooner than this.
PAUSE_SECONDS, SILENCE_SECONDS = 60.0, 600.0
_READS, _WRITES, _NOTES, _END = range(4)


@dataclass(slots=True, eq=False)
class CacheFile:
    """A file that is there, or will be once it is written; made and ended by `CacheFiles`."""

    path: Path
    header: CacheHeader
    mtime_ns: int
    is_removed: bool = False

    @property
    def num_bytes(self) -> int:
        return self.header.file_bytes


@dataclass(slots=True, eq=False)
class Transfer:
    """Bytes on their way between memory and a file; `succeeded` counts once `ended` is set."""

    file: CacheFile
    data: NDArray[np.uint8]
    is_read: bool
    succeeded: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


Ended = queue.SimpleQueue[Transfer]


class CacheFiles:
    """The files of all models. Lives as long as the engine; usable from any thread.

    `on_problem` is told, on the I/O thread, that the disk is full or failing; at most once in `SILENCE_SECONDS`.
    """

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        on_problem: Callable[[RagdollError], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._on_problem, self._now = folder, on_problem, now
        self._lock = threading.Lock()
        self._files: dict[Path, CacheFile] = {
            found.path: CacheFile(found.path, found.header, found.mtime_ns) for found in cache_io.find_all(folder)
        }
        self._open_roots: set[bytes] = set()
        self._budget_bytes = 0
        self._held_bytes = sum(file.num_bytes for file in self._files.values())
        self._lease = ledger.take("kv", "what was read, kept on disk", "disk", self._held_bytes)
        self._jobs: queue.PriorityQueue[tuple[int, int, Callable[[], None]]] = queue.PriorityQueue()
        self._serial = itertools.count()
        self._paused_until = self._silent_until = float("-inf")
        self.num_failures = 0
        # A process that ends without having closed this must not wait for it: a cache loses nothing that counts.
        self._thread = threading.Thread(target=self._run, name="kept KV", daemon=True)
        self._thread.start()

    @property
    def held_bytes(self) -> int:
        """Bytes of all files, those that are about to be written included."""
        return self._held_bytes

    @property
    def budget_bytes(self) -> int:
        return self._budget_bytes

    @property
    def takes_more(self) -> bool:
        """Whether writing makes sense now: there is a budget, and the disk has not just failed."""
        return self._budget_bytes > 0 and self._now() >= self._paused_until

    def open(self, root: bytes) -> list[CacheFile]:
        """The files under a root, parents first. They are not evicted from here until `close_root`."""
        with self._lock:
            self._open_roots.add(root)
            own = [file for file in self._files.values() if file.header.root == root]
        return sorted(own, key=lambda file: file.header.start)

    def close_root(self, root: bytes) -> None:
        """The root's keeper has gone; what it left is evicted like that of any model that is not loaded."""
        with self._lock:
            self._open_roots.discard(root)

    def set_budget(self, budget_bytes: int) -> None:
        """Bounds the bytes of all files. Those of models that are not open go at once, the longest unused first."""
        self._budget_bytes = budget_bytes
        self.make_room(0)

    def make_room(self, num_bytes: int) -> bool:
        """Whether so many more fit, once files of models that are not open have gone for them as need be."""
        if self._held_bytes + num_bytes > self._budget_bytes:
            with self._lock:
                closed = [file for file in self._files.values() if file.header.root not in self._open_roots]
            for file in sorted(closed, key=lambda file: file.mtime_ns):
                if self._held_bytes + num_bytes <= self._budget_bytes:
                    break
                self.remove(file)
        return self._held_bytes + num_bytes <= self._budget_bytes

    def write(self, header: CacheHeader, data: NDArray[np.uint8], ended: Ended) -> Transfer:
        """Writes a file behind; room was made. Until the transfer arrives in `ended`, `data` stays as it is."""
        path = cache_io.path_in(self._folder, header)
        file = CacheFile(path, header, time.time_ns())
        with self._lock:
            before = self._files.get(path)
            self._files[path] = file
            self._account(file.num_bytes - (before.num_bytes if before else 0))
            if before is not None:
                before.is_removed = True
        transfer = Transfer(file, data, is_read=False)
        self._put(_WRITES, lambda: self._carry_out(transfer, self._write, ended))
        return transfer

    def read(self, file: CacheFile, data: NDArray[np.uint8], ended: Ended) -> Transfer:
        """Reads a file's blob ahead into `data`, before anything is written."""
        transfer = Transfer(file, data, is_read=True)
        self._put(_READS, lambda: self._carry_out(transfer, self._read, ended))
        return transfer

    def note_usage(self, file: CacheFile, frequency: int, cost_per_token: float) -> None:
        """Writes into a file how it was used of late, which also makes it the youngest."""
        file.mtime_ns = time.time_ns()
        self._put(_NOTES, lambda: cache_io.write_usage(file.path, encode_usage(frequency, cost_per_token)))

    def remove(self, file: CacheFile) -> None:
        """Deletes a file now, or as soon as it is written. A second call does nothing."""
        with self._lock:
            if file.is_removed:
                return
            file.is_removed = True
            if self._files.get(file.path) is file:
                del self._files[file.path]
                self._account(-file.num_bytes)
            with suppress(OSError):
                file.path.unlink()

    def documents(self) -> frozenset[int]:
        """All documents of which some file holds text; the ones that are no more can be forgotten at the start."""
        with self._lock:
            return frozenset(document for file in self._files.values() for document in file.header.piece.documents)

    def forget(self, documents: Collection[int]) -> None:
        """Deletes every file that holds text of a document, and every path through it, whatever the model."""
        with self._lock:
            files = sorted(self._files.values(), key=lambda file: file.header.start)
        removed = set(documents)
        gone: set[bytes] = set()
        for file in files:
            if file.header.parent in gone or not removed.isdisjoint(file.header.piece.documents):
                gone.add(file.header.key)
                self.remove(file)

    def close(self) -> None:
        """Ends when everything that was to be written is. A second call does nothing."""
        if self._thread.is_alive():
            self._put(_END, lambda: None)
            self._thread.join()
            self._lease.release()

    def _put(self, urgency: int, job: Callable[[], None]) -> None:
        self._jobs.put((urgency, next(self._serial), job))

    def _run(self) -> None:
        urgency = _READS
        while urgency != _END:
            urgency, _, job = self._jobs.get()
            job()
            # What a job refers to is memory that is given back once it is done.
            del job

    def _carry_out(self, transfer: Transfer, work: Callable[[Transfer], bool], ended: Ended) -> None:
        try:
            transfer.succeeded = work(transfer)
        except Exception:  # the edge of a thread: whoever waits for the transfer must not wait for ever
            log.exception("Kept KV could not be moved: %s", transfer.file.path.name)
        transfer.data = _NOTHING
        # In this order: whoever has waited for it finds it there.
        ended.put(transfer)
        transfer.ended.set()

    def _read(self, transfer: Transfer) -> bool:
        return cache_io.read_blob(transfer.file.path, transfer.file.header, transfer.data)

    def _write(self, transfer: Transfer) -> bool:
        file = transfer.file
        if file.is_removed:
            return False
        header = replace(file.header, checksum=zlib.crc32(transfer.data.data))
        try:
            cache_io.write_file(file.path, header.encode(), transfer.data.data)
        except OSError as error:
            self.remove(file)
            self._tell(error)
            return False
        return self._written(file, header)

    def _written(self, file: CacheFile, header: CacheHeader) -> bool:
        with self._lock:
            file.header = header
            if file.is_removed:
                with suppress(OSError):
                    file.path.unlink()
            return not file.is_removed

    def _tell(self, error: OSError) -> None:
        now = self._now()
        self.num_failures += 1
        self._paused_until = now + PAUSE_SECONDS
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_SECONDS
            self._on_problem(_sentence(self._folder, error))

    def _account(self, change_bytes: int) -> None:
        self._held_bytes += change_bytes
        self._lease.resize(self._held_bytes)


_NOTHING: NDArray[np.uint8] = np.empty(0, np.uint8)


def _sentence(folder: Path, error: OSError) -> RagdollError:
    what = "What the model has read is kept in memory only until there is room again."
    if is_disk_full(error):
        return DiskFull(f"The disk that holds {folder} is full. {what}", "Free some space; nothing else is affected.")
    reason = error.strerror or errno.errorcode.get(error.errno or 0, "unknown error")
    return LibraryError(f"{folder} cannot be written to ({reason}). {what}", "See whether its disk is well.")
