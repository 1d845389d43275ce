"""Downloading a model: resumed where it stopped, checked against the hub's checksums, and moved into place whole.

Incomplete data is in `NAME.CHECKSUM.part` beside the target, written as it arrives. A download after a kill continues
with it; if the file has changed on the hub, its part has another name.
"""

from __future__ import annotations

import glob
import math
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from engine.config import MIB
from engine.errors import BadRequest, DiskFull, DownloadCut, DownloadFailed, is_disk_full
from engine.models.fetched import Fetched
from engine.models.hub import LONGEST_WAIT_SECONDS, Hub, HubFile
from engine.models.source import Source

# Pauses between tries that brought little data.
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
MUCH_BYTES = MIB
# Left free for documents and chats, which are still written; checked repeatedly.
LEFT_FREE_BYTES = 256 * MIB
LOOK_EVERY_BYTES = 64 * MIB
_READ_BYTES = 4 * MIB
_PART_SUFFIX = re.compile(r"\.[0-9a-f]{16}\.part$")


def fetch(
    hub: Hub,
    source: Source,
    folder: Path,
    pause: Callable[[float], object],
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Generator[Fetched, None, None]:
    """Downloads a model to its place below `folder`, and yields its progress; if closed, it keeps what was downloaded.

    A model in several files is downloaded one file after another; existing files that match the hub are kept.

    Args:
        hub: The hub to download from.
        source: The model.
        folder: The folder of models.
        pause: Waits so many seconds, or less if the download is cancelled.
        free_bytes: Returns the free space on the disk of a folder.

    Raises:
        DownloadFailed: The hub does not deliver it, or the data does not match the hub's checksum.
        DiskFull: There is no room for it.
    """
    if all(place.is_file() for place in source.pieces_below(folder)):
        return
    told = hub.look_up(source.pieces)
    here = yield from _still_told(told, folder)
    # Missing files come last, so that files of two revisions are never mistaken for a complete model.
    wanted = sorted((one for one in told if one not in here), key=lambda one: not one.source.below(folder).is_file())
    yield from bring(hub, wanted, folder, pause, free_bytes, here_bytes=sum(one.num_bytes for one in here))


def _still_told(told: Sequence[HubFile], folder: Path) -> Generator[Fetched, None, list[HubFile]]:
    """Checks existing files, and yields progress; returns those that match the hub."""
    here, here_bytes, total_bytes = list[HubFile](), 0, sum(one.num_bytes for one in told)
    for one in told:
        place, found = one.source.below(folder), one.new_sum()
        if _is_as_large(place, one):
            with _told_of_the_disk(folder), closing(_summed_up(place, found)) as steps:
                for num_bytes in steps:
                    yield Fetched(here_bytes + num_bytes, total_bytes, is_new=False)
            if found.hexdigest() == one.checksum:
                here.append(one)
                here_bytes += one.num_bytes
    return here


def bring(
    hub: Hub,
    wanted: Sequence[HubFile],
    folder: Path,
    pause: Callable[[float], object],
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    *,
    here_bytes: int = 0,
    to_come_bytes: int = 0,
) -> Generator[Fetched, None, None]:
    """Downloads files one after another, and yields progress as `fetch` does.

    `here_bytes` of the whole model exist already, and `to_come_bytes` follow later; both count in the totals.
    """
    before, total_bytes = here_bytes, here_bytes + sum(one.num_bytes for one in wanted) + to_come_bytes
    for one in wanted:
        behind_bytes = total_bytes - before - one.num_bytes
        with closing(_fetched(hub, one, behind_bytes, folder, pause, free_bytes)) as steps:
            for step in steps:
                yield Fetched(before + step.num_bytes, total_bytes, step.is_new)
        before += one.num_bytes


def _fetched(
    hub: Hub,
    wanted: HubFile,
    behind_bytes: int,
    folder: Path,
    pause: Callable[[float], object],
    free_bytes: Callable[[Path], int],
) -> Generator[Fetched, None, None]:
    """Downloads one file, if there is also room for `behind_bytes` that follow it."""
    target = wanted.source.below(folder)

    def require_room(missing_bytes: int) -> None:
        free = free_bytes(target.parent)
        if free < missing_bytes + LEFT_FREE_BYTES:
            raise _no_room(folder, missing_bytes - max(0, free - LEFT_FREE_BYTES))

    with _told_of_the_disk(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(_Part(_part_of(target, wanted), wanted.new_sum)) as part:
            for other in parts_of(target):
                if other != part.path:
                    other.unlink()
            for num_bytes in part.looked_through():
                yield Fetched(num_bytes, wanted.num_bytes, is_new=False)
            require_room(wanted.num_bytes - part.num_bytes + behind_bytes)
            yield from _grown(hub, wanted, part, pause, require_room)
            if part.checksum != wanted.checksum:
                part.remove()
                raise DownloadFailed(
                    f"{target.name} arrived damaged: its checksum differs from the one on the hub. It was removed.",
                    "Get it again; if that happens twice, check your disk.",
                )
            part.settle(target)


def carry(
    moves: Sequence[tuple[Path, Path]],
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Generator[Fetched, None, None]:
    """Moves files of an earlier try to another folder, where the download continues; each file moves as a whole.

    Raises:
        DownloadFailed: A file cannot be read, or not written there.
        DiskFull: There is no room for them.
    """
    done_bytes, total_bytes = 0, sum(file.stat().st_size for file, _ in moves)
    for file, target in moves:
        with _told_of_the_disk(target.parent), closing(_carried(file, target, free_bytes)) as steps:
            for num_bytes in steps:
                done_bytes += num_bytes
                yield Fetched(done_bytes, total_bytes, is_new=False)


def _carried(file: Path, target: Path, free_bytes: Callable[[Path], int]) -> Generator[int, None, None]:
    """Moves a file, and yields the number of bytes of each step."""
    num_bytes = file.stat().st_size
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.replace(file, target)
        yield num_bytes
        return
    # The target is on another disk, so the file must be copied.
    free = free_bytes(target.parent)
    if free < num_bytes + LEFT_FREE_BYTES:
        raise _no_room(target.parent, num_bytes - max(0, free - LEFT_FREE_BYTES))
    coming = target.with_name(f"{target.name}.coming")
    try:
        with file.open("rb") as source, coming.open("wb") as copy:
            while piece := _read(source):
                copy.write(piece)
                yield len(piece)
        os.replace(coming, target)
    finally:
        coming.unlink(missing_ok=True)
    with suppress(OSError):
        file.unlink()


def _read(file: BinaryIO) -> bytes:
    try:
        return file.read(_READ_BYTES)
    except OSError as error:
        raise DownloadFailed(
            f"What was downloaded of the model cannot be read: {file.name}: {error.strerror or error}.",
            "Remove it, and get the model again.",
        ) from error


def parts_of(target: Path) -> list[Path]:
    """Returns the parts of an incomplete file; if there are several, only one will be continued."""
    return sorted(target.parent.glob(f"{glob.escape(target.name)}.*.part"))


def begun_below(folder: Path) -> frozenset[Source]:
    """Returns the models in a folder whose downloads are incomplete."""
    found = set()
    # Files are at the top of a repository, or in a folder of it.
    for part in (*folder.glob("*/*/*.part"), *folder.glob("*/*/*/*.part")):
        with suppress(BadRequest):
            found.add(Source.parse(_PART_SUFFIX.sub("", part.relative_to(folder).as_posix())))
    return frozenset(found)


def _part_of(target: Path, wanted: HubFile) -> Path:
    return target.with_name(f"{target.name}.{wanted.checksum[:16]}.part")


def is_as_told(target: Path, wanted: HubFile) -> bool:
    """Returns whether an existing file matches the hub. Reads all of it."""
    if not _is_as_large(target, wanted):
        return False
    found = wanted.new_sum()
    for _ in _summed_up(target, found):
        pass
    return bool(found.hexdigest() == wanted.checksum)


def _is_as_large(target: Path, wanted: HubFile) -> bool:
    return target.is_file() and target.stat().st_size == wanted.num_bytes


def _summed_up(file: Path, found: Any) -> Generator[int, None, None]:
    """Adds the content of a file to a checksum, and yields the number of bytes so far."""
    num_bytes = 0
    with file.open("rb") as source:
        while piece := source.read(_READ_BYTES):
            found.update(piece)
            num_bytes += len(piece)
            yield num_bytes


class _Part:
    """The incomplete file and the checksum of its content. Writes are unbuffered."""

    def __init__(self, path: Path, new_sum: Callable[[], Any]) -> None:
        self.path, self._new_sum = path, new_sum
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b", 0)
        self._sum = new_sum()
        self.num_bytes = 0

    @property
    def checksum(self) -> str:
        return str(self._sum.hexdigest())

    def looked_through(self) -> Iterator[int]:
        """Computes the checksum of what an earlier try left, and yields the number of bytes so far."""
        while piece := self._file.read(_READ_BYTES):
            self._sum.update(piece)
            self.num_bytes += len(piece)
            yield self.num_bytes

    def append(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            view = view[self._file.write(view) :]
        self._sum.update(piece)
        self.num_bytes += len(piece)

    def begin_anew(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._sum, self.num_bytes = self._new_sum(), 0

    def settle(self, target: Path) -> None:
        os.fsync(self._file.fileno())
        # Windows can neither rename nor delete an open file.
        self.close()
        os.replace(self.path, target)

    def remove(self) -> None:
        self.close()
        self.path.unlink()

    def close(self) -> None:
        self._file.close()


def _grown(
    hub: Hub, wanted: HubFile, part: _Part, pause: Callable[[float], object], require_room: Callable[[int], None]
) -> Iterator[Fetched]:
    """Appends what is missing, over as many connections as necessary."""
    if part.num_bytes > wanted.num_bytes:
        part.begin_anew()
    failures = 0
    while part.num_bytes < wanted.num_bytes:
        before = part.num_bytes
        try:
            yield from _appended(hub, wanted, part, require_room)
        except DownloadCut as cut:
            failures = 0 if part.num_bytes - before >= MUCH_BYTES else failures + 1
            # For a long wait, other downloads go first.
            if failures > len(PAUSES_SECONDS) or (cut.wait_s or 0.0) > LONGEST_WAIT_SECONDS:
                raise
            pause(PAUSES_SECONDS[max(0, failures - 1)] if cut.wait_s is None else cut.wait_s)
            yield Fetched(part.num_bytes, wanted.num_bytes)


def _appended(hub: Hub, wanted: HubFile, part: _Part, require_room: Callable[[int], None]) -> Iterator[Fetched]:
    """Appends the data of one connection."""
    with hub.reading(wanted, part.num_bytes) as body:
        # If the hub sends the whole file again, the part that exists is skipped; the checksum covers both.
        looked_at, to_pass_bytes = part.num_bytes, part.num_bytes - body.start
        for come in body.pieces:
            piece = come[to_pass_bytes:]
            to_pass_bytes -= len(come) - len(piece)
            part.append(piece[: wanted.num_bytes - part.num_bytes])
            if part.num_bytes - looked_at >= LOOK_EVERY_BYTES:
                looked_at = part.num_bytes
                require_room(0)
            yield Fetched(part.num_bytes, wanted.num_bytes)
            if part.num_bytes == wanted.num_bytes:
                return
    if part.num_bytes < wanted.num_bytes:
        raise DownloadCut("The connection was cut.", "Try again. What was fetched is kept.")


@contextmanager
def _told_of_the_disk(folder: Path) -> Iterator[None]:
    """Converts OSErrors to errors of the disk; those of the network have been converted before."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise _no_room(folder, 0) from error
        raise DownloadFailed(
            f"{folder} cannot be written to: {error.strerror or error}.",
            "Choose another folder for models: the setting models.folder.",
        ) from error


def _no_room(folder: Path, missing_bytes: int) -> DiskFull:
    # Rounded up, so that the stated space is enough.
    missing = f"; {math.ceil(missing_bytes / 1e8) / 10:.1f} GB are missing" if missing_bytes > 0 else ""
    return DiskFull(
        f"The disk that holds {folder} has no room for the model{missing}.",
        "Free some space, or choose a folder on another disk (models.folder), and go on: what was fetched is kept.",
    )
