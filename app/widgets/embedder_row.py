"""One embedding model that can be got: which languages it knows, and how long its vectors are."""

from __future__ import annotations

from collections.abc import Sequence

from app.widgets.figures import count_text
from app.widgets.folder_row import FolderRow
from engine.protocol import EmbedderEntry


class EmbedderRow(FolderRow[EmbedderEntry]):
    """As every model that is a folder."""

    def _more_facts(self, entry: EmbedderEntry) -> Sequence[str]:
        languages = self.tr("many languages") if entry.is_multilingual else self.tr("English")
        dimensions = self.tr("%1 dimensions").replace("%1", count_text(entry.dimensions))
        return (
            "" if entry.is_multilingual is None else languages,
            dimensions if entry.dimensions else "",
        )
