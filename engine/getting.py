"""Getting models: the catalogue as it stands here, and files of the hub on their way to the shelf.

The hub is asked for nothing unless somebody wants a model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

from engine.choice import ModelChoice
from engine.config import Home, ModelsSettings
from engine.core import Download
from engine.downloads import Downloads, Pause
from engine.events import Publish
from engine.models.catalogue import CATALOGUE, KnownModel, named
from engine.models.download import Fetched, fetch, parts_of
from engine.models.hub import Hub, Source
from engine.protocol import CatalogueEntry


class Getting:
    """From any thread."""

    def __init__(
        self, home: Home, settings: Callable[[], ModelsSettings], choice: ModelChoice, publish: Publish
    ) -> None:
        self._home, self._settings, self._choice = home, settings, choice
        self._downloads = Downloads(self._fetched, publish)

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """The models that are known, about how large each is and how it would run here, and how far it is here."""
        told = self._downloads.now()
        stand = [self._standing(known, told.get(known.source, Download(known.source))) for known in CATALOGUE]
        entries = self._choice.to_be_had([(known, place) for known, (place, _) in zip(CATALOGUE, stand, strict=True)])
        return tuple(
            CatalogueEntry(source=known.source, licence=known.licence, model=entry, download=download)
            for known, entry, (_, download) in zip(CATALOGUE, entries, stand, strict=True)
        )

    def start(self, name: str) -> None:
        """Fetches a model in the background. Raises BadRequest where nothing is called so."""
        self._downloads.start(source_of(name))

    def cancel(self, name: str) -> None:
        self._downloads.cancel(source_of(name))

    def discard(self, name: str) -> None:
        """Removes what was fetched of a model that is not whole."""
        source = source_of(name)
        self._downloads.forget(source)
        for part in parts_of(self._place_of(source)):
            part.unlink(missing_ok=True)

    def get(self, name: str, pause: Pause) -> Generator[Fetched, None, Path]:
        """Fetches a model and tells how far it is; closed in between, it keeps what is there.

        Returns:
            Where it is.

        Raises:
            BadRequest: Nothing is called so.
            DownloadFailed: The hub does not give it, or what came is not what the hub says it has.
            DiskFull: There is no room for it.
            ModelFileInvalid: It came, and cannot be used.
        """
        source = source_of(name)
        yield from self._fetched(source, pause)
        return self._place_of(source)

    def stop(self) -> None:
        self._downloads.stop()

    def _fetched(self, source: Source, pause: Pause) -> Generator[Fetched, None, None]:
        settings = self._settings()
        folder = self._home.models(settings)
        yield from fetch(Hub(settings.hub), source, folder, pause)
        self._choice.take_in(source.below(folder))

    def _place_of(self, source: Source) -> Path:
        return source.below(self._home.models(self._settings()))

    def _standing(self, known: KnownModel, told: Download) -> tuple[Path, Download]:
        """Where its file is or will be, and how far it is on its way."""
        place = self._place_of(Source(known.repo, known.file))
        there = next((path for path in map(Path, self._settings().known) if path.name == place.name), None)
        if there is not None and there.is_file():
            return there, Download(known.source, "there")
        is_under_way = told.state in ("waiting", "checking", "fetching")
        return place, told if is_under_way else _as_it_lies(place, told)


def source_of(name: str) -> Source:
    """The file that a person means: a name of the catalogue, or OWNER/NAME/FILE.gguf. Raises BadRequest."""
    known = named(name)
    return Source.parse(name) if known is None else Source(known.repo, known.file)


def _as_it_lies(place: Path, told: Download) -> Download:
    """How a download that is not under way stands, by what is on the disk."""
    num_bytes = max((part.stat().st_size for part in parts_of(place)), default=0)
    if not num_bytes:
        return replace(told, state="absent", num_bytes=0, total_bytes=0)
    return replace(told, state="part", num_bytes=num_bytes)
