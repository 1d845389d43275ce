"""Coding: makes sure that the partitions of a large library have codes, all by one codebook.

The codebook is made from the library's own vectors, and again when there are four times as many, because later
documents may differ from the first ones. Nothing waits for it: partitions without codes are searched by their int8
rows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.memory.ledger import Ledger
from engine.partitions import codebook, codes, fast_scan
from engine.partitions.codebook import Codebook
from engine.partitions.codes import CodesFile
from engine.partitions.durable import dropped
from engine.partitions.layout import Origin, PartitionDamaged
from engine.partitions.partition import Partition
from engine.partitions.rows import Vectors

log = logging.getLogger(__name__)

# Fewer int8 rows are scanned in four milliseconds, so codes would gain nothing.
LEAST_ROWS = 50_000
_SAMPLED_ROWS = 25_000
_GROWN = 4


class Coding:
    """Codebook and codes in the partitions' folder. Used by one thread at a time, the one that maintains the files."""

    def __init__(self, folder: Path, origin: Origin, ledger: Ledger) -> None:
        self._folder, self._origin, self._ledger = folder, origin, ledger
        self._book: Codebook | None = None
        # The number of rows at the last attempt to make a codebook, successful or not.
        self._tried_with = 0
        # A codebook that could not be written yet.
        self._unwritten: Codebook | None = None

    @property
    def num_bytes(self) -> int:
        """The size of the codebook in memory."""
        return 0 if self._book is None else self._book.num_bytes

    def attach(self, partitions: Sequence[Partition]) -> None:
        """Connects partitions with the codes on the disk."""
        book = Codebook.read(self._folder, self._origin.embedder, self._origin.dimensions)
        if book is None or not fast_scan.is_available():
            return
        self._book, self._tried_with = book, book.trained_on
        for partition in partitions:
            partition.codes = self._found(partition, book)

    def carry_out(self, partitions: Sequence[Partition], stop: threading.Event) -> int:
        """Makes missing codes until `stop` is set; returns how many files were written.

        Raises:
            OSError: A file cannot be written; what is done stays.
        """
        self.drop_unused(partitions)
        num_rows = sum(partition.count for partition in partitions)
        if num_rows < LEAST_ROWS or not fast_scan.is_available():
            return 0
        try:
            if num_rows >= _GROWN * self._tried_with:
                self._make_book(partitions, num_rows)
            return 0 if self._book is None else self._code(partitions, self._book, stop)
        except PartitionDamaged as error:
            # The next search notices it as well, and the partition is rewritten then.
            log.info("codes will be made later: %s", error)
            return 0

    def _make_book(self, partitions: Sequence[Partition], num_rows: int) -> None:
        made = self._unwritten or self._made(partitions, num_rows)
        self._unwritten = made
        if made is None:
            log.info("vectors of this embedding model are not coded: too many candidates would be needed")
        else:
            made.write(self._folder)
            self._book = made
            log.info("codebook of %d rows: %s", made.trained_on, made.calibration)
        self._tried_with, self._unwritten = num_rows, None

    def _made(self, partitions: Sequence[Partition], num_rows: int) -> Codebook | None:
        num_bytes = 4 * self._origin.dimensions * _SAMPLED_ROWS
        lease = self._ledger.take("index", "codebook, being made", "ram", num_bytes, "loading")
        try:
            return codebook.made(_sample(partitions, num_rows), self._origin.embedder, num_rows)
        finally:
            lease.release()

    def _code(self, partitions: Sequence[Partition], book: Codebook, stop: threading.Event) -> int:
        done = 0
        for partition in partitions:
            if stop.is_set():
                break
            if partition.codes is None or partition.codes.book is not book:
                found = self._found(partition, book)
                done += found is None
                partition.codes = found or CodesFile.write(
                    self._path(partition), book, partition.header.block_crc, partition.pieces()
                )
        return done

    def _found(self, partition: Partition, book: Codebook) -> CodesFile | None:
        return CodesFile.find(self._path(partition), book, partition.header.block_crc, partition.count)

    def _path(self, partition: Partition) -> Path:
        return partition.path.with_suffix(codes.SUFFIX)

    def drop_unused(self, partitions: Sequence[Partition]) -> None:
        """Deletes codes of partitions that no longer exist."""
        kept = {self._path(partition) for partition in partitions}
        for path in self._folder.glob(f"*{codes.SUFFIX}"):
            if path not in kept:
                dropped(path)


def _sample(partitions: Sequence[Partition], num_rows: int) -> Vectors:
    """Returns a random sample of all vectors, shuffled; the same one for the same partitions."""
    random = np.random.default_rng(num_rows)
    chosen = np.sort(random.choice(num_rows, min(num_rows, _SAMPLED_ROWS), replace=False))
    parts, first = [], 0
    for partition in partitions:
        within = chosen[(chosen >= first) & (chosen < first + partition.count)] - first
        parts.append(partition.exact(within))
        partition.forget_pages()
        first += partition.count
    sample: Vectors = random.permutation(np.concatenate(parts))
    return sample
