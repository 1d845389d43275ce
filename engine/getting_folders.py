"""Downloading models that are folders: the needed files of a repository, used once all of them are here.

A download goes to a folder next to its final place, so that a folder at that place is a complete model. What
makes a model, and whether it does, is decided by each kind (getting_embedders.py, getting_rerankers.py).
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.config import Home, ModelsSettings, bytes_below
from engine.core import Download
from engine.downloads import Downloads, Pause
from engine.embedder.known import KnownModel, known_in, named_in
from engine.embedder.loadable import is_the_systems
from engine.embedder.repository_files import Needed
from engine.errors import BadRequest, EmbedderUnavailable, ModelError
from engine.events import Event, Publish
from engine.models.download import bring, carry, is_as_told
from engine.models.fetched import Fetched
from engine.models.hub import Hub, HubFile
from engine.models.source import Folder, meant_by
from engine.protocol import HubFolderEntry

# No owner on the hub has this name.
_COMING = ".coming"

Entry = TypeVar("Entry", bound=HubFolderEntry)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of models: its name, and the known models.

    `folder` is their place in the folder of models. `first` is the repository's file that names the other needed files.
    `used` says what a model in use is used for, and `way_out` what has to be done before it can be deleted.
    """

    folder: str
    name: str
    first: str
    used: str
    way_out: str
    catalogue: Sequence[KnownModel]
    told_as: Callable[[tuple[Download, ...]], Event]


