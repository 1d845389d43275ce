"""Tests for engine.retrieval.newness."""

from __future__ import annotations

from engine.core import Passage
from engine.retrieval.newness import new_passages
from tests.helpers.passages import passage

LEASE = passage("The notice period is three months.", document_id=1)
NEXT = passage("It ends at the end of a month.", document_id=1, start=40)
OTHER = passage("Bread needs flour.", document_id=2, score=0.9)


def nothing(_: Passage) -> tuple[Passage, ...]:
    return ()


def test_what_is_not_in_evidence_is_taken_best_first():
    assert new_passages([LEASE, OTHER], [], nothing, 2) == (LEASE, OTHER)
    assert new_passages([LEASE, OTHER], [], nothing, 1) == (LEASE,)


def test_a_passage_in_evidence_is_followed_by_what_comes_next_in_its_document():
    found = new_passages([LEASE, OTHER], [LEASE], lambda one: (NEXT,) if one == LEASE else (), 2)
    assert found == (NEXT, OTHER)


def test_what_comes_next_is_passed_over_as_far_as_it_is_known():
    third = passage("Both sides may end it.", document_id=1, start=80)
    assert new_passages([LEASE], [LEASE, NEXT], lambda _: (NEXT, third), 2) == (third,)


def test_nothing_follows_the_end_of_a_document():
    assert new_passages([LEASE, OTHER], [LEASE], nothing, 2) == (OTHER,)


def test_what_fits_far_worse_than_the_best_is_beside_the_point():
    far = passage("The weather is fine.", document_id=3, score=0.2)
    assert new_passages([LEASE, far], [], nothing, 2) == (LEASE,)


def test_the_best_passage_counts_also_where_it_is_in_evidence():
    far = passage("The weather is fine.", document_id=3, score=0.2)
    assert new_passages([LEASE, far], [LEASE], nothing, 2) == ()


def test_a_span_that_mostly_lies_within_one_in_evidence_is_known():
    grown = passage(LEASE.text + " " + NEXT.text, document_id=1)
    assert new_passages([NEXT], [grown], nothing, 1) == ()


def test_the_same_words_of_another_page_are_new_and_of_another_file_are_not():
    page = passage("Different words here, really.", document_id=1, start=1, page=2)
    assert new_passages([page], [LEASE], nothing, 1) == (page,)
    copy = passage(LEASE.text, document_id=7, start=500)
    assert new_passages([copy], [LEASE], nothing, 1) == ()


def test_nothing_found_is_nothing_new():
    assert new_passages([], [LEASE], nothing, 2) == ()
