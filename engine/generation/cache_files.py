"""Kept KV on disk: one file per node, under one budget for all models; a thread reads ahead and writes behind.

The files are the only record: there is no index on disk that could disagree with them. The thread scans them at the
start, and they become known as they are found. A file that is stale, truncated, damaged or not a cache file is a miss
and is deleted; one that cannot be opened or deleted now is left for later; nothing here fails an answer. A full or
failing disk is reported in a sentence, and caching goes on in memory.
"""

from __future__ import annotations

import errno
import queue
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import DiskFull, LibraryError, RagdollError, is_disk_full
from engine.generation import cache_io
from engine.generation.cache_format import CacheHeader, encode_usage
from engine.generation.cache_index import CacheFile, CacheIndex
from engine.generation.cache_thread import CacheThread, Urgency
from engine.memory.ledger import Ledger

__all__ = ["CacheFile", "CacheFiles", "Ended", "Transfer"]

# Pause after a failed write, and the shortest time before its sentence is repeated.
PAUSE_SECONDS, SILENCE_SECONDS = 60.0, 600.0
# A file that another program has open is tried again after this long.
BUSY_SECONDS = 5.0
# The longest wait for files to be deleted, which usually takes less.
SHRINKING_SECONDS = 5.0
# Files that are scanned at a time; in between, files that prompts wait for can be read.
_LOOKED_AT_ONCE = 16

# "later": another program has the file open; it is unchanged and may be usable another time.
Outcome = Literal["moved", "failed", "later"]


@dataclass(slots=True, eq=False)
class Transfer:
    """Bytes in transit between memory and a file; `outcome` is valid once `ended` is set."""

    file: CacheFile
    data: NDArray[np.uint8]
    is_read: bool
    outcome: Outcome = "failed"
    is_unwanted: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def succeeded(self) -> bool:
        return self.outcome == "moved"


Ended = queue.SimpleQueue[Transfer]


class Holder(Protocol):
    """The keeper of an open root, which knows which of its files is the least valuable."""

    disk_bytes: int

    def let_one_go(self) -> bool:
        """Gives up the least valuable file; returns whether there was one to give up."""
        ...