class GettingFolders(ABC, Generic[Entry]):
    """Downloads models of one kind, one at a time, in parallel to models that write answers. From any thread."""

    kind: Kind

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
            settings: The settings in force.
            use: Starts using the model in a folder.
            used: The models in use, as settings name them.
            publish: Where events go.
        """
        self._home, self._settings, self._use, self._used = home, settings, use, used
        self._downloads: Downloads[Folder] = Downloads(self._fetched, publish, told_as=self.kind.told_as)

    def entries(self) -> tuple[Entry, ...]:
        """Returns the known models, followed by others that are here or being downloaded; the hub is not asked."""
        told = self._downloads.now()
        repos = [one.repo for one in self.kind.catalogue]
        others = sorted({*told, *self._on_disk()}.difference(repos))
        return tuple(self._entry(self._meant(repo), told.get(repo, Download(repo))) for repo in (*repos, *others))

    def start(self, name: str) -> None:
        """Downloads a model in the background, and uses it then. Raises BadRequest for an invalid name."""
        self._downloads.start(self._meant(name))

    def cancel(self, name: str) -> None:
        self._downloads.cancel(self._meant(name))

    def discard(self, name: str) -> None:
        """Deletes what was downloaded of an incomplete model, in any of our folders."""
        folder = self._meant(name)
        self._downloads.forget(folder)
        for begun in self._begun(folder):
            shutil.rmtree(begun, ignore_errors=True)

    def delete(self, name: str) -> None:
        """Deletes a downloaded model.

        Raises:
            BadRequest: The name is invalid, or the model is not here, in use, or elsewhere.
            ModelError: The system refuses it.
        """
        if name.startswith("~") or Path(name).is_absolute():
            raise _lies_elsewhere(name)
        folder = self._meant(name)
        place = self._place(folder)
        if not self._is_whole(place):
            raise BadRequest(f"{folder} is not here.", "Name one of those that are: OWNER/NAME.")
        if not self._is_ours(place):
            raise _lies_elsewhere(str(place))
        if self._is_used(place):
            raise BadRequest(f"{folder} is in use: {self.kind.used}.", self.kind.way_out)
        self._downloads.forget(folder)
        try:
            _delete(place)
        except OSError as error:
            raise ModelError(
                f"{folder} could not be deleted: {error.strerror or error}.",
                "Check that no other program uses it, and that the folder can be written to.",
            ) from error

    def get(self, name: str, pause: Pause) -> Generator[Fetched, None, Path]:
        """Downloads a model and uses it; yields its progress, and returns its folder. If closed, it keeps what is here.

        Raises:
            BadRequest: Nothing has this name.
            DownloadFailed: The hub does not deliver it, or a file is not what the hub says it has.
            DiskFull: There is no room for it.
            EmbedderUnavailable: It is not of this kind.
            EmbedderUntried: Whether it is of this kind is not known yet; what was downloaded is kept.
        """
        folder = self._meant(name)
        yield from self._fetched(folder, pause)
        return self._place(folder)

    def stop(self) -> None:
        self._downloads.stop()

    # --- what each kind decides ---

    @abstractmethod
    def _require_listed(self, repo: str, files: Iterable[str]) -> None:
        """Raises EmbedderUnavailable if the names of a repository's files show that it is not of this kind."""

    @abstractmethod
    def _needed(self, repo: str, files: Iterable[str], first: Path) -> Needed:
        """Returns the files to download, according to `first`. Raises EmbedderUnavailable if it is not of this kind."""

    @abstractmethod
    def _require_plain(self, repo: str, coming: Path) -> None:
        """Raises EmbedderUnavailable if the small files show that it cannot be used here."""

    @abstractmethod
    def _complete(self, folder: Folder, coming: Path) -> None:
        """Adds what else is known of the model to its folder."""

    @abstractmethod
    def _on_trial(self, coming: Path) -> Generator[None, None, None]:
        """Tries the model. Raises EmbedderUnavailable and EmbedderUntried."""

    @abstractmethod
    def _require_whole(self, place: Path) -> None:
        """Raises EmbedderUnavailable if an existing folder holds no complete model of this kind."""

    @abstractmethod
    def _entry(self, folder: Folder, told: Download) -> Entry:
        """Returns its entry on the list: `_facts` and more."""

    # --- inside ---

    @property
    def _folder(self) -> Path:
        return self._folders[0]

    @property
    def _folders(self) -> list[Path]:
        """The folder of downloads, followed by earlier ones."""
        return [folder / self.kind.folder for folder in self._home.model_folders(self._settings())]

    def _place(self, folder: Folder) -> Path:
        """Returns the folder in which it is or will be."""
        places = [base / str(folder) for base in self._folders]
        return next((place for place in places if place.is_dir()), places[0])

    def _begun(self, folder: Folder) -> list[Path]:
        """Returns where its download may be, in the present folder of models or an earlier one."""
        return [base / _COMING / str(folder) for base in self._folders]

    def _on_disk(self) -> set[str]:
        """Returns repositories of which at least a part is here."""
        found = [path for base in self._folders for path in (*base.glob("*/*"), *(base / _COMING).glob("*/*"))]
        names = {"/".join(path.parts[-2:]) for path in found if path.is_dir() and path.parent.name != _COMING}
        return {name for name in names if self._is_name(name)}

    def _is_name(self, name: str) -> bool:
        with suppress(BadRequest):
            return str(self._meant(name)) == name
        return False

    def _meant(self, name: str) -> Folder:
        with suppress(BadRequest):
            meant = meant_by(named_in(self.kind.catalogue, name.strip()), self._settings().hub)
            if isinstance(meant, Folder):
                return replace(meant, inside="")
        raise BadRequest(f"{name!r} names no {self.kind.name} of the hub.", "Name it as OWNER/NAME, or paste its link.")

    def _fetched(self, folder: Folder, pause: Pause) -> Generator[Fetched, None, None]:
        place = self._place(folder)
        if not self._is_whole(place):
            # The folder of downloads may be changed meanwhile; a download ends in the folder where it began.
            base = self._folder
            coming = base / _COMING / str(folder)
            # If the user removed files from it, the rest need not be downloaded again.
            for left in (*self._begun(folder), place):
                # Because of links, two folders of models may contain the same files.
                if os.path.realpath(left) != os.path.realpath(coming) and self._is_ours(left):
                    yield from _carried(left, coming)
            yield from self._brought(folder, base / _COMING, pause)
            self._complete(folder, coming)
            yield from self._tried(coming)
            place = base / str(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(coming, place)
        self._use(str(place))

    def _brought(self, folder: Folder, base: Path, pause: Pause) -> Generator[Fetched, None, None]:
        """Downloads the needed files to below `base`; the weights once the other files show that they are usable."""
        repo, hub = str(folder), Hub(self._settings().hub)
        files = {one.source.file: one for one in hub.files(folder)}
        self._require_listed(repo, files)
        coming = base / str(folder)
        with closing(bring(hub, _missing(files, (self.kind.first,), base), base, pause)) as steps:
            for _ in steps:
                # The total is known only after this.
                yield Fetched(0, 0)
        needed = self._needed(repo, files, coming / self.kind.first)
        small, weights = (_missing(files, names, base) for names in (needed.small, needed.weights))
        total_bytes = sum(files[name].num_bytes for name in (*needed.small, *needed.weights))
        missing_bytes, weight_bytes = (sum(one.num_bytes for one in some) for some in ((*small, *weights), weights))
        here_bytes = total_bytes - missing_bytes
        yield from bring(hub, small, base, pause, here_bytes=here_bytes, to_come_bytes=weight_bytes)
        self._require_plain(repo, coming)
        yield from bring(hub, weights, base, pause, here_bytes=total_bytes - weight_bytes)

    def _tried(self, coming: Path) -> Iterator[Fetched]:
        """Loads it once; a model that cannot be loaded is deleted, because the next attempt would fail as well."""
        num_bytes = bytes_below(coming)
        try:
            with closing(self._on_trial(coming)) as steps:
                for _ in steps:
                    yield Fetched(num_bytes, num_bytes, is_new=False)
        except EmbedderUnavailable as error:
            if not is_the_systems(error):
                shutil.rmtree(coming, ignore_errors=True)
            raise

    def _facts(self, folder: Folder, told: Download) -> dict[str, Any]:
        """Returns the fields of an entry of any kind."""
        known, place = known_in(self.kind.catalogue, str(folder)), self._place(folder)
        download = told if told.is_under_way else self._as_it_lies(folder, told)
        return {
            "source": str(folder),
            "name": folder.repo.partition("/")[2],
            "path": str(place),
            "good_for": known.good_for if known is not None else "",
            "licence": known.licence if known is not None else "",
            "num_bytes": known.num_bytes if known is not None else told.total_bytes,
            "download": download,
            "deletable_bytes": self._deletable_bytes(place) if download.state == "there" else 0,
        }

    def _deletable_bytes(self, place: Path) -> int:
        return bytes_below(place) if self._is_ours(place) and not self._is_used(place) else 0

    def _is_ours(self, place: Path) -> bool:
        """Returns whether it is where we put it: links of folders may lead to places that are not ours."""
        with suppress(OSError, RuntimeError):
            base = next(base for base in self._folders if place.is_relative_to(base))
            return place.is_dir() and place.resolve() == base.resolve() / place.relative_to(base)
        return False

    def _is_used(self, place: Path) -> bool:
        return any(_leads_to(model, place) for model in self._used() if model)

    def _as_it_lies(self, folder: Folder, told: Download) -> Download:
        if self._is_whole(self._place(folder)):
            return replace(told, state="there", problem="", way_out="")
        num_bytes = sum(map(bytes_below, self._begun(folder)))
        return replace(told, state="part" if num_bytes else "absent", num_bytes=num_bytes)

    def _is_whole(self, place: Path) -> bool:
        if not place.is_dir():
            return False
        with suppress(EmbedderUnavailable):
            self._require_whole(place)
            return True
        return False


def _missing(files: dict[str, HubFile], names: tuple[str, ...], base: Path) -> list[HubFile]:
    """Returns the files that are not below `base` yet, or differ from those on the hub."""
    return [files[name] for name in names if not is_as_told(files[name].source.below(base), files[name])]


def _carried(left: Path, coming: Path) -> Generator[Fetched, None, None]:
    """Moves the files of a folder to another one, except those that exist there."""
    files = [(file, coming / file.relative_to(left)) for file in left.rglob("*") if file.is_file()]
    if moves := [(file, target) for file, target in files if not target.exists()]:
        yield from carry(moves)
    shutil.rmtree(left, ignore_errors=True)


def _delete(place: Path) -> None:
    """Deletes a folder. It is moved to the downloads first, where a remainder can be deleted later. Raises OSError."""
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
