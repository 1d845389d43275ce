"""Getting embedding models: what of a repository makes one is fetched, and used once all of it is here.

What is on its way lies in a folder beside its place, so that a folder that is there is a model that is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from engine.config import EmbedderSettings, Home, ModelsSettings
from engine.core import Download
from engine.downloads import Downloads, Pause
from engine.embedder import catalogue, repository, resolve
from engine.embedder.loadable import tried
from engine.errors import BadRequest, EmbedderUnavailable
from engine.events import EmbedderDownloadsChanged, Publish
from engine.models.download import Fetched, bring, is_as_told
from engine.models.hub import Hub, HubFile
from engine.models.source import Folder, meant_by
from engine.protocol import EmbedderEntry

_FOLDER = "embedders"
# No owner on the hub is called so.
_COMING = ".coming"


class GettingEmbedders:
    """From any thread. One is fetched at a time, beside models that write answers."""

    def __init__(
        self,
        home: Home,
        settings: Callable[[], ModelsSettings],
        use: Callable[[str], object],
        publish: Publish,
    ) -> None:
        """Prepares.

        Args:
            home: Our folders.
            settings: Those in force.
            use: Makes the model in a folder that of the library.
            publish: Where events go.
        """
        self._home, self._settings, self._use = home, settings, use
        self._downloads: Downloads[Folder] = Downloads(self._fetched, publish, told_as=EmbedderDownloadsChanged)

    def entries(self) -> tuple[EmbedderEntry, ...]:
        """The models that are known, and behind them others that are here or on their way; the hub is not asked."""
        told = self._downloads.now()
        repos = [one.repo for one in catalogue.CATALOGUE]
        others = sorted({*told, *self._on_disk()}.difference(repos))
        return tuple(self._entry(self._meant(repo), told.get(repo, Download(repo))) for repo in (*repos, *others))

    def start(self, name: str) -> None:
        """Fetches a model in the background, and uses it then. Raises BadRequest where nothing is called so."""
        self._downloads.start(self._meant(name))

    def cancel(self, name: str) -> None:
        self._downloads.cancel(self._meant(name))

    def discard(self, name: str) -> None:
        """Removes what was fetched of a model that is not whole."""
        folder = self._meant(name)
        self._downloads.forget(folder)
        shutil.rmtree(self._coming(folder), ignore_errors=True)

    def get(self, name: str, pause: Pause) -> Generator[Fetched, None, Path]:
        """Fetches a model and uses it; tells how far it is, and where it is at the end. Closed, it keeps what is there.

        Raises:
            BadRequest: Nothing is called so.
            DownloadFailed: The hub does not give it, or what came is not what the hub says it has.
            DiskFull: There is no room for it.
            EmbedderUnavailable: It is no embedding model.
        """
        folder = self._meant(name)
        yield from self._fetched(folder, pause)
        return self._place(folder)

    def stop(self) -> None:
        self._downloads.stop()

    @property
    def _folder(self) -> Path:
        return self._home.models(self._settings()) / _FOLDER

    def _place(self, folder: Folder) -> Path:
        return self._folder / str(folder)

    def _coming(self, folder: Folder) -> Path:
        return self._folder / _COMING / str(folder)

    def _on_disk(self) -> set[str]:
        """Repositories of which something is here."""
        found = (*self._folder.glob("*/*"), *(self._folder / _COMING).glob("*/*"))
        names = {"/".join(path.parts[-2:]) for path in found if path.is_dir() and path.parent.name != _COMING}
        return {name for name in names if self._is_name(name)}

    def _is_name(self, name: str) -> bool:
        with suppress(BadRequest):
            return str(self._meant(name)) == name
        return False

    def _meant(self, name: str) -> Folder:
        with suppress(BadRequest):
            meant = meant_by(catalogue.named(name.strip()), self._settings().hub)
            if isinstance(meant, Folder):
                return replace(meant, inside="")
        raise BadRequest(f"{name!r} names no embedding model of the hub.", "Name it as OWNER/NAME, or paste its link.")

    def _fetched(self, folder: Folder, pause: Pause) -> Generator[Fetched, None, None]:
        place, coming = self._place(folder), self._coming(folder)
        if not _is_whole(place):
            if place.is_dir() and not coming.exists():
                # Somebody took files out of it: the rest need not be fetched again.
                coming.parent.mkdir(parents=True, exist_ok=True)
                os.replace(place, coming)
            yield from self._brought(folder, pause)
            repository.say_prompts(coming, catalogue.prompts_of(folder.repo))
            yield from self._tried(coming)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(coming, place)
        self._use(str(place))

    def _brought(self, folder: Folder, pause: Pause) -> Generator[Fetched, None, None]:
        """Fetches what is needed to the place of what is on its way; the weights when all else says that they serve."""
        repo, hub = str(folder), Hub(self._settings().hub)
        files = {one.source.file: one for one in hub.files(folder)}
        repository.require_modules(repo, files)
        base = self._folder / _COMING
        coming = self._coming(folder)
        with closing(bring(hub, self._missing(files, (repository.MODULES,)), base, pause)) as steps:
            for _ in steps:
                # How much there is in all, it says itself.
                yield Fetched(0, 0)
        needed = repository.needed(repo, files, coming / repository.MODULES)
        small, weights = (self._missing(files, names) for names in (needed.small, needed.weights))
        total_bytes = sum(files[name].num_bytes for name in (*needed.small, *needed.weights))
        missing_bytes, weight_bytes = (sum(one.num_bytes for one in some) for some in ((*small, *weights), weights))
        here_bytes = total_bytes - missing_bytes
        yield from bring(hub, small, base, pause, here_bytes=here_bytes, to_come_bytes=weight_bytes)
        repository.require_plain(repo, coming)
        yield from bring(hub, weights, base, pause, here_bytes=total_bytes - weight_bytes)

    def _tried(self, coming: Path) -> Iterator[Fetched]:
        """Loads it for once; one that cannot be loaded is removed, for it would be no better the next time."""
        num_bytes = _bytes_below(coming)
        try:
            with closing(tried(resolve(EmbedderSettings(model=str(coming))))) as steps:
                for _ in steps:
                    yield Fetched(num_bytes, num_bytes, is_new=False)
        except EmbedderUnavailable:
            shutil.rmtree(coming, ignore_errors=True)
            raise

    def _missing(self, files: dict[str, HubFile], names: tuple[str, ...]) -> list[HubFile]:
        """Those that are not here yet, or are others on the hub by now."""
        base = self._folder / _COMING
        return [files[name] for name in names if not is_as_told(files[name].source.below(base), files[name])]

    def _entry(self, folder: Folder, told: Download) -> EmbedderEntry:
        known, place = catalogue.known(str(folder)), self._place(folder)
        download = told if told.is_under_way else self._as_it_lies(folder, told)
        return EmbedderEntry(
            source=str(folder),
            name=folder.repo.partition("/")[2],
            path=str(place),
            good_for=known.good_for if known is not None else "",
            licence=known.licence if known is not None else "",
            dimensions=known.dimensions if known is not None else 0,
            num_bytes=known.num_bytes if known is not None else told.total_bytes,
            is_multilingual=known.is_multilingual if known is not None else None,
            download=download,
        )

    def _as_it_lies(self, folder: Folder, told: Download) -> Download:
        if _is_whole(self._place(folder)):
            return replace(told, state="there", problem="", way_out="")
        num_bytes = _bytes_below(self._coming(folder))
        return replace(told, state="part" if num_bytes else "absent", num_bytes=num_bytes)


def _bytes_below(folder: Path) -> int:
    # Files may be moved just now.
    with suppress(OSError):
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return 0


def _is_whole(folder: Path) -> bool:
    with suppress(EmbedderUnavailable):
        _require_whole(folder)
        return True
    return False


def _require_whole(folder: Path) -> None:
    """Raises EmbedderUnavailable where there is no embedding model in a folder, or not all of it."""
    if not folder.is_dir():
        raise EmbedderUnavailable(f"There is no folder {folder.name}.", "Get the model again.")
    resolve(EmbedderSettings(model=str(folder)))
