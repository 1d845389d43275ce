"""Named files: which documents a question may refer to by name, kept in step with the catalogue.

The table of all names is built at the first question; for very many files on a separate thread, and questions do
without it meanwhile. Changes go into a small second table; when that has grown, both are merged.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Protocol

from engine.catalog.scopes import ChangedPaths
from engine.retrieval.labels import NO_LABELS, LabelTable, labels_of, strengths

# If more match, the names are too similar to tell which file is meant.
MOST_DOCUMENTS = 64
# Weaker matches are coincidence.
_MIN_STRENGTH = 0.1
# This many names take a second, which a question may wait for; more are processed on a separate thread.
_MOST_AT_ONCE = 20_000
# Tables are merged when the small one has more names than this, and more than this share of the large one.
_MOST_RECENT, _LARGEST_SHARE = 1000, 0.05


class KnownPaths(Protocol):
    """The methods of the catalogue that are used here."""

    def changed_paths(self, mark: int | None) -> ChangedPaths: ...

    def root_folders(self) -> frozenset[str]: ...


class NamedFiles:
    """Owns the labels of one library; safe from any thread."""

    def __init__(self, known: KnownPaths) -> None:
        self._known = known
        self._mark: int | None = None
        # `table` still has the old names of changed documents; `recent` has their new ones.
        self._table, self._recent, self._changed = NO_LABELS, NO_LABELS, frozenset[int]()
        self._is_labelling = False
        self._lock = threading.Lock()

    def matching(self, text: str, document_ids: Collection[int] | None = None) -> dict[int, float]:
        """Scores how well the names of documents match a text, 0 to 1, best first; `document_ids` None means all."""
        table, recent, changed = self._now()

        def is_wanted(document_id: int) -> bool:
            return document_ids is None or document_id in document_ids

        def is_wanted_of_table(document_id: int) -> bool:
            return document_id not in changed and is_wanted(document_id)

        found = strengths(text, ((table, is_wanted_of_table), (recent, is_wanted)), MOST_DOCUMENTS)
        return {document_id: strength for document_id, strength in found.items() if strength >= _MIN_STRENGTH}

    def load(self) -> None:
        """Builds the table now, so that no question waits for it, or does without."""
        self._now()

    def _now(self) -> tuple[LabelTable, LabelTable, frozenset[int]]:
        with self._lock:
            # While the table is being rebuilt, the old names are used.
            if self._is_labelling:
                return self._table, self._recent, self._changed
            news = self._known.changed_paths(self._mark)
            if news.document_ids is None and len(news.paths) > _MOST_AT_ONCE:
                self._is_labelling = True
                roots = self._known.root_folders()
                threading.Thread(target=self._label, args=(news, roots), name="names of files", daemon=True).start()
                return self._table, self._recent, self._changed
            if news.document_ids is None:
                self._table, self._recent, self._changed = self._labels(news), NO_LABELS, frozenset()
            elif news.document_ids:
                self._recent = self._recent.without(news.document_ids).with_(self._labels(news))
                self._changed |= news.document_ids
            if len(self._changed) > max(_MOST_RECENT, _LARGEST_SHARE * self._table.num_documents):
                self._table = self._table.without(self._changed).with_(self._recent)
                self._recent, self._changed = NO_LABELS, frozenset()
            self._mark = news.mark
            return self._table, self._recent, self._changed

    def _label(self, news: ChangedPaths, root_folders: frozenset[str]) -> None:
        table = None
        try:
            table = LabelTable.of(labels_of(news.paths, root_folders))
        finally:
            with self._lock:
                self._is_labelling = False
                if table is not None:
                    self._table, self._recent, self._changed, self._mark = table, NO_LABELS, frozenset(), news.mark

    def _labels(self, news: ChangedPaths) -> LabelTable:
        return LabelTable.of(labels_of(news.paths, self._known.root_folders()))