class CacheFiles:
    """The files of all models. Lives as long as the engine; usable from any thread.

    `on_problem` is called on the I/O thread when the disk is full or failing, at most once in `SILENCE_SECONDS`.
    `on_scanned` is called on it once all files that existed at the start are known; `scanned` is set then.
    """

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        on_problem: Callable[[RagdollError], None],
        now: Callable[[], float] = time.monotonic,
        on_scanned: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._on_problem, self._on_scanned, self.now = folder, on_problem, on_scanned, now
        self._lock = threading.Lock()
        self._index = CacheIndex()
        self._found: dict[bytes, list[CacheFile]] = {}
        self._holders: dict[bytes, Holder] = {}
        # Files to delete, until they are deleted.
        self._doomed: set[Path] = set()
        self._tries_again_at = float("-inf")
        self._notes: dict[CacheFile, bytes] = {}
        # Until a budget is set, nothing is written and nothing is deleted.
        self._budget_bytes: int | None = None
        self._lease = ledger.take("kv", "what was read, kept on disk", "disk", 0)
        self._paused_until = self._silent_until = float("-inf")
        self._is_closed = False
        self.problem = ""
        self.scanned = threading.Event()
        self._unavailable: list[Path] = []
        self._scan = self._paths()
        self._thread = CacheThread("kept KV", self._use_pause)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folder that holds the files."""
        return self._folder

    @property
    def held_bytes(self) -> int:
        """Bytes of all known files, including those that are about to be written."""
        return self._index.held_bytes

    @property
    def budget_bytes(self) -> int:
        return self._budget_bytes or 0

    @property
    def is_over(self) -> bool:
        """Whether the files exceed the budget."""
        return self._budget_bytes is not None and self._lacks(0)

    @property
    def takes_more(self) -> bool:
        """Whether writing makes sense now: there is a budget, all files that count are known, and the disk works."""
        return self.budget_bytes > 0 and self.scanned.is_set() and self.now() >= self._paused_until

    def open(self, root: bytes) -> list[CacheFile]:
        """Returns the known files under a root, parents first; `found` returns others as they turn up.

        Until `close_root`, only the keeper that holds them evicts them.
        """
        with self._lock:
            self._found[root] = []
            return self._index.open(root)

    def is_open(self, root: bytes) -> bool:
        """Returns whether a keeper holds the files under a root; only one can."""
        return root in self._found

    def share(self, root: bytes, holder: Holder) -> None:
        """Lets the keeper of a root give up files for others until `close_root`; on the thread of all keepers."""
        self._holders[root] = holder

    def let_one_go(self, asker: Holder) -> bool:
        """Makes the holder with the most bytes, no fewer than `asker`, give up a file; returns whether one did.

        Otherwise the model that was loaded first would keep the whole budget. On the thread of all keepers.
        """
        holders = [holder for holder in self._holders.values() if holder.disk_bytes >= asker.disk_bytes]
        return any(holder.let_one_go() for holder in sorted(holders, key=lambda one: one.disk_bytes, reverse=True))

    def found(self, root: bytes, at_most: int) -> list[CacheFile]:
        """Returns files under an open root that turned up since, in no order; fewer than `at_most` if that is all."""
        taken = list[CacheFile]()
        if waiting := self._found.get(root):
            with self._lock:
                while waiting and len(taken) < at_most:
                    if not (file := waiting.pop()).is_removed:
                        taken.append(file)
        return taken

    def lacks_some(self, root: bytes) -> bool:
        """Returns whether there are files under a root that cannot be opened now, but may be at the next start."""
        return any(path.parent.name == root.hex() for path in self._unavailable)

    def leave(self, file: CacheFile) -> None:
        """Lets a file that its keeper cannot use now be evicted like those of models that are not open."""
        with self._lock:
            if not file.is_removed:
                self._index.leave(file)

    def close_root(self, root: bytes) -> None:
        """Lets a root's files be evicted like those of any model that is not loaded, as its keeper has closed."""
        with self._lock:
            self._found.pop(root, None)
            self._holders.pop(root, None)
            self._index.close(root)

    def set_budget(self, budget_bytes: int) -> None:
        """Bounds the bytes of all files. Those of models that are not open are deleted, least recently used first."""
        self._budget_bytes = budget_bytes
        self.make_room(0)

    def make_room(self, num_bytes: int) -> bool:
        """Deletes files of models that are not open as needed; returns whether `num_bytes` more fit."""
        with self._lock:
            while self._lacks(num_bytes) and (oldest := self._index.longest_unused()) is not None:
                self._doom(oldest)
        return not self._lacks(num_bytes)

    def write(self, header: CacheHeader, data: NDArray[np.uint8], ended: Ended) -> Transfer:
        """Writes a file in the background, after `make_room`; `data` must not change until the transfer has ended."""
        file = CacheFile(self._folder, header, time.time_ns())
        with self._lock:
            self._index.add(file)
            self._account()
        transfer = Transfer(file, data, is_read=False)
        self._thread.put(Urgency.WRITE, lambda: self._carry_out(transfer, self._write, ended))
        return transfer

    def read(self, file: CacheFile, data: NDArray[np.uint8], ended: Ended) -> Transfer:
        """Reads a file's blob into `data` in the background, before any pending write."""
        transfer = Transfer(file, data, is_read=True)
        self._thread.put(Urgency.READ, lambda: self._carry_out(transfer, self._read, ended))
        return transfer

    def read_now(self, file: CacheFile, data: NDArray[np.uint8]) -> Outcome:
        """Reads a file's blob into `data` while the caller waits; returns the outcome of that transfer."""
        return _OUTCOMES[cache_io.read_blob(file.path, file.header, data)]

    def note_usage(self, file: CacheFile, frequency: int, cost_per_token: float) -> None:
        """Writes into a file how it was used recently, which also makes it the most recently used."""
        file.mtime_ns = time.time_ns()
        with self._lock:
            file.header = replace(file.header, frequency=frequency, cost_per_token=cost_per_token)
            is_waiting = file in self._notes
            self._notes[file] = encode_usage(frequency, cost_per_token)
        if not is_waiting:
            self._thread.put(Urgency.NOTE, lambda: self._note(file))

    def keep_beside(self, name: str, content: Callable[[], bytes]) -> None:
        """Writes a small file of another kind in the background, replacing it; deletes it if there is no content."""
        path = self._folder / name
        self._thread.put(Urgency.WRITE, lambda: self._write_beside(path, content()))

    def remove(self, file: CacheFile) -> None:
        """Deletes a file in the background, even one that is about to be written. A second call does nothing."""
        with self._lock:
            if not file.is_removed:
                self._doom(file)

    def shrink(self, budget_bytes: int) -> None:
        """Lowers the bound of all files to at most this, and waits a while until the excess is deleted."""
        self.set_budget(min(self.budget_bytes, budget_bytes))
        have_gone = threading.Event()
        self._thread.put(Urgency.REMOVE, have_gone.set)
        have_gone.wait(SHRINKING_SECONDS)

    def documents(self) -> frozenset[int]:
        """Returns all documents of which some known file holds text."""
        with self._lock:
            return self._index.documents()

    def forget(self, documents: Collection[int]) -> None:
        """Deletes in the background every file that holds text of a document, and every path through it, of all models.

        None of them is found from now on. Files that a crash leaves behind are found and deleted at the next start.
        """
        with self._lock:
            for file in self._index.through(documents):
                self._doom(file)

    def close(self, seconds: float | None = None) -> None:
        """Ends once all pending files are written, or after `seconds`: the rest is not kept.

        A second call does nothing.
        """
        self._thread.close(seconds)
        with self._lock:
            self._is_closed = True
        self._lease.release()

    def _lacks(self, num_bytes: int) -> bool:
        return self._index.held_bytes + num_bytes > self.budget_bytes

    # --- with the lock held ---

    def _doom(self, file: CacheFile) -> None:
        path = file.path
        self._index.remove(file)
        self._account()
        self._doomed.add(path)
        self._thread.put(Urgency.REMOVE, lambda: self._delete(path))

    def _account(self) -> None:
        if not self._is_closed:
            self._lease.resize(self._index.held_bytes)

    def _is_known(self, path: Path) -> bool:
        try:
            file = self._index.get(bytes.fromhex(path.stem))
        except ValueError:
            return False
        return file is not None and file.path == path

    # --- on the I/O thread ---

    def _carry_out(self, transfer: Transfer, work: Callable[[Transfer], None], ended: Ended) -> None:
        try:
            if not self._thread.is_hurried:
                work(transfer)
        finally:
            transfer.data = _NOTHING
            # In this order, so that a thread that waits for `ended` finds the transfer in the queue.
            ended.put(transfer)
            transfer.ended.set()

    def _read(self, transfer: Transfer) -> None:
        if not transfer.is_unwanted:
            outcome = cache_io.read_blob(transfer.file.path, transfer.file.header, transfer.data)
            transfer.outcome = _OUTCOMES[outcome]

    def _write(self, transfer: Transfer) -> None:
        file = transfer.file
        if file.is_removed:
            return
        header = replace(file.header, checksum=zlib.crc32(transfer.data.data))
        try:
            outcome = cache_io.write_file(
                file.path,
                header.encode(),
                transfer.data.data,
                lambda: not (file.is_removed or self._thread.is_hurried),
            )
        except OSError as error:
            self.remove(file)
            self._tell(error)
            return
        if outcome == "written":
            self._written(transfer, header)
        elif outcome == "busy":
            self._paused_until = self.now() + BUSY_SECONDS
            transfer.outcome = "later"
        if not transfer.succeeded:
            self.remove(file)

    def _written(self, transfer: Transfer, header: CacheHeader) -> None:
        file = transfer.file
        with self._lock:
            file.header = replace(header, piece=header.piece.bare())
            if not file.is_removed:
                self._doomed.discard(file.path)
                transfer.outcome, self.problem = "moved", ""
        if file.is_removed:
            self._delete(file.path)

    def _tell(self, error: OSError) -> None:
        now = self.now()
        self._paused_until = now + PAUSE_SECONDS
        reported = _sentence(self._folder, error)
        self.problem = str(reported)
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_SECONDS
            self._on_problem(reported)

    def _note(self, file: CacheFile) -> None:
        with self._lock:
            usage = self._notes.pop(file)
        if not (file.is_removed or self._thread.is_hurried):
            cache_io.write_usage(file.path, usage)

    def _write_beside(self, path: Path, content: bytes) -> None:
        outcome = "unwanted"
        self._doomed.discard(path)
        try:
            if content:
                outcome = cache_io.write_file(path, content, memoryview(b""))
        except OSError as error:
            self._tell(error)
        if outcome != "written":
            # The previous file may hold text that must be forgotten, and so may one that a crash left half written.
            cache_io.delete(path.with_suffix(".tmp"))
            self._delete(path)

    def _delete(self, path: Path) -> None:
        """Deletes a doomed file, unless a new one took its place; remembers it if it cannot be deleted."""
        with self._lock:
            is_back = self._is_known(path)
        # Not under the lock, which no thread may hold during a slow disk operation.
        is_done = is_back or cache_io.delete(path)
        with self._lock:
            if is_done:
                self._doomed.discard(path)
            else:
                self._doomed.add(path)

    def _use_pause(self) -> float | None:
        if not self.scanned.is_set():
            self._look_through()
            return 0.0
        if self._doomed and self.now() >= self._tries_again_at:
            self._tries_again_at = self.now() + BUSY_SECONDS
            for path in list(self._doomed):
                self._delete(path)
        return BUSY_SECONDS if self._doomed else None

    def _look_through(self) -> None:
        for _ in range(_LOOKED_AT_ONCE):
            path = next(self._scan, None)
            if path is None:
                if self.is_over:
                    self.make_room(0)
                self.scanned.set()
                self._on_scanned()
                return
            self._take_found(path)

    def _paths(self) -> Iterator[Path]:
        """Yields all files below the folder; those that another program has open come again after all others."""
        yield from cache_io.paths_below(self._folder, self._is_preferred)
        again, self._unavailable = self._unavailable, []
        yield from again

    def _take_found(self, path: Path) -> None:
        with self._lock:
            if path in self._doomed or self._is_known(path):
                return
        found = cache_io.look_at(path, self._folder)
        if found == "damaged":
            self._delete(path)
        elif found == "unavailable":
            self._unavailable.append(path)
        if isinstance(found, str):
            return
        file = CacheFile(self._folder, found.header, found.mtime_ns)
        with self._lock:
            # It may have been written, or removed, in the meantime.
            if path not in self._doomed and not self._is_known(path):
                self._index.add(file)
                self._account()
                if (waiting := self._found.get(file.header.root)) is not None:
                    waiting.append(file)

    def _is_preferred(self, root: str) -> bool:
        return any(opened.hex() == root for opened in list(self._found))


_NOTHING: NDArray[np.uint8] = np.empty(0, np.uint8)
_OUTCOMES: dict[cache_io.ReadOutcome, Outcome] = {
    "read": "moved",
    "damaged": "failed",
    "unavailable": "later",
}


def _sentence(folder: Path, error: OSError) -> RagdollError:
    what = "What the model has read is kept in memory only until there is room again."
    if is_disk_full(error):
        return DiskFull(f"The disk that holds {folder} is full. {what}", "Free some space; nothing else is affected.")
    reason = error.strerror or errno.errorcode.get(error.errno or 0, "unknown error")
    return LibraryError(f"{folder} cannot be written to ({reason}). {what}", "Check that the disk is healthy.")
