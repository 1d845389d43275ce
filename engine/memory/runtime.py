"""The runtime: what interpreter and libraries take, measured when the engine starts and as more are imported.

These bytes cannot be counted, so they are what the process grew by while nothing else did. From then on they stay as
they were measured: what the process holds beyond the ledger later is shown as not accounted for, and is our own fault.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.memory.hardware import ProcessMemory, own_memory
from engine.memory.heap import Heap, heap
from engine.memory.ledger import Growth, Lease, Ledger

OWNER = "runtime"
BASE, LIBRARIES, FREED = "interpreter and libraries", "libraries' files", "freed, kept for the next use"
# What cannot be told apart from something else is taken as the minimum of this many looks: the first may find something
# temporary as well.
_LOOKS_TO_SETTLE = 10
# Owners whose memory is in helper processes.
OTHER_PROCESSES = ("parsers",)


@dataclass(slots=True, eq=False)
class _Growing:
    """Something that is being loaded: what was unknown before it, and by how much that has grown at the last look."""

    before_bytes: int
    num_bytes: int = 0


@dataclass(slots=True, eq=False)
class _Settling:
    """Growth that could not be told apart from something else, and how many more looks may reduce it."""

    num_bytes: int = 0
    looks_left: int = 0


@dataclass(frozen=True, slots=True)
class Remainder:
    """What the process holds and the ledger does not know; negative where the ledger has more than the process.

    `kept_bytes` is memory that the system cannot take back, `mapped_bytes` are pages of files.
    """

    kept_bytes: int
    mapped_bytes: int


def remainder(ledger: Ledger, process: ProcessMemory) -> Remainder:
    """Returns the remainder of the ledger's process; 0 where the system does not report memory by kinds.

    There, pages that a library or a model has mapped would look like memory that no owner has entered.
    """
    if not process.tells_kinds:
        return Remainder(0, 0)
    kept = _held(ledger, is_mapped=False)
    return Remainder(process.kept_bytes - kept, process.file_bytes - _held(ledger, is_mapped=True))


def in_other_processes(ledger: Ledger) -> int:
    """Returns memory that is ours but not part of this process."""
    return sum(ledger.held_bytes("ram", owner) for owner in OTHER_PROCESSES)


class Runtime:
    """Enters what is measured in the ledger, with the owner `runtime`. Thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        process: Callable[[], ProcessMemory] = own_memory,
        allocator: Callable[[], Heap] = heap,
    ) -> None:
        """Measures what is there already; `process` and `allocator` report what the process and the heap hold."""
        self._ledger, self._process, self._allocator = ledger, process, allocator
        self._lock = threading.RLock()
        self._lacking_bytes = self._base_bytes = 0
        # In this order: both use what the first one finds.
        ledger.measure(OWNER, FREED, "ram", self._freed)
        ledger.measure(OWNER, BASE, "ram", lambda: self._less_lacking(self._base_bytes))
        unknown_bytes = self._unknown_bytes()
        self._base_bytes = unknown_bytes + self._lacking_bytes
        ledger.look()
        ledger.measure(OWNER, LIBRARIES, "ram", self._library_bytes, is_mapped=True)
        self._unmeasured: list[str] = []
        self._settling = _Settling()
        # All further growth belongs to the load that began last.
        self._growing: tuple[_Growing, ...] = ()
        ledger.growing = self.growing

    @contextmanager
    def growing(self, owner: str, what: str) -> Iterator[Growth]:
        """Enters what the process grows by in the block, beyond what others enter meanwhile.

        Until the block ends, the growth so far counts as the runtime's: it takes seconds, in which the ledger is read.
        If something else is being loaded at the time, the two cannot be told apart: then the growth is entered as the
        runtime's, once that is done (`settle`).
        """
        growth = Growth()
        is_quiet, growing = self._is_quiet, _Growing(self._unknown_bytes())
        lease = self._begin(growing, what) if is_quiet else None
        try:
            yield growth
        finally:
            # Temporary objects of the import are no part of it.
            gc.collect()
            self._ledger.look()
            with self._lock:
                self._growing = tuple(other for other in self._growing if other is not growing)
                if lease is not None and self._is_quiet:
                    growth.lease = self._enter(owner, what, growing.num_bytes)
                else:
                    self._unmeasured.append(what)
            if lease is not None:
                lease.release()

    def settle(self) -> bool:
        """Enters growth that could not be told apart from something else; returns False while it still cannot.

        Call it repeatedly: what was only temporary when it was entered is taken out again.
        """
        with self._lock:
            if self._unmeasured and self._is_quiet:
                unmeasured, self._unmeasured = self._unmeasured, []
                self._settling = _Settling(self._unknown_bytes(), _LOOKS_TO_SETTLE)
                self._measure_settled(", ".join(unmeasured), self._settling)
            elif self._settling.looks_left and self._is_quiet:
                self._settling.looks_left -= 1
                self._settling.num_bytes = max(0, self._settling.num_bytes + min(0, self._unknown_bytes()))
            return not self._unmeasured

    def unnamed_bytes(self) -> int:
        """Returns what the process keeps and the ledger does not know, by its last look; negative if that has more."""
        return remainder(self._ledger, self._process()).kept_bytes

    def _measure_settled(self, what: str, settling: _Settling) -> None:
        if settling.num_bytes > 0:
            self._ledger.measure(OWNER, what, "ram", lambda: self._less_lacking(settling.num_bytes))

    def _begin(self, growing: _Growing, what: str) -> Lease:
        def so_far() -> int:
            if self._growing[-1:] == (growing,):
                growing.num_bytes = max(0, self._unknown_now() + growing.num_bytes - growing.before_bytes)
            return growing.num_bytes

        with self._lock:
            self._growing = (*self._growing, growing)
        return self._ledger.measure(OWNER, f"{what}, being loaded", "ram", so_far)

    def _enter(self, owner: str, what: str, num_bytes: int) -> Lease | None:
        if num_bytes <= 0:
            return None
        if owner == OWNER:
            return self._ledger.measure(owner, what, "ram", lambda: self._less_lacking(num_bytes))
        return self._ledger.take(owner, what, "ram", num_bytes)

    def _freed(self) -> int:
        """Returns what the allocator has spare; if more was allocated than written to, notes that as lacking.

        What is lacking was counted for the libraries that allocated it, so it is subtracted from theirs.
        """
        spare_bytes = self._allocator().spare_bytes
        self._lacking_bytes = max(0, -spare_bytes)
        return max(0, spare_bytes)

    def _less_lacking(self, num_bytes: int) -> int:
        """Subtracts what is lacking; called for each of the runtime's own entries, in their order, after `_freed`."""
        taken = min(num_bytes, self._lacking_bytes)
        self._lacking_bytes -= taken
        return num_bytes - taken

    def _unknown_bytes(self) -> int:
        self._ledger.look()
        return self._unknown_now()

    def _unknown_now(self) -> int:
        """Returns the same, by the last look."""
        process = self._process()
        if process.tells_kinds:
            return remainder(self._ledger, process).kept_bytes
        # Then it includes pages of files.
        return process.rss_bytes - _held(self._ledger, is_mapped=False) - _mapped(self._ledger)

    def _library_bytes(self) -> int:
        """Returns pages of all mapped files that no other owner has entered."""
        entered = _mapped(self._ledger) - self._ledger.held_bytes("ram", OWNER, is_mapped=True)
        return max(0, self._process().file_bytes - entered)

    @property
    def _is_quiet(self) -> bool:
        """Whether everything that is entered is there, and nothing is still being loaded."""
        return all(span.state != "loading" for span in self._ledger.spans("ram"))


def _mapped(ledger: Ledger) -> int:
    """Returns all that may be pages of files in memory: of a model that does not fit, any page may be there."""
    return ledger.held_bytes("ram", is_mapped=True) + ledger.held_bytes("disk", is_mapped=True)


def _held(ledger: Ledger, *, is_mapped: bool) -> int:
    others = sum(ledger.held_bytes("ram", owner, is_mapped=is_mapped) for owner in OTHER_PROCESSES)
    return ledger.held_bytes("ram", is_mapped=is_mapped) - others
