"""Downloading models: the catalogue with the state of each, downloads from the hub to the list, and deleting them.

Nothing is sent to the hub unless the user wants a model from it, or a list of those in a repository.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.choice import ModelChoice
from engine.config import Home, ModelsSettings
from engine.core import Download
from engine.downloads import Downloads, Pause
from engine.errors import BadRequest, ModelError, ModelFileInvalid, ModelNotFound, ModelUnreadable
from engine.events import Publish
from engine.models.catalogue import CATALOGUE, in_repository, named
from engine.models.deleting import Deletable, deletable
from engine.models.download import begun_below, carry, fetch, parts_of
from engine.models.fetched import Fetched
from engine.models.hub import Hub, Offer
from engine.models.hub_search import Wanted
from engine.models.source import Folder, Source, meant_by
from engine.protocol import CatalogueEntry, FoundModel, HubFiles, HubRepository, ModelEntry

# How long to wait for a model that is in use; one that is being loaded may take minutes.
LET_GO_SECONDS = 10.0


class Getting:
    """Lists, downloads and deletes models that write answers. From any thread."""

    def __init__(
        self,
        home: Home,
        settings: Callable[[], ModelsSettings],
        choice: ModelChoice,
        publish: Publish,
        let_go: Callable[[Path], Future[bool]],
    ) -> None:
        """Prepares.

        Args:
            home: Our folders.
            settings: The settings in force.
            choice: Keeps the list of models.
            publish: Where events go.
            let_go: Frees a model that no user waits for, and says whether it is free.
        """
        self._home, self._settings, self._choice, self._let_go = home, settings, choice, let_go
        self._downloads = Downloads(self._fetched, publish)

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """Returns the known models: about how large each is, how it would run here, and how far its download is."""
        told = self._downloads.now()
        stand = [self._standing(Source.parse(known.source), told, known.file) for known in CATALOGUE]
        entries = self._choice.to_be_had([(known, place) for known, (place, _) in zip(CATALOGUE, stand, strict=True)])
        return tuple(
            CatalogueEntry(source=known.source, licence=known.licence, model=entry, download=download)
            for known, entry, (_, download) in zip(CATALOGUE, entries, stand, strict=True)
        )

    def others(self) -> tuple[CatalogueEntry, ...]:
        """Returns models outside the catalogue that are being downloaded, were stopped, or are here in part."""
        told, known = self._downloads.now(), {one.source for one in CATALOGUE}
        begun = {*map(Source.parse, told), *(source for folder in self._folders for source in begun_below(folder))}
        entries = [self._described(Offer(source, 0)) for source in sorted(begun, key=str) if str(source) not in known]
        return tuple(one for one in entries if one.download.problem or one.download.state not in ("absent", "there"))

    def look_up(self, name: str) -> HubFiles:
        """Returns what the link or the name of a model refers to: one file, or those of a repository to choose from.

        The hub is asked only for those of a repository.

        Raises:
            BadRequest: Nothing has this name.
            DownloadFailed: The hub has no such repository or no model in it, or cannot be reached.
        """
        meant = self._meant(name)
        if isinstance(meant, Source):
            return HubFiles(files=(self._described(Offer(meant, 0)),))
        offers = Hub(self._settings().hub).offers(meant)
        return HubFiles(folder=str(meant), files=tuple(self._with_fit(map(self._described, offers), meant)))

    def search(self, words: str) -> tuple[HubRepository, ...]:
        """Returns the repositories of the hub whose names match some words, which are sent to it; at least one.

        Raises:
            BadRequest: There are no words.
            DownloadFailed: The hub has none, cannot be searched, or cannot be reached.
        """
        found = Hub(self._settings().hub).search(Wanted.parse(words))
        return tuple(
            HubRepository(name=str(one.folder), downloads=one.downloads, likes=one.likes, is_gated=one.is_gated)
            for one in found
        )

    def start(self, name: str) -> None:
        """Downloads a model in the background. Raises BadRequest for an invalid name."""
        self._downloads.start(self._source(name))

    def cancel(self, name: str) -> None:
        self._downloads.cancel(self._source(name))

    def discard(self, name: str) -> None:
        """Deletes what was downloaded of an incomplete model, in any of our folders."""
        source = self._source(name)
        self._downloads.forget(source)
        is_whole = all(place.is_file() for place in self._places_of(source))
        for folder in self._folders:
            for place in source.pieces_below(folder):
                for part in (*parts_of(place), *(() if is_whole else (place,))):
                    part.unlink(missing_ok=True)

    def get(self, name: str, pause: Pause) -> Generator[Fetched, None, Path]:
        """Downloads a model and yields its progress; if closed, it keeps what was downloaded.

        Returns:
            Where it is.

        Raises:
            BadRequest: Nothing has this name.
            DownloadFailed: The hub does not deliver it, or the file is not what the hub says it has.
            DiskFull: There is no room for it.
            ModelFileInvalid: It was downloaded, but cannot be used.
            ModelUnreadable, ModelNotFound: It was downloaded, but could not be read just now.
        """
        source = self._source(name)
        yield from self._fetched(source, pause)
        return self._places_of(source)[0]

    def on_shelf(self) -> tuple[ModelEntry, ...]:
        """Returns the models on the list, and what deleting each would free."""
        return tuple(
            entry.model_copy(update={"deletable_bytes": found.num_bytes})
            if (found := self._deletable(Path(entry.path))) is not None
            else entry
            for entry in self._choice.entries()
        )

    def elsewhere(self) -> tuple[FoundModel, ...]:
        """Returns models on this computer that are not on the list, found where applications keep them."""
        return self._choice.elsewhere(self._folders)

    def delete(self, path: Path) -> None:
        """Deletes the files of a downloaded model, and removes it from the list.

        Raises:
            ModelNotFound: There is no such model.
            BadRequest: They are outside the folder of models, or the model is in use.
            ModelError: The system refuses to delete them.
        """
        found = self._deletable(path)
        if found is None and str(path) not in self._settings().known and not path.exists():
            raise ModelNotFound(f"There is no model {path.name} here.", "See the list of models.")
        if found is None:
            raise BadRequest(
                f"{path.name} is not in the folder of models, and stays where it is.",
                "Remove it from the list here, and delete the file yourself.",
            )
        names = self._names_of(path, found)
        if not all(map(self._is_let_go, names)):
            raise BadRequest(
                f"{path.name} is in use just now.", "Wait until it is loaded or has answered; then delete it."
            )
        try:
            found.delete()
        except OSError as error:
            raise ModelError(
                f"{path.name} could not be deleted: {error.strerror or error}.",
                "Check that no other program uses it, and that the folder can be written to.",
            ) from error
        for name in names:
            self._choice.forget(name)

    def stop(self) -> None:
        self._downloads.stop()

    @property
    def _folder(self) -> Path:
        return self._home.models(self._settings())

    @property
    def _folders(self) -> tuple[Path, ...]:
        """The folder of models and earlier ones: downloads from before a change of the folder stay where they are."""
        return self._home.model_folders(self._settings())

    def _deletable(self, path: Path) -> Deletable | None:
        return deletable(path, self._folders)

    def _names_of(self, path: Path, found: Deletable) -> list[Path]:
        """Returns all paths of a model on the list, of which links and several files can make more than one."""
        models = self._settings()
        others = [Path(one) for one in dict.fromkeys((*models.known, models.current)) if one and Path(one) != path]
        return [path, *(other for other in others if _leads_to(other, found.files))]

    def _is_let_go(self, path: Path) -> bool:
        reply = self._let_go(path)
        try:
            return reply.result(LET_GO_SECONDS)
        except TimeoutError:
            reply.cancel()
            return False

    def _meant(self, name: str) -> Source | Folder:
        known = named(name)
        return meant_by(name, self._settings().hub) if known is None else Source(known.repo, known.file)

    def _source(self, name: str) -> Source:
        meant = self._meant(name)
        if isinstance(meant, Folder):
            raise BadRequest(f"{meant} is not a single model.", "Name one of its files: OWNER/NAME/FILE.gguf.")
        return meant

    def _places_of(self, source: Source) -> list[Path]:
        """Returns where each of its files, or a part of it, is or will be."""
        return [_where_it_lies(places) for places in zip(*map(source.pieces_below, self._folders), strict=True)]

    def _fetched(self, source: Source, pause: Pause) -> Generator[Fetched, None, None]:
        places, folder = self._places_of(source), self._folder
        was_here = all(place.is_file() for place in places)
        if not was_here or len({place.parent for place in places}) > 1:
            yield from self._brought(places, source.pieces_below(folder))
            yield from fetch(Hub(self._settings().hub), source, folder, pause)
            places = source.pieces_below(folder)
            self._tidy(source)
        try:
            self._choice.take_in(places[0])
        except ModelFileInvalid as error:
            if was_here:
                raise
            # Without being on the list, it could not be found again.
            for place in places:
                place.unlink(missing_ok=True)
            raise ModelFileInvalid(f"{error.sentence} It was removed again.", error.way_out) from error
        except (ModelUnreadable, ModelNotFound) as error:
            # A disk that does not answer for a moment says nothing about what is on it.
            raise type(error)(error.sentence, "Get it again: what was downloaded is kept.") from error

    def _tidy(self, source: Source) -> None:
        """Deletes unfinished parts of a complete model, as far as the system allows it."""
        for folder in self._folders:
            for part in (part for place in source.pieces_below(folder) for part in parts_of(place)):
                with suppress(OSError):
                    part.unlink()

    def _brought(self, places: Iterable[Path], targets: Iterable[Path]) -> Generator[Fetched, None, None]:
        """Moves a part from an earlier folder, whose disk may have no room for the rest."""
        moves = [
            (file, target.with_name(file.name))
            for place, target in zip(places, targets, strict=True)
            if place != target
            for file in (place, *parts_of(place))
            if file.is_file()
        ]
        if moves:
            yield from carry(moves)

    def _standing(self, source: Source, told: dict[str, Download], pattern: str) -> tuple[Path, Download]:
        """Returns where its file is or will be, and its progress; `pattern` is the ending of paths on the list."""
        listed = (path for path in map(Path, self._settings().known) if path.match(pattern))
        # A file that was removed from its folder is still listed, and another folder may have it.
        there = next((path for path in listed if path.is_file()), None)
        if there is not None:
            return there, Download(str(source), "there")
        download = told.get(str(source), Download(str(source)))
        places = self._places_of(source)
        return places[0], download if download.is_under_way else _as_it_lies(places, download)

    def _described(self, offer: Offer) -> CatalogueEntry:
        """Returns a model of which at most the size is known."""
        place, download = self._standing(offer.source, self._downloads.now(), str(offer.source))
        name = offer.source.file.rpartition("/")[2].removesuffix(".gguf")
        model = ModelEntry(path=str(place), name=name, file_bytes=offer.num_bytes or download.total_bytes)
        return CatalogueEntry(source=str(offer.source), model=model, download=download, is_estimate=False)

    def _with_fit(self, entries: Iterable[CatalogueEntry], folder: Folder) -> Iterable[CatalogueEntry]:
        """Adds how they would run here, if the catalogue knows the model."""
        known, entries = in_repository(folder.repo), list(entries)
        if known is None:
            return entries
        shapes = [(known.in_bytes(one.model.file_bytes), Path(one.model.path)) for one in entries]
        return [
            one.model_copy(
                update={"model": told.model_copy(update={"name": one.model.name, "file_bytes": one.model.file_bytes})}
            )
            for one, told in zip(entries, self._choice.to_be_had(shapes), strict=True)
        ]


def _leads_to(path: Path, files: Sequence[Path]) -> bool:
    # A path that is a cycle of links, or contains a NUL, leads to none of them.
    with suppress(OSError, RuntimeError, ValueError):
        return path.resolve() in files
    return False


def _where_it_lies(places: Sequence[Path]) -> Path:
    """Returns the first place with the file, otherwise with a part of it, otherwise the first."""
    whole = (place for place in places if place.is_file())
    return next(whole, None) or next((place for place in places if parts_of(place)), places[0])


def _as_it_lies(places: list[Path], told: Download) -> Download:
    """Returns the state of a download that is not in progress, by what is on the disk."""
    whole = [place.stat().st_size for place in places if place.is_file()]
    parts = [max((part.stat().st_size for part in parts_of(place)), default=0) for place in places]
    num_bytes = sum((*whole, *parts)) if len(whole) < len(places) else 0
    if not num_bytes:
        return replace(told, state="absent", num_bytes=0, total_bytes=0)
    return replace(told, state="part", num_bytes=num_bytes)
