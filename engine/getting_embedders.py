"""Downloading embedding models: which modules of sentence-transformers make one; the library moves to it then."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

from engine.config import EmbedderSettings
from engine.core import Download
from engine.embedder import catalogue, repository, resolve
from engine.embedder.loadable import tried
from engine.embedder.repository_files import Needed
from engine.events import EmbedderDownloadsChanged
from engine.getting_folders import GettingFolders, Kind
from engine.models.source import Folder
from engine.protocol import EmbedderEntry


class GettingEmbedders(GettingFolders[EmbedderEntry]):
    """Downloads embedding models; the library moves to one that was downloaded."""

    kind = Kind(
        folder="embedders",
        name="embedding model",
        first=repository.MODULES,
        used="the library is searched with it, or moves to it",
        way_out="Use another one, and wait until all files have moved to that; then delete it.",
        catalogue=catalogue.CATALOGUE,
        told_as=EmbedderDownloadsChanged,
    )

    def _require_listed(self, repo: str, files: Iterable[str]) -> None:
        repository.require_modules(repo, files)

    def _needed(self, repo: str, files: Iterable[str], first: Path) -> Needed:
        return repository.needed(repo, files, first)

    def _require_plain(self, repo: str, coming: Path) -> None:
        repository.require_plain(repo, coming)

    def _complete(self, folder: Folder, coming: Path) -> None:
        repository.say_prompts(coming, catalogue.prompts_of(folder.repo))

    def _on_trial(self, coming: Path) -> Generator[None, None, None]:
        yield from tried(resolve(EmbedderSettings(model=str(coming))).folder)

    def _require_whole(self, place: Path) -> None:
        resolve(EmbedderSettings(model=str(place)))

    def _entry(self, folder: Folder, told: Download) -> EmbedderEntry:
        known = catalogue.known(str(folder))
        return EmbedderEntry(
            **self._facts(folder, told),
            dimensions=known.dimensions if known is not None else 0,
            is_multilingual=known.is_multilingual if known is not None else None,
        )
