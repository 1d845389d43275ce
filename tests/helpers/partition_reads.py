"""Which partitions are read from the disk, in which order, and which of them there is no reading, or no room, for."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from engine.partitions import positioned
from engine.partitions.partition import Partition
from engine.partitions.residency import Residency

# What is tried twice has failed then.
FOR_GOOD = 2


class Reads:
    """From now on: `numbers` of the partitions whose reading began, and how often the disk `fails` for some of them.

    It fails where the system is asked, so that whatever is done about it is done. There is `no_room` in memory for a
    reading of others, so many times; that is told to whoever searches.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.fails: Counter[int] = Counter()
        self.no_room: Counter[int] = Counter()
        number_of: dict[int, int] = {}
        really_read, really_piece, really_occupy = Partition.read_block, positioned._piece, Residency._occupy

        def read(partition: Partition, *arguments: Any) -> None:
            self.numbers.append(partition.number)
            number_of[partition._descriptor] = partition.number
            try:
                really_read(partition, *arguments)
            finally:
                del number_of[partition._descriptor]

        def piece(descriptor: int, *arguments: Any) -> int:
            if descriptor in number_of and _takes_one(self.fails, number_of[descriptor]):
                raise OSError(errno.EIO, "the disk did not answer")
            return really_piece(descriptor, *arguments)

        def occupy(residency: Residency, partition: Partition, *arguments: Any) -> Any:
            if _takes_one(self.no_room, partition.number):
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            return really_occupy(residency, partition, *arguments)

        monkeypatch.setattr(Partition, "read_block", read)
        monkeypatch.setattr(positioned, "_piece", piece)
        monkeypatch.setattr(Residency, "_occupy", occupy)

    def fail(self, numbers: Iterable[int], times: int) -> None:
        self.fails.update(dict.fromkeys(numbers, times))


def _takes_one(left: Counter[int], number: int) -> bool:
    if not left[number]:
        return False
    left[number] -= 1
    return True
