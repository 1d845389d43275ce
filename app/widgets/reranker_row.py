"""One reranker that can be downloaded, and the languages it reads."""

from __future__ import annotations

from collections.abc import Sequence

from app.widgets.folder_row import FolderRow
from engine.protocol import RerankerEntry


class RerankerRow(FolderRow[RerankerEntry]):
    """Adds languages to the facts."""

    def _more_facts(self, entry: RerankerEntry) -> Sequence[str]:
        return (entry.languages,)
