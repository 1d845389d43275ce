"""Getting embedding models: what of a repository makes one is fetched, and used once all of it is here.

What is on its way lies in a folder beside its place, so that a folder that is there is a model that is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from engine.config import EmbedderSettings, Home, ModelsSettings
from engine.core import Download
from engine.downloads import Downloads, Pause
from engine.embedder import catalogue, repository, resolve
from engine.embedder.loadable import is_the_systems, tried
from engine.errors import BadRequest, EmbedderUnavailable, ModelError
from engine.events import EmbedderDownloadsChanged, Publish
from engine.models.download import bring, carry, is_as_told
from engine.models.fetched import Fetched
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
        used: Callable[[], Iterable[str]],
        publish: Publish,
    ) -> None:
        """Prepares.

        Args:
            home: Our folders.
            settings: Those in force.
            use: Makes the model in a folder that of the library.
            used: What the library is searched with or moves to, as the settings name models.
            publish: Where events go.
        """
        self._home, self._settings, self._use, self._used = home, settings, use, used
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
        """Removes what was fetched of a model that is not whole, wherever it lies."""
        folder = self._meant(name)
        self._downloads.forget(folder)
        for begun in self._begun(folder):
            shutil.rmtree(begun, ignore_errors=True)

    def delete(self, name: str) -> None:
        """Deletes what was fetched of a model that is whole.

        Raises:
            BadRequest: Nothing is called so, it is not here, it is in use, or lies elsewhere.
            ModelError: The system does not let us.
        """
        if name.startswith("~") or Path(name).is_absolute():
            raise _lies_elsewhere(name)
        folder = self._meant(name)
        place = self._place(folder)
        if not _is_whole(place):
            raise BadRequest(f"{folder} is not here.", "Name one of those that are: OWNER/NAME.")
        if not self._is_ours(place):
            raise _lies_elsewhere(str(place))
        if self._is_used(place):
            raise BadRequest(
                f"{folder} is in use: the library is searched with it, or moves to it.",
                "Use another one, and wait until all files have moved to that; then delete it.",
            )
        self._downloads.forget(folder)
        try:
            _delete(place)
        except OSError as error:
            raise ModelError(
                f"{folder} could not be deleted: {error.strerror or error}.",
                "Look whether another program uses it, and whether the folder may be written to.",
            ) from error

    def get(self, name: str, pause: Pause) -> Generator[Fetched, None, Path]:
        """Fetches a model and uses it; tells how far it is, and where it is at the end. Closed, it keeps what is there.

        Raises:
            BadRequest: Nothing is called so.
            DownloadFailed: The hub does not give it, or what came is not what the hub says it has.
            DiskFull: There is no room for it.
            EmbedderUnavailable: It is no embedding model.
            EmbedderUntried: Nobody knows yet whether it is one; what came is kept.
        """
        folder = self._meant(name)
        yield from self._fetched(folder, pause)
        return self._place(folder)

    def stop(self) -> None:
        self._downloads.stop()

    @property
    def _folder(self) -> Path:
        return self._folders[0]

    @property
    def _folders(self) -> list[Path]:
        """Where models are fetched to, and behind it where they were before."""
        return [folder / _FOLDER for folder in self._home.model_folders(self._settings())]

    def _place(self, folder: Folder) -> Path:
        """Where it lies, or else will."""
        places = [base / str(folder) for base in self._folders]
        return next((place for place in places if place.is_dir()), places[0])

    def _begun(self, folder: Folder) -> list[Path]:
        """Where it may be on its way, or was before the folder of models was changed."""
        return [base / _COMING / str(folder) for base in self._folders]

    def _on_disk(self) -> set[str]:
        """Repositories of which something is here."""
        found = [path for base in self._folders for path in (*base.glob("*/*"), *(base / _COMING).glob("*/*"))]
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
        place = self._place(folder)
        if not _is_whole(place):
            # Where models are fetched to may be changed meanwhile; then it ends where it began.
            base = self._folder
            coming = base / _COMING / str(folder)
            # Where somebody took files out of it, the rest need not be fetched again.
            for left in (*self._begun(folder), place):
                # By a link inside of one folder of models, what another one holds may be the same.
                if os.path.realpath(left) != os.path.realpath(coming) and self._is_ours(left):
                    yield from _carried(left, coming)
            yield from self._brought(folder, base / _COMING, pause)
            repository.say_prompts(coming, catalogue.prompts_of(folder.repo))
            yield from self._tried(coming)
            place = base / str(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(coming, place)
        self._use(str(place))

    def _brought(self, folder: Folder, base: Path, pause: Pause) -> Generator[Fetched, None, None]:
        """Fetches what is needed to below `base`; the weights when all else says that they serve."""
        repo, hub = str(folder), Hub(self._settings().hub)
        files = {one.source.file: one for one in hub.files(folder)}
        repository.require_modules(repo, files)
        coming = base / str(folder)
        with closing(bring(hub, _missing(files, (repository.MODULES,), base), base, pause)) as steps:
            for _ in steps:
                # How much there is in all, it says itself.
                yield Fetched(0, 0)
        needed = repository.needed(repo, files, coming / repository.MODULES)
        small, weights = (_missing(files, names, base) for names in (needed.small, needed.weights))
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
        except EmbedderUnavailable as error:
            if not is_the_systems(error):
                shutil.rmtree(coming, ignore_errors=True)
            raise

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
            deletable_bytes=self._deletable_bytes(place) if download.state == "there" else 0,
        )

    def _deletable_bytes(self, place: Path) -> int:
        return _bytes_below(place) if self._is_ours(place) and not self._is_used(place) else 0

    def _is_ours(self, place: Path) -> bool:
        """Whether it lies where we put it: by links of folders one may come to a place of somebody else."""
        with suppress(OSError, RuntimeError):
            base = next(base for base in self._folders if place.is_relative_to(base))
            return place.is_dir() and place.resolve() == base.resolve() / place.relative_to(base)
        return False

    def _is_used(self, place: Path) -> bool:
        return any(_leads_to(model, place) for model in self._used() if model)

    def _as_it_lies(self, folder: Folder, told: Download) -> Download:
        if _is_whole(self._place(folder)):
            return replace(told, state="there", problem="", way_out="")
        num_bytes = sum(map(_bytes_below, self._begun(folder)))
        return replace(told, state="part" if num_bytes else "absent", num_bytes=num_bytes)


def _missing(files: dict[str, HubFile], names: tuple[str, ...], base: Path) -> list[HubFile]:
    """Those that are not below `base` yet, or are others on the hub by now."""
    return [files[name] for name in names if not is_as_told(files[name].source.below(base), files[name])]


def _carried(left: Path, coming: Path) -> Generator[Fetched, None, None]:
    """Moves the files of a folder to another, except such as are there."""
    files = [(file, coming / file.relative_to(left)) for file in left.rglob("*") if file.is_file()]
    if moves := [(file, target) for file, target in files if not target.exists()]:
        yield from carry(moves)
    shutil.rmtree(left, ignore_errors=True)


def _delete(place: Path) -> None:
    """What cannot be deleted of it lies with what is on its way, where it can be removed. Raises OSError."""
    going = place.parents[1] / _COMING / place.parent.name / place.name
    if going.exists():
        shutil.rmtree(going)
    going.parent.mkdir(parents=True, exist_ok=True)
    os.replace(place, going)
    shutil.rmtree(going)
    for owner in (place.parent, going.parent):
        with suppress(OSError):
            owner.rmdir()


def _leads_to(model: str, place: Path) -> bool:
    with suppress(OSError, RuntimeError, ValueError):
        return Path(model).expanduser().resolve() == place.resolve()
    return False


def _lies_elsewhere(name: str) -> BadRequest:
    return BadRequest(
        f"{name} is not in the folder of models, or only a link to it is, and it stays where it is.",
        "Delete it yourself, once another one is in use.",
    )


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
