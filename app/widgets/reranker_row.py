"""One reranker that can be got: which languages it reads."""

from __future__ import annotations

from collections.abc import Sequence

from app.widgets.folder_row import FolderRow
from engine.protocol import RerankerEntry


class RerankerRow(FolderRow[RerankerEntry]):
    """As every model that is a folder."""

    def _more_facts(self, entry: RerankerEntry) -> Sequence[str]:
        return (entry.languages,)
