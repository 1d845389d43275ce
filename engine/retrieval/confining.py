"""Filtering: which documents a query may find, by the user's filters and by the question's own words."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Protocol

from engine.catalog.scopes import Extent, Located, Named
from engine.core import Filters
from engine.retrieval.names import MAX_FILES
from engine.retrieval.query import ANYWHERE, NOWHERE_SAID, Place, Query
from engine.retrieval.recognise import Recognised, recognise


class KnownDocuments(Protocol):
    """What search needs of the catalogue."""

    def located(self, document_ids: Iterable[int]) -> Mapping[int, Located]:
        """The paths of documents by id; unknown ids are left out."""
        ...

    def ids_in_scope(self, collection: str | None, filters: Filters) -> frozenset[int] | None:
        """The documents that match, None for all. Raises NothingThere when there is no such collection."""
        ...

    def extent(self, collection: str | None, filters: Filters) -> Extent:
        """How many files and chunks match."""
        ...

    def only_document(self, collection: str | None, filters: Filters) -> int | None:
        """The only document that matches; None if there are several, or none."""
        ...

    def collection_names(self) -> tuple[str, ...]: ...

    def require_collection(self, name: str) -> str:
        """The present name of a collection by its present or former name. Raises NothingThere when there is none."""
        ...

    def paths_named(self, names: Collection[str]) -> Named:
        """Files and folders called one of `names`."""
        ...


@dataclass(frozen=True, slots=True)
class Confinement:
    """The filters of a query: `document_ids` None means no limit. `text` is what is left to search for.

    `together` is the text of a follow-up with the questions before it, "" if there are none. `recognised` describes for
    users the filters from the question's words that are in force, `given_up` those that were dropped; `surely` are the
    filters without those that may have been misread. `outside` names files that the question mentions but the user's
    choice excludes. `only_document` is the only one that can be found, None if there are several.
    """

    text: str
    document_ids: frozenset[int] | None
    extent: Extent
    recognised: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    surely: Place = NOWHERE_SAID
    only_document: int | None = None
    together: str = ""
    outside: str = ""

    @property
    def told(self) -> tuple[str, ...]:
        """The filters found in the question's own words, described for users."""
        without = searched_without(self.given_up) if self.given_up else ""
        return (*self.recognised, *filter(None, (without, self.outside)))

    def wider(self, query: Query, documents: KnownDocuments) -> Confinement:
        """Returns it without filters that may have been misread, then without all, because nothing was found."""
        place = self.surely if self.surely.recognised != self.recognised else Place(query.collection, query.filters)
        lost = (told for told in self.recognised if told not in place.recognised)
        confinement = _looked_up(query.text, place.collection, place.filters, documents)
        return replace(
            confinement,
            recognised=place.recognised,
            given_up=(*self.given_up, *lost),
            surely=place,
            together=self.together,
            outside=self.outside,
        )


def searched_without(recognised: Sequence[str]) -> str:
    """Returns a sentence for users: nothing was found with these filters."""
    return f"nothing was found with “{', '.join(recognised)}”, so it was searched without that"


def confined(query: Query, documents: KnownDocuments, reads_filters: bool) -> Confinement:
    """Returns the filters of a query; those in its own words are used if `reads_filters` and the query allow it.

    A follow-up that names no files may keep those that earlier questions named, unless nothing is found there.

    Raises:
        NothingThere: There is no such collection.
        BadRequest: A date is invalid.
    """
    if not query.together:
        return _confined(query, query.text, documents, reads_filters, query.questions)
    alone = _confined(query, query.text, documents, reads_filters)
    both = _confined(query, query.together, documents, reads_filters, query.questions)
    if query.inherits and both.recognised and not alone.recognised:
        anywhere = Place(query.collection, query.filters)
        return replace(both, text=alone.text, together=both.text, surely=anywhere)
    return replace(alone, together=both.text)


