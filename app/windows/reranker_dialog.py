"""Downloads and chooses the reranker, which reads the best passages a second time, and says what it does and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.widgets.reranker_row import RerankerRow
from app.windows.hub_folder_dialog import HubFolderDialog, Words

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from app.models.engine_settings import EngineSettingsModel
    from app.models.rerankers import RerankersModel

SETTING = "retrieval.reranker"


class RerankerDialog(HubFolderDialog):
    """A dialog whose `chosen` carries "" for no reranker."""

    setting = SETTING
    row_type = RerankerRow

    def __init__(self, engine: EngineSettingsModel, rerankers: RerankersModel, parent: QWidget | None = None) -> None:
        self._rerankers = rerankers
        super().__init__(engine, rerankers, parent)
        rerankers.reading_changed.connect(self._show_consequence)

    def _words(self) -> Words:
        return Words(
            title=self.tr("Reranker"),
            heading=self.tr("Read the best passages a second time"),
            consequence=self._consequence(),
            others=self.tr(
                "Any other cross-encoder for sentence-transformers: OWNER/NAME or its link on the hub, or a folder "
                "that contains it."
            ),
            field=self.tr("Name, link or folder of the reranker"),
            none=self.tr("none"),
            use_none=self.tr("Use none"),
        )

    def _consequence(self) -> str:
        number = self._rerankers.num_read
        read = self.tr("Each of the best %1 passages").replace("%1", str(number)) if number else ""
        return self.tr(
            "%1 that a search finds is read once more, together with the question, by a model made for this (a "
            "reranker). Those that answer the question come first, even if they use other words. This makes each "
            "search longer, most with a large model, which also needs the most memory. If there is not enough memory "
            "for it, questions are answered without it."
        ).replace("%1", read or self.tr("Each of the best passages"))

    def _show_consequence(self) -> None:
        self.consequence.setText(self._consequence())
