"""Downloading rerankers: which files of a repository make a cross-encoder; passages are read with it then."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

from engine.core import Download
from engine.embedder import reranker_catalogue, reranker_repository, reranker_spec
from engine.embedder.loadable import tried
from engine.embedder.repository_files import Needed
from engine.events import RerankerDownloadsChanged
from engine.getting_folders import GettingFolders, Kind
from engine.models.source import Folder
from engine.protocol import RerankerEntry


class GettingRerankers(GettingFolders[RerankerEntry]):
    """Downloads rerankers; one that was downloaded is used from the next search on."""

    kind = Kind(
        folder="rerankers",
        name="reranker",
        first=reranker_spec.CONFIG,
        used="the best passages are read with it",
        way_out="Choose another one, or none; then delete it.",
        catalogue=reranker_catalogue.CATALOGUE,
        told_as=RerankerDownloadsChanged,
    )

    def _require_listed(self, repo: str, files: Iterable[str]) -> None:
        reranker_repository.require_listed(repo, files)

    def _needed(self, repo: str, files: Iterable[str], first: Path) -> Needed:
        return reranker_repository.needed(repo, files, first)

    def _require_plain(self, repo: str, coming: Path) -> None:
        reranker_repository.require_plain(repo, coming)

    def _complete(self, folder: Folder, coming: Path) -> None:
        """Adds nothing: all that is known of it is in its files."""

    def _on_trial(self, coming: Path) -> Generator[None, None, None]:
        yield from tried(reranker_spec.resolve(str(coming)).folder, "reranker")

    def _require_whole(self, place: Path) -> None:
        reranker_spec.resolve(str(place))

    def _entry(self, folder: Folder, told: Download) -> RerankerEntry:
        known = reranker_catalogue.known(str(folder))
        return RerankerEntry(**self._facts(folder, told), languages=known.languages if known is not None else "")
