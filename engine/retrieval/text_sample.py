"""A sample of a library's texts: a few passages of documents from all over it, to see what they are like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.partitions.rows import Hit

_MOST_TEXTS = 36
# Several texts of one document, because its beginning may be a cover page.
_MOST_OF_ONE = 3


class Sampled(Protocol):
    """The methods of the catalogue that are used here."""

    def num_chunks_by_id(self) -> Sequence[tuple[int, int]]: ...


class Passages(Protocol):
    """The methods of the table that are used here."""

    def hits_at(self, document_id: int, first: int, count: int) -> list[Hit]: ...


def sample(catalog: Sampled, table: Passages) -> Iterator[str]:
    """Yields a limited number of texts; the same ones until documents are added or removed. Raises LibraryError."""
    for document_id, ordinal in places(catalog.num_chunks_by_id()):
        for hit in table.hits_at(document_id, ordinal, 1):
            yield hit.text


def places(num_chunks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns documents and ordinals of chunks, spread evenly over both; `num_chunks` by document."""
    step = max(1.0, len(num_chunks) / _MOST_TEXTS)
    chosen = [num_chunks[int(index * step)] for index in range(min(_MOST_TEXTS, len(num_chunks)))]
    of_each = max(1, min(_MOST_OF_ONE, _MOST_TEXTS // max(1, len(chosen))))
    return [
        (document_id, ordinal)
        for document_id, count in chosen
        for ordinal in sorted({(2 * part + 1) * count // (2 * of_each) for part in range(of_each)})
    ]
