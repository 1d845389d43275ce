"""Tests for engine.retrieval.text_sample."""

from __future__ import annotations

from engine.partitions.rows import Hit
from engine.retrieval.text_sample import places, sample
from tests.helpers.chunk_rows import hit


def test_a_large_library_is_sampled_all_over_in_the_middle_of_its_documents() -> None:
    chosen = places([(number, 11) for number in range(1000)])

    assert len(chosen) == 36
    assert {ordinal for _, ordinal in chosen} == {5}
    ids = [document_id for document_id, _ in chosen]
    assert ids == sorted(set(ids))
    assert (ids[0], max(ids) > 900) == (0, True)


def test_of_a_small_library_several_passages_of_each_document_are_taken() -> None:
    assert places([(1, 30), (2, 1)]) == [(1, 5), (1, 15), (1, 25), (2, 0)]
    assert places([]) == []


class Library:
    """A table of which the second document has gone meanwhile."""

    def num_chunks_by_id(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1), (2, 1), (3, 1))

    def hits_at(self, document_id: int, first: int, count: int) -> list[Hit]:
        return [hit(f"{document_id}-{first}", f"text {document_id}")] if document_id != 2 else []


def test_what_has_gone_is_no_part_of_it() -> None:
    assert list(sample(Library(), Library())) == ["text 1", "text 3"]
