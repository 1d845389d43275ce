"""Which partitions are read from the disk, in which order, and which of them the disk does not give at once."""

from __future__ import annotations

from typing import Any

import pytest

from engine.partitions.partition import Partition


class Reads:
    """From now on: `numbers` of the partitions that were read; those in `fails` are not there the next time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.fails: set[int] = set()
        really_read = Partition.read_block

        def read(partition: Partition, *arguments: Any) -> None:
            if partition.number in self.fails:
                self.fails.discard(partition.number)
                raise OSError("the disk did not answer")
            self.numbers.append(partition.number)
            really_read(partition, *arguments)

        monkeypatch.setattr(Partition, "read_block", read)