def _confined(
    query: Query, words: str, documents: KnownDocuments, reads_filters: bool, questions: str = ""
) -> Confinement:
    """Returns the filters found in `words`, or only in `questions`, which are the part of `words` without answers."""
    if not (reads_filters and query.filters.reads_question):
        return _looked_up(words, query.collection, query.filters, documents)
    read = partial(recognise, collections=documents.collection_names(), today=date.today())
    within: Callable[[Collection[str]], Named] = partial(_named_within, query, documents)
    found, outside = read(questions or words, find_paths=within), ""
    if not _narrows(query, found.collection, documents):
        found = replace(found, collection=None)
    if query.filters.paths:
        outside = _outside(read(questions or words, find_paths=documents.paths_named), found, query.filters.paths)
    if outside:
        # With only some of the named files, another question would be answered.
        found = replace(found, paths=())
    place = _combined(query, found)
    text = (read(words, find_paths=within) if questions else found).text if place.recognised else words
    confinement = _looked_up(text, place.collection, place.filters, documents)
    return replace(confinement, recognised=place.recognised, surely=_combined(query, found.surely), outside=outside)


def _named_within(query: Query, documents: KnownDocuments, names: Collection[str]) -> Named:
    """Returns files and folders with these names within the user's filters; if a collection has none, all."""
    named = documents.paths_named(names)
    if query.filters.paths:
        lies_within = partial(_lies_within, chosen=query.filters.paths)
        return Named(frozenset(filter(lies_within, named.files)), frozenset(filter(lies_within, named.folders)))
    collection, several = query.collection, query.filters.collections
    if (collection is not None or several) and 1 < len(named.files) <= MAX_FILES:
        ids = documents.ids_in_scope(collection, Filters(paths=tuple(named.files), collections=several))
        files = named.files.intersection(one.path for one in documents.located(ids or ()).values())
        return replace(named, files=files or named.files)
    return named


def _outside(named: Recognised, within: Recognised, chosen: Sequence[str]) -> str:
    """Returns a sentence about files that were `named` but are outside of the user's choice; "" if there are none."""
    known = set(map(_stem, within.paths))
    missing = [
        os.path.basename(path)
        for path in named.paths
        if _stem(path) not in known and not any(_lies_within(one, (path,)) for one in chosen)
    ]
    if not (missing and named.names_file):
        return ""
    shown = ", ".join(dict.fromkeys(missing)).encode("utf-8", "replace").decode()
    return f"“{shown}” is not among what was chosen"


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0].casefold()


def _looked_up(text: str, collection: str | None, filters: Filters, documents: KnownDocuments) -> Confinement:
    ids = documents.ids_in_scope(collection, filters)
    if ids is None:
        collection, filters = None, ANYWHERE
    extent = documents.extent(collection, filters)
    only = documents.only_document(collection, filters) if extent.files == 1 else None
    return Confinement(text, ids, extent, only_document=only)


def _combined(query: Query, found: Recognised) -> Place:
    """Combines the user's filters with those of the question, which only fill fields that the user left open.

    If the user chose several files or collections, the question may select some of the files, or one collection.
    """
    filters, told = query.filters, list[str]()
    collection = query.collection
    if found.collection is not None and collection is None:
        collection, filters = found.collection, replace(filters, collections=())
        told.append(f"only the collection “{collection}”")
    if found.paths and set(found.paths) != set(filters.paths):
        filters = replace(filters, paths=found.paths)
        told.append(found.paths_told)
    if found.formats and not filters.formats:
        filters = replace(filters, formats=found.formats)
        told.append(found.formats_told)
    if (found.changed_since or found.changed_until) and not (filters.changed_since or filters.changed_until):
        filters = replace(filters, changed_since=found.changed_since, changed_until=found.changed_until)
        told.append(found.dates_told)
    return Place(collection, filters, tuple(told))


def _narrows(query: Query, named: str | None, documents: KnownDocuments) -> bool:
    """Returns whether a collection that the question names is a proper part of the user's choice."""
    if named is None or query.collection is not None:
        return False
    chosen = set(map(documents.require_collection, query.filters.collections))
    return not chosen or (named in chosen and len(chosen) > 1)


def _lies_within(path: str, chosen: Sequence[str]) -> bool:
    """Returns whether a path is, or is below, one of the chosen paths."""
    return path in chosen or path.startswith(tuple(one.rstrip("/") + "/" for one in chosen))
