"""What the hub has of a model that somebody names: the one file that is meant, or those to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import CatalogueEntry, Download, HubFiles
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.catalogue import CatalogueModel
    from app.models.model_picker import ModelPickerModel


class HubFilesModel(QObject):
    """`entries` are the models in `folder` (OWNER/NAME), `problem` why nothing was found; one of both at most."""

    found_changed = Signal()  # is_asking, folder, entries, problem
    downloads_changed = Signal()  # download_of
    file_named = Signal(str)  # source; that file was meant, and there is nothing to choose

    def __init__(
        self,
        client: EngineClient,
        catalogue: CatalogueModel,
        picker: ModelPickerModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._catalogue, self._picker = client, catalogue, picker
        self.is_asking = False
        self.folder, self.problem = "", ""
        self.entries: tuple[CatalogueEntry, ...] = ()
        # What was asked before the last wish is of no interest any more.
        self._num_wishes = 0
        catalogue.downloads_changed.connect(self.downloads_changed)
        picker.models_changed.connect(self.downloads_changed)

    def download_of(self, entry: CatalogueEntry) -> Download:
        if self._picker.entry(entry.model.path) is not None:
            return Download(entry.source, "there")
        return self._catalogue.download_of(entry)

    def look_up(self, text: str) -> None:
        """Finds out what is meant by a link, OWNER/NAME or OWNER/NAME/FILE.gguf."""
        self.clear()
        wish = self._num_wishes
        self.is_asking = True
        self._client.request(
            protocol.MODELS_LOOK_UP,
            protocol.HubModel(source=text),
            lambda reply: self._on_found(wish, reply),
            lambda error: self._on_error(wish, error),
        )
        self.found_changed.emit()

    def clear(self) -> None:
        """Shows nothing, also of what is being asked."""
        self._num_wishes += 1
        self._show()

    def _show(self, found: HubFiles | None = None, problem: str = "") -> None:
        self.is_asking = False
        self.folder, self.entries = (found.folder, found.files) if found is not None else ("", ())
        self.problem = problem
        self.found_changed.emit()

    def _on_found(self, wish: int, found: HubFiles) -> None:
        if wish != self._num_wishes:
            return
        if found.folder:
            self._show(found)
            return
        self._show()
        for entry in found.files:
            self.file_named.emit(entry.source)

    def _on_error(self, wish: int, error: WireError) -> None:
        if wish == self._num_wishes:
            self._show(problem=f"{error.sentence} {error.way_out}".strip())
