"""Checks of a question: its text, sampling, filters and number of passages; everything invalid is refused."""

from __future__ import annotations

from engine.catalog.scopes import ScopeReader
from engine.core import Filters, SamplingParams, Unfinished
from engine.errors import BadRequest, NothingThere
from engine.generation.sampling import check_sampling
from engine.retrieval.query import ANYWHERE

# Of one search, each with its text.
MAX_TOP_K = 10_000


def check_question(text: str, sampling: SamplingParams) -> None:
    """Raises BadRequest for a question that is empty, and for sampling that cannot be."""
    if not text.strip():
        raise BadRequest("The question is empty.")
    check_sampling(sampling)


def check_unfinished(unfinished: Unfinished | None) -> None:
    if unfinished is not None and not unfinished.text.strip():
        raise BadRequest("This answer has no text yet to continue from.", "Ask again.")


def check_top_k(top_k: int | None) -> None:
    if top_k is not None and not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"`top_k` must be between 1 and {MAX_TOP_K}.")


def check_scope(catalog: ScopeReader, collection: str | None, filters: Filters) -> None:
    """Raises NothingThere where nothing can be found, and BadRequest for a date that is none.

    That is in a collection or at a path that is none, and in documents that are known but of which nothing is stored.
    """
    if collection is not None or filters != ANYWHERE:
        extent = catalog.extent(collection, filters)
        if filters.document_ids and not extent.files and not _is_stored(catalog, filters):
            raise NothingThere("Nothing of this document can be read just now.", "The library page says why.")
    for path in filters.paths:
        if not catalog.extent(None, Filters(paths=(path,))).files:
            raise NothingThere(f"Nothing at {path} is in the library.", "The library page lists what is.")


def _is_stored(catalog: ScopeReader, filters: Filters) -> bool:
    """Whether there is anything of the documents that are named, whatever else it is confined to."""
    return catalog.extent(None, Filters(document_ids=filters.document_ids)).files > 0
