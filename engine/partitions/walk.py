"""A walk: the queries of one sweep, scanning rows of every kind, and the candidates found so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.partitions.candidates import Candidates, Rescoring
from engine.partitions.codebook import Codebook
from engine.partitions.codes import Codes
from engine.partitions.kernels import NumpyKernel
from engine.partitions.layout import PartitionDamaged
from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask, Numbers
from engine.partitions.partition import Block, Partition
from engine.partitions.rows import Found, Vectors
from engine.partitions.scanners import Scanners
from engine.partitions.snapshot import Wanted

# int8 may reverse the order of near neighbours, so more candidates than wanted are scored exactly: twelve for ten rows
# give a recall of 1.000 at 100,000 and at 1,000,000 vectors. Each candidate costs 2 µs warm and 50 µs cold.
MARGIN = 20
# Below this share it is cheaper to copy the wanted rows together than to scan them all.
_FEW = 1 / 8


class Walk:
    """The scan of one batch of queries, and its candidates."""

    def __init__(self, kernel: NumpyKernel, scanners: Scanners, queries: Vectors, limit: int, num_coded: int) -> None:
        """Begins with nothing found.

        Args:
            kernel: Scans int8 rows.
            scanners: Scan codes.
            queries: (q, d) unit vectors.
            limit: The number of rows wanted for each.
            num_coded: The number of rows that will be scanned by their codes.
        """
        self._kernel, self._scanners, self._limit, self._num_coded = kernel, scanners, limit, num_coded
        self._queries: Vectors = np.ascontiguousarray(queries, dtype=np.float32)
        self._pool = limit + max(MARGIN, limit // 4)
        self._turned: dict[int, Vectors] = {}
        self._candidates: list[Candidates] = []
        self._scanned_together: list[Sequence[Wanted]] = []
        self.damaged: list[Partition] = []
        self.num_skipped = 0

    # --- scanning ---

    def scan_view(self, view: View, documents: Documents | None) -> None:
        mask = view.alive
        if documents is not None:
            within = np.isin(view.packed.documents, documents)
            mask = within if mask is None else within & mask
        packed = view.packed
        self._scan(view, packed.ids, packed.rows, packed.scales, mask)

    def forget_views(self) -> None:
        """Drops candidates from open rows, which may change."""
        self._candidates = [found for found in self._candidates if not isinstance(found.source, View)]

    def scan_block(self, part: Wanted, block: Block) -> None:
        self._scan(part.partition, block.ids, block.rows, block.scales, part.mask)

    def scan_codes(self, book: Codebook, parts: Sequence[tuple[Wanted, Codes]]) -> None:
        """Scans several partitions together, all coded with this codebook."""
        pool = book.calibration.candidates(self._limit, self._num_coded)
        if book.crc not in self._turned:
            self._turned[book.crc] = book.turned(self._queries)
        found = self._scanners.best([(codes, part.mask) for part, codes in parts], self._turned[book.crc], pool)
        for (part, _), (positions, scores) in zip(parts, found, strict=True):
            self._candidates.append(Candidates(part.partition, positions, scores, book.crc, pool, None))
        self._scanned_together.append([part for part, _ in parts])

    def look_at(self, part: Wanted) -> None:
        """Scores all wanted rows of a partition exactly, reading only these; for few rows."""
        positions = np.arange(part.partition.count) if part.mask is None else np.flatnonzero(part.mask)
        try:
            scores = self._queries @ part.partition.exact(positions).T
        except PartitionDamaged:
            self.damaged.append(part.partition)
            return
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._pool]
        scores = np.take_along_axis(scores, best, axis=1)
        self._candidates.append(Candidates(part.partition, positions[best], scores, 0, self._pool, None))

    def _scan(
        self,
        source: Partition | View,
        ids: Numbers,
        rows: NDArray[np.int8],
        scales: NDArray[np.float32],
        mask: Mask | None,
    ) -> None:
        chosen = None
        if mask is not None and (count := int(np.count_nonzero(mask))) < len(rows) * _FEW:
            if not count:
                return
            chosen, mask = np.flatnonzero(mask), None
            rows, scales = rows[chosen], scales[chosen]
        positions, scores = self._kernel.scan(rows, scales, self._queries, min(self._pool, len(rows)), mask)
        positions = positions if chosen is None else chosen[positions]
        self._candidates.append(Candidates(source, positions, scores, 0, self._pool, ids[positions]))

    # --- what was found ---

    def likely(self, cold: list[Wanted], slack: float | None) -> list[Wanted]:
        """Returns the partitions that may have a row better than those found so far; all if `slack` is None."""
        scores = np.concatenate([found.scores[0] for found in self._candidates]) if self._candidates else np.zeros(0)
        if slack is None or len(scores) < self._limit:
            return cold
        enough = float(np.partition(scores, -self._limit)[-self._limit])
        query = self._queries[0]
        kept = [
            part
            for part in cold
            if float(query @ part.partition.centroid) + slack * part.partition.header.radius >= enough
        ]
        self.num_skipped = len(cold) - len(kept)
        return kept

    def ranked(self) -> list[list[Found]]:
        """Returns the best rows of each query by exact cosines; rows of damaged partitions are left out."""
        candidates = [found for found in self._candidates if found.source not in self.damaged]
        rescoring = Rescoring(self._queries, candidates, self._scanners)
        ranked = rescoring.ranked(self._limit)
        self.damaged += rescoring.damaged
        return ranked

    def cut_short(self) -> list[Wanted]:
        """Returns the partitions to scan again: those scanned together with a damaged one gave too few candidates.

        Their candidates are dropped. Partitions that were scanned alone gave as many as can be needed.
        """
        groups, short = self._scanned_together, list[Wanted]()
        self._scanned_together = [group for group in groups if not self._has_damaged(group)]
        for group in groups:
            if self._has_damaged(group):
                short += [part for part in group if part.partition not in self.damaged]
        again = [part.partition for part in short]
        self._candidates = [found for found in self._candidates if found.source not in again]
        return short

    def _has_damaged(self, parts: Sequence[Wanted]) -> bool:
        return any(part.partition in self.damaged for part in parts)
