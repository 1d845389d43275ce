"""Calls about models: the list, the one that answers, and downloading models of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from engine.errors import BadRequest
from engine.events import MeasuringProgressed
from engine.getting_embedders import GettingEmbedders
from engine.getting_rerankers import GettingRerankers
from engine.interruptible import result_of
from engine.life_cycle import LifeCycle
from engine.models.fetched import Fetched
from engine.protocol import (
    CatalogueEntry,
    EmbedderEntry,
    FoundModel,
    HubFiles,
    HubRepository,
    ModelEntry,
    RerankerEntry,
)
from engine.second_reading import SecondReading


class ModelCalls(LifeCycle):
    """The engine's calls about models. Safe from any thread."""

    # --- the list, and the model that answers ---

    def models(self) -> tuple[ModelEntry, ...]:
        return self._getting.on_shelf()

    def models_elsewhere(self) -> tuple[FoundModel, ...]:
        """Returns models on this computer that are not on the list: of other applications, and in our folder."""
        return self._getting.elsewhere()

    def add_model(self, path: Path) -> ModelEntry:
        """Adds a GGUF file to the list. Raises ModelError when it cannot be used."""
        return self._choice.add(path)

    def forget_model(self, path: Path) -> None:
        """Removes it from the list; the file stays where it is."""
        self._choice.forget(path)

    def delete_model(self, name: str) -> None:
        """Deletes a downloaded model, by its file or known name, and removes it from the list.

        Raises:
            BadRequest: It is outside the folder of models, or in use.
            ModelError: The system refuses to delete it.
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

        Nothing changes if `is_wanted` is False once its file has been checked.

        Raises:
            ModelError: The file cannot be used (whether it loads comes as ModelStateChanged).
        """
        self._choice.use(path, n_gpu_layers, remember=remember, is_wanted=is_wanted)

    def choose_model(self, name: str) -> None:
        """Uses a model by its file, its name among the known ones, or "none". Raises ModelError."""
        self._choice.use(self._choice.named(name))

    def measure_model(self) -> Iterator[MeasuringProgressed]:
        """Measures how fast the chosen model is here, as far as that is not known, and yields its progress.

        A question ends it early; what was measured until then is kept.

        Raises:
            BadRequest: No model is chosen.
            ModelError: It cannot be loaded.
        """
        if not result_of(self._parts.generation.load_now()):
            raise BadRequest("No model is in use.", "Choose one first: ragdoll models use FILE.")
        yield from self._parts.rehearsing.points()

    def measured(self) -> str:
        """Returns what was measured of the loaded model, in a sentence; "" if nothing was."""
        return self._parts.rehearsing.sentence()

    # --- models from the hub ---

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """Returns models that can be downloaded, with the progress of each; sends nothing to the hub."""
        return self._getting.catalogue()

    def models_begun(self) -> tuple[CatalogueEntry, ...]:
        """Returns models outside the catalogue that are being downloaded, were stopped, or are here in part."""
        return self._getting.others()

    def look_up_model(self, name: str) -> HubFiles:
        """Returns what a link or a name means: one file, or those of a repository, for which the hub is asked.

        Raises:
            BadRequest: The name is invalid, or the link leads elsewhere.
            DownloadFailed: The hub has no such repository or no model in it, or cannot be reached.
        """
        return self._getting.look_up(name)

    def search_models(self, words: str) -> tuple[HubRepository, ...]:
        """Returns the repositories of the hub whose names match some words, the most downloaded first; at least one.

        The words are sent to the hub. `look_up_model` lists the files of a repository.

        Raises:
            BadRequest: There are no words.
            DownloadFailed: The hub has none, cannot be searched, or cannot be reached.
        """
        return self._getting.search(words)

    def get_model(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Downloads a model by its name in the catalogue, OWNER/NAME/FILE.gguf or link, and yields its progress.

        It is added to the list, and used if it is the first. If the generator is closed, what was downloaded is kept.

        Returns:
            Where its file is.

        Raises:
            BadRequest: The name is invalid.
            DownloadFailed: The hub does not deliver it, or the file is not what the hub says it has.
            DiskFull: There is no room for it.
            ModelFileInvalid: It was downloaded, but cannot be used.
            ModelUnreadable, ModelNotFound: It was downloaded, but could not be read just now.
        """
        return self._getting.get(name, pause)

    def start_getting_model(self, name: str) -> None:
        """Does the same in the background, one at a time; progress comes as DownloadsChanged. Raises BadRequest."""
        self._getting.start(name)

    def cancel_getting_model(self, name: str) -> None:
        """Stops that soon, and returns at once; what was downloaded is kept."""
        self._getting.cancel(name)

    def discard_part_of_model(self, name: str) -> None:
        """Deletes what was downloaded of an incomplete model; stops the download first."""
        self._getting.discard(name)

    # --- embedding models from the hub ---

    @property
    def getting_embedders(self) -> GettingEmbedders:
        """Embedding models of the hub: listing, downloading and using them."""
        return self._getting_embedders

    def embedders(self) -> tuple[EmbedderEntry, ...]:
        """Returns embedding models that can be downloaded, or were."""
        return self._getting_embedders.entries()

    def get_embedder(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Downloads one, uses it, and yields its progress; raises as `get_model`, and where it is no embedding model.

        Returns:
            Its folder.
        """
        return self._getting_embedders.get(name, pause)

    def delete_embedder(self, name: str) -> None:
        """Deletes the files of a downloaded one, unless it is in use.

        Raises:
            BadRequest: The name is unknown, it is not here, it is in use, or it was not downloaded by us.
            ModelError: The system refuses to delete them.
        """
        self._getting_embedders.delete(name)

    # --- rerankers from the hub ---

    @property
    def getting_rerankers(self) -> GettingRerankers:
        """Rerankers of the hub: listing, downloading and using them."""
        return self._getting_rerankers

    def rerankers(self) -> tuple[RerankerEntry, ...]:
        """Rerankers that can be downloaded, or were."""
        return self._getting_rerankers.entries()

    def second_reading(self) -> SecondReading | None:
        """Returns the reranker in use; None without one, and before the first search with it."""
        return self._parts.searching.second_reading

    def get_reranker(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Downloads one, uses it, and yields its progress; raises as `get_model`, and where it is no reranker.

        Returns:
            Its folder.
        """
        return self._getting_rerankers.get(name, pause)

    def delete_reranker(self, name: str) -> None:
        """Deletes the files of a downloaded one, unless it is in use. Raises as `delete_embedder`."""
        self._getting_rerankers.delete(name)
