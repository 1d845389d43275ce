"""A question about the answer above gets the passages of that answer again; nothing is searched for."""

from __future__ import annotations

from dataclasses import replace

from engine.core import Scope
from engine.retrieval.calibration import Strength
from engine.retrieval.confining import KnownDocuments
from engine.retrieval.followups import ABOUT_THE_ANSWER
from engine.retrieval.query import Query, SearchResult


def standing(query: Query, documents: KnownDocuments) -> SearchResult | None:
    """Returns the passages above that are still in the library and within the filters; None if there are none."""
    known = documents.located({passage.document_id for passage in query.above})
    ids = documents.ids_in_scope(query.collection, query.filters)
    passages = tuple(
        replace(passage, document=located.path, is_offline=located.is_offline)
        for passage in query.above
        if (located := known.get(passage.document_id)) and (ids is None or passage.document_id in ids)
    )[: query.limit]
    if not passages:
        return None
    scope = Scope(len(passages), len(passages), len({passage.document_id for passage in passages}))
    # They were found for the earlier question, which is read again.
    best = min(1.0, max(passage.score for passage in passages))
    return SearchResult(passages, scope, Strength(best, best), follows=ABOUT_THE_ANSWER)
