"""Checks of a question: its text, sampling, filters and number of passages; everything invalid is refused."""

from __future__ import annotations

from engine.catalog.scopes import ScopeReader
from engine.core import Filters, SamplingParams, Unfinished
from engine.errors import BadRequest, NothingThere
from engine.generation.sampling import check_sampling
from engine.retrieval.query import ANYWHERE

# The most passages of one search; each comes with its text.
MAX_TOP_K = 10_000


def check_question(text: str, sampling: SamplingParams) -> None:
    """Raises BadRequest for an empty question, and for invalid sampling parameters."""
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
    """Raises NothingThere if nothing can be found, and BadRequest for an invalid date.

    Nothing can be found in an unknown collection, at a path without documents, and in documents of which nothing is
    stored.
    """
    if collection is not None or filters != ANYWHERE:
        extent = catalog.extent(collection, filters)
        if filters.document_ids and not extent.files and not _is_stored(catalog, filters):
            raise NothingThere("Nothing of this document can be read just now.", "The library page says why.")
    for path in filters.paths:
        if not catalog.extent(None, Filters(paths=(path,))).files:
            raise NothingThere(f"Nothing at {path} is in the library.", "The library page lists what is.")


def _is_stored(catalog: ScopeReader, filters: Filters) -> bool:
    """Returns whether anything of the named documents is stored, whatever the other filters."""
    return catalog.extent(None, Filters(document_ids=filters.document_ids)).files > 0
