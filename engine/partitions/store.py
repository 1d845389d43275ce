"""The partition store answers which rows are nearest to a question; every dense search of the application asks it."""

from __future__ import annotations

from collections.abc import Collection

from engine.partitions.rows import Found, Vectors
from engine.partitions.table import ChunkTable


class PartitionStore:
    """The vectors of all chunks. Searched by the retrieval thread."""

    def __init__(self, table: ChunkTable) -> None:
        self._table = table

    def search(self, vectors: Vectors, limit: int, document_ids: Collection[int] | None = None) -> list[list[Found]]:
        """For each of the (q, d) unit vectors the `limit` rows with the largest cosine, best first.

        Args:
            vectors: float32; q = 0 gives an empty list.
            limit: At most this many rows for each.
            document_ids: Only rows of these documents; None means all.

        Raises:
            LibraryError: The index cannot be read.
        """
        return self._table.nearest(vectors, limit, document_ids)
