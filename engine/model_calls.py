"""Calls about models: those on the shelf and the one that answers, and those that can be got, which embed or answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from engine.errors import BadRequest
from engine.events import MeasuringProgressed
from engine.getting_embedders import GettingEmbedders
from engine.life_cycle import LifeCycle
from engine.models.fetched import Fetched
from engine.protocol import CatalogueEntry, EmbedderEntry, FoundModel, HubFiles, HubRepository, ModelEntry


class ModelCalls(LifeCycle):
    """Safe from any thread."""

    # --- the shelf, and who answers ---

    def models(self) -> tuple[ModelEntry, ...]:
        return self._getting.on_shelf()

    def models_elsewhere(self) -> tuple[FoundModel, ...]:
        """Models on this computer that are not on the shelf: other applications' ones, and what lies in our folder."""
        return self._getting.elsewhere()

    def add_model(self, path: Path) -> ModelEntry:
        """Puts a GGUF file on the shelf. Raises ModelError when it cannot be used."""
        return self._choice.add(path)

    def forget_model(self, path: Path) -> None:
        """Takes it off the shelf; the file stays where it is."""
        self._choice.forget(path)

    def delete_model(self, name: str) -> None:
        """Deletes a model that was got, by its file or its name among the known ones, and takes it off the shelf.

        Raises:
            BadRequest: It lies outside of the folder of models, or somebody waits for what it writes.
            ModelError: The system does not let us delete it.
        """
        self._getting.delete(self._choice.named(name) or Path(name))

    def use_model(
        self,
        path: Path | None,
        n_gpu_layers: int | None = None,
        *,
        remember: bool = True,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Answers with this model from the next question on; None means with quotes only.

        Nothing changes where it `is_wanted` no more once its file was looked at.

        Raises:
            ModelError: The file cannot be used (that it also loads comes as ModelStateChanged).
        """
        self._choice.use(path, n_gpu_layers, remember=remember, is_wanted=is_wanted)

    def choose_model(self, name: str) -> None:
        """Uses a model by its file, its name among the known ones, or "none". Raises ModelError."""
        self._choice.use(self._choice.named(name))

    def measure_model(self) -> Iterator[MeasuringProgressed]:
        """Measures how fast the chosen model is here, as far as that is not known, and tells how far it is.

        It ends sooner where somebody asks something meanwhile; what was measured until then is kept.

        Raises:
            BadRequest: No model is chosen.
            ModelError: It cannot be loaded.
        """
        if not self._parts.generation.load_now().result():
            raise BadRequest("No model is in use.", "Choose one first: ragdoll models use FILE.")
        yield from self._parts.rehearsing.points()

    def measured(self) -> str:
        """What is known by measurement of the model that is loaded, in a sentence; "" where nothing is."""
        return self._parts.rehearsing.sentence()

    # --- models of the hub ---

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """Models that can be got from the hub, and how far each is; nothing is asked of the hub for it."""
        return self._getting.catalogue()

    def models_begun(self) -> tuple[CatalogueEntry, ...]:
        """Models that are not in the catalogue and are on their way here, were stopped on it, or are here in part."""
        return self._getting.others()

    def look_up_model(self, name: str) -> HubFiles:
        """What a link or a name means of the hub: one file, or those of a repository, which it is asked for.

        Raises:
            BadRequest: Nothing is called so, or the link leads elsewhere.
            DownloadFailed: The hub has no such repository or no model in it, or cannot be reached.
        """
        return self._getting.look_up(name)

    def search_models(self, words: str) -> tuple[HubRepository, ...]:
        """The repositories of the hub that are called like some words, the most downloaded first; never none.

        The words are sent to the hub. What a repository has is told by `look_up_model`.

        Raises:
            BadRequest: There are no words.
            DownloadFailed: The hub has none, cannot be searched, or cannot be reached.
        """
        return self._getting.search(words)

    def get_model(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Fetches a model by its name in the catalogue, OWNER/NAME/FILE.gguf or its link, and tells how far it is.

        It is put on the shelf, and used if it is the first. Closed in between, what was fetched is kept.

        Returns:
            Where its file is.

        Raises:
            BadRequest: Nothing is called so.
            DownloadFailed: The hub does not give it, or what came is not what the hub says it has.
            DiskFull: There is no room for it.
            ModelFileInvalid: It came, and cannot be used.
            ModelUnreadable, ModelNotFound: It came, and could not be read just now.
        """
        return self._getting.get(name, pause)

    def start_getting_model(self, name: str) -> None:
        """Does the same in the background, one at a time; it comes as DownloadsChanged. Raises BadRequest."""
        self._getting.start(name)

    def cancel_getting_model(self, name: str) -> None:
        """Stops that soon, and waits for nothing; what was fetched is kept."""
        self._getting.cancel(name)

    def discard_part_of_model(self, name: str) -> None:
        """Removes what was fetched of a model that is not whole; stops it where it is on its way."""
        self._getting.discard(name)

    # --- embedding models of the hub ---

    @property
    def getting_embedders(self) -> GettingEmbedders:
        """Embedding models of the hub: which there are, and having one fetched and used."""
        return self._getting_embedders

    def embedders(self) -> tuple[EmbedderEntry, ...]:
        """Embedding models that can be got, or were."""
        return self._getting_embedders.entries()

    def get_embedder(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Fetches one and uses it, and tells how far it is; raises as `get_model`, and where it is no embedding model.

        Returns:
            Its folder.
        """
        return self._getting_embedders.get(name, pause)

    def delete_embedder(self, name: str) -> None:
        """Deletes the files of one that was got, unless it is in use.

        Raises:
            BadRequest: Nothing is called so, it is not here, it is in use, or it is none that was got.
            ModelError: The system does not let us delete them.
        """
        self._getting_embedders.delete(name)
