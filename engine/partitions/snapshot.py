"""A snapshot: all rows as they were at one moment, for a sweep to look at while others change them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask
from engine.partitions.partition import Partition


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """A partition and the mask of its rows that the table still has; None means all."""

    partition: Partition
    alive: Mask | None

    def wanted(self, documents: Documents | None) -> Wanted | None:
        """Returns the rows of these documents; None if there are none, so that the partition need not be read."""
        if documents is None:
            return Wanted(self.partition, self.alive)
        mask = self.partition.in_documents(documents)
        if mask is not None and self.alive is not None:
            mask &= self.alive
        return Wanted(self.partition, mask) if mask is not None and mask.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """The rows of a partition that a sweep scans."""

    partition: Partition
    mask: Mask | None

    @property
    def num_rows(self) -> int:
        return self.partition.count if self.mask is None else int(np.count_nonzero(self.mask))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows as they were at one moment.

    `missing` are the numbers of shards whose rows only LanceDB has, `open_numbers` those with rows in memory; `newest`
    is the number of new rows.
    """

    sealed: tuple[Sealed, ...]
    open: tuple[View, ...]
    missing: tuple[int, ...]
    open_numbers: tuple[int, ...] = ()
    newest: int = 0

    @property
    def outline_bytes(self) -> int:
        """The memory that partitions need even when they are not resident."""
        return sum(
            sealed.partition.outline_bytes + (0 if sealed.alive is None else sealed.alive.nbytes)
            for sealed in self.sealed
        )
