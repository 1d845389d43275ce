"""Residency: which partitions are in memory, under a budget in bytes, each with its own line in the ledger.

A partition stays until its memory is needed for another one. Then the least used of those that the current sweep no
longer needs is evicted. So the next sweep finds as many in memory as the budget allows, and while one partition is
searched, the next can be read into the buffer of one that was already searched.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from engine.memory.ledger import Lease, Ledger
from engine.partitions.buffers import Buffer
from engine.partitions.codes import Codes, CodesFile
from engine.partitions.partition import Block, Partition

# The weight of the previous sweep relative to the current one.
_USE_DECAY = 0.9


@dataclass(slots=True, eq=False)
class Slot:
    """Memory for one partition: for its codes if it has any, otherwise for its int8 rows."""

    partition: Partition
    of_codes: CodesFile | None
    buffer: Buffer | None
    lease: Lease
    codes: Codes | None = None
    is_loaded: bool = False

    @property
    def num_bytes(self) -> int:
        return self.partition.shape.block_bytes if self.of_codes is None else self.of_codes.num_bytes

    def fill(self, cancelled: threading.Event) -> None:
        """Reads the codes or rows. Raises PartitionDamaged, CodesDamaged, Cancelled."""
        if self.of_codes is not None:
            self.codes = self.of_codes.load()
        elif self.buffer is not None:
            self.partition.read_block(self.buffer, cancelled)

    def block(self) -> Block:
        """Returns the int8 rows of a slot without codes."""
        assert self.buffer is not None
        return self.partition.block(self.buffer)

    def is_of(self, partition: Partition) -> bool:
        """Returns whether it holds this very file, with its present codes."""
        return self.partition is partition and self.of_codes is partition.codes

    def loaded(self) -> None:
        self.is_loaded = True
        self.lease.mark("resident")


class Residency:
    """Slots and their use. The holder of the store's sweep lock owns them; `budget_bytes` is set on any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._slots: dict[int, Slot] = {}
        self._use: dict[int, float] = {}
        self.budget_bytes = 0

    @property
    def num_bytes(self) -> int:
        return sum(slot.num_bytes for slot in self._slots.values())

    @property
    def numbers(self) -> tuple[int, ...]:
        """The shard numbers of what is in memory."""
        # A copy, because any thread may ask while a sweep loads and evicts.
        return tuple(number for number, slot in tuple(self._slots.items()) if slot.is_loaded)

    def slot_of(self, partition: Partition) -> Slot | None:
        """Returns the slot of this very file; None if it is not in memory."""
        slot = self._slots.get(partition.number)
        return slot if slot is not None and slot.is_loaded and slot.is_of(partition) else None

    def note_use(self, partitions: Iterable[Partition]) -> None:
        """Notes that a sweep will use these partitions."""
        self._use = {number: use * _USE_DECAY for number, use in self._use.items() if use > 1e-3}
        for partition in partitions:
            self._use[partition.number] = self.use_of(partition.number) + 1.0

    def use_of(self, number: int) -> float:
        return self._use.get(number, 0.0)

    def make_room(self, partition: Partition, needed: Collection[Slot], *, at_any_cost: bool = False) -> Slot | None:
        """Returns a slot to read a partition into, or None if the budget allows none.

        Args:
            partition: Will be read.
            needed: Slots that must not be evicted.
            at_any_cost: Exceed the budget if necessary, because it is too small for a single partition.
        """
        largest = partition.resident_bytes
        reusable: Buffer | None = None
        while self.num_bytes + largest > self.budget_bytes:
            victim = min(
                (slot for slot in self._slots.values() if slot not in needed),
                key=lambda slot: self.use_of(slot.partition.number),
                default=None,
            )
            if victim is None:
                break
            reusable = self._evict(victim)
        if self.num_bytes + largest > self.budget_bytes and not at_any_cost:
            return None
        return self._occupy(partition, reusable)

    def drop(self, slot: Slot) -> None:
        """Returns the memory of a slot to the system."""
        self._evict(slot)

    def keep_only(self, partitions: Collection[Partition]) -> None:
        """Releases slots of replaced or removed files, and int8 rows that have codes by now."""
        for slot in tuple(self._slots.values()):
            if slot.partition not in partitions or not slot.is_of(slot.partition):
                self._evict(slot)

    def fit(self) -> None:
        """Releases memory until the budget is met; the least used slots go first."""
        while self._slots and self.num_bytes > self.budget_bytes:
            self._evict(min(self._slots.values(), key=lambda slot: self.use_of(slot.partition.number)))

    def clear(self) -> None:
        for slot in tuple(self._slots.values()):
            self._evict(slot)

    def _occupy(self, partition: Partition, reusable: Buffer | None) -> Slot:
        if (outdated := self._slots.get(partition.number)) is not None:
            self._evict(outdated)
        codes = partition.codes
        buffer = _room(partition.shape.block_bytes, reusable) if codes is None else None
        num_bytes = partition.shape.block_bytes if codes is None else codes.num_bytes
        lease = self._ledger.take("index", f"partition {partition.number}", "ram", num_bytes, "loading")
        slot = Slot(partition, codes, buffer, lease)
        self._slots[partition.number] = slot
        return slot

    def _evict(self, slot: Slot) -> Buffer | None:
        if self._slots.get(slot.partition.number) is slot:
            del self._slots[slot.partition.number]
        slot.lease.release()
        return slot.buffer


def _room(num_bytes: int, reusable: Buffer | None) -> Buffer:
    """Returns a buffer of that size: the reusable one, if it is large enough."""
    if reusable is None or reusable.capacity_bytes < num_bytes:
        # Unused address space costs nothing, and so the buffer fits a slightly larger partition as well.
        reusable = Buffer(num_bytes + num_bytes // 8)
    reusable.trim(num_bytes)
    return reusable
