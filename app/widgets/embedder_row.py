"""One embedding model that can be downloaded: the languages it knows, and the length of its vectors."""

from __future__ import annotations

from collections.abc import Sequence

from app.widgets.figures import count_text
from app.widgets.folder_row import FolderRow
from engine.protocol import EmbedderEntry


class EmbedderRow(FolderRow[EmbedderEntry]):
    """Adds languages and dimensions to the facts."""

    def _more_facts(self, entry: EmbedderEntry) -> Sequence[str]:
        languages = self.tr("many languages") if entry.is_multilingual else self.tr("English")
        dimensions = self.tr("%1 dimensions").replace("%1", count_text(entry.dimensions))
        return (
            "" if entry.is_multilingual is None else languages,
            dimensions if entry.dimensions else "",
        )
