"""What the hub has for a name that the user enters: the file that is meant, or files and repositories to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import CatalogueEntry, Download, HubFiles, HubRepositories, HubRepository, Message, Method
from engine.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.engine_client import EngineClient
    from app.models.catalogue import CatalogueModel
    from app.models.model_picker import ModelPickerModel

P = TypeVar("P", bound=Message)
R = TypeVar("R", bound=Message)


class HubFilesModel(QObject):
    """`entries` are the models in `folder` (OWNER/NAME), `problem` says why nothing was found; one of both at most.

    `repositories` are the results of a search for `words`; they stay while one of them is opened.
    """

    found_changed = Signal()  # is_asking, folder, entries, words, repositories, problem
    downloads_changed = Signal()  # download_of
    file_named = Signal(str)  # source; the link named exactly this file, so there is nothing to choose

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
        self.folder, self.problem, self.words = "", "", ""
        self.entries: tuple[CatalogueEntry, ...] = ()
        self.repositories: tuple[HubRepository, ...] = ()
        # Replies to requests from before the last wish are ignored.
        self._num_wishes = 0
        catalogue.downloads_changed.connect(self.downloads_changed)
        picker.models_changed.connect(self.downloads_changed)

    def download_of(self, entry: CatalogueEntry) -> Download:
        if self._picker.entry(entry.model.path) is not None:
            return Download(entry.source, "there")
        return self._catalogue.download_of(entry)

    def look_up(self, text: str) -> None:
        """Resolves a link, OWNER/NAME or OWNER/NAME/FILE.gguf, or searches for some words."""
        self.clear()
        if self._are_words(text):
            words = protocol.HubWords(words=text)
            self._ask(protocol.MODELS_SEARCH, words, lambda found: self._on_repositories(text, found))
        else:
            self._ask(protocol.MODELS_LOOK_UP, protocol.HubModel(source=text), self._on_files)

    def choose(self, repository: str) -> None:
        """Opens one of `repositories`."""
        self._show()
        self._ask(protocol.MODELS_LOOK_UP, protocol.HubModel(source=repository), self._on_files)

    def back(self) -> None:
        """Goes back from the files of a repository to the search results."""
        self._num_wishes += 1
        self._show()

    def clear(self) -> None:
        """Shows nothing, and ignores pending replies."""
        self.words, self.repositories = "", ()
        self.back()

    def _are_words(self, text: str) -> bool:
        """Whether it is neither a link nor the name of a repository, a file or a model of the catalogue."""
        name = text.strip().casefold()
        known = (entry.model.name.casefold() for entry in self._catalogue.entries)
        # A path of this computer must not be sent to others.
        return not (any(sign in name for sign in "/\\") or name.endswith(".gguf") or name in known)

    def _ask(self, method: Method[P, R], params: P, on_reply: Callable[[R], object]) -> None:
        self._num_wishes += 1
        wish = self._num_wishes
        self.is_asking = True
        self._client.request(
            method,
            params,
            lambda reply: on_reply(reply) if wish == self._num_wishes else None,
            lambda error: self._on_error(wish, error),
        )
        self.found_changed.emit()

    def _show(self, found: HubFiles | None = None, problem: str = "") -> None:
        self.is_asking = False
        self.folder, self.entries = (found.folder, found.files) if found is not None else ("", ())
        self.problem = problem
        self.found_changed.emit()

    def _on_files(self, found: HubFiles) -> None:
        if found.folder:
            self._show(found)
            return
        self._show()
        for entry in found.files:
            self.file_named.emit(entry.source)

    def _on_repositories(self, words: str, found: HubRepositories) -> None:
        self.words, self.repositories = " ".join(words.split()), found.repositories
        self._show()

    def _on_error(self, wish: int, error: WireError) -> None:
        if wish == self._num_wishes:
            self._show(problem=f"{error.sentence} {error.way_out}".strip())
