"""What can be asked at all: a question, what it is confined to, and how many passages it wants; all else is refused."""

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
        raise BadRequest("This answer has no words yet that it could go on from.", "Ask again.")


def check_top_k(top_k: int | None) -> None:
    if top_k is not None and not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"{top_k} passages cannot be had, only from 1 to {MAX_TOP_K}.")


def check_scope(catalog: ScopeReader, collection: str | None, filters: Filters) -> None:
    """Raises NothingThere for a collection or a path that is none, and BadRequest for a date that is none."""
    if collection is not None or filters != ANYWHERE:
        catalog.extent(collection, filters)
    for path in filters.paths:
        if not catalog.extent(None, Filters(paths=(path,))).files:
            raise NothingThere(f"Nothing at {path} is in the library.", "The library page lists what is.")
