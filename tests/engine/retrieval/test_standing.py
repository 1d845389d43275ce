"""Tests for engine.retrieval.standing."""

from __future__ import annotations

from dataclasses import replace

from engine.catalog.scopes import Located
from engine.core import Scope
from engine.retrieval.calibration import Strength
from engine.retrieval.query import Query
from engine.retrieval.standing import standing
from tests.engine.retrieval.test_search import Documents
from tests.helpers.passages import passage

ABOVE = tuple(passage("Threads.", document_id=id_, score=1.5 - id_ / 4) for id_ in (1, 2, 3))
QUERY = Query("threads", above=ABOVE, told="as before")


def test_what_stands_above_is_given_again_as_well_as_it_fitted_before():
    result = standing(QUERY, Documents())
    assert result is not None
    assert (result.passages, result.scope, result.strength) == (ABOVE, Scope(3, 3, 3), Strength(1.0, 1.0))
    assert result.stands_above
    result = standing(replace(QUERY, above=ABOVE[2:]), Documents())
    assert result is not None
    assert result.strength == Strength(0.75, 0.75)


def test_what_has_left_the_library_or_the_filters_is_gone():
    documents = Documents()
    del documents.known[3]
    result = standing(QUERY, documents)
    assert result is not None
    assert result.passages == ABOVE[:2]
    result = standing(replace(QUERY, collection="Kitchen"), documents)
    assert result is not None
    assert result.passages == ABOVE[1:2]
    assert standing(replace(QUERY, above=ABOVE[:1], collection="Kitchen"), documents) is None


def test_so_many_are_given_again_as_are_wanted():
    result = standing(replace(QUERY, limit=1), Documents())
    assert result is not None
    assert result.passages == ABOVE[:1]
    assert standing(replace(QUERY, limit=0), Documents()) is None


def test_a_file_that_has_moved_since_is_told_where_it_lies_now():
    documents = Documents()
    documents.known[1] = Located("/drive/moved.txt", True, 2)
    result = standing(replace(QUERY, limit=1), documents)
    assert result is not None
    assert [(one.document, one.is_offline) for one in result.passages] == [("/drive/moved.txt", True)]
