"""Scanner: which files lie below a folder now. It looks and tells; what follows from it is decided elsewhere.

Names are whatever bytes the file system has (surrogate escapes in `str`). Links are followed once all real
folders have been seen: each folder is entered once, so circles end, and a file is found under its own name
rather than a link's.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from hashlib import blake2b

from engine.core import FoundFile

IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__"})
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """Something that is no file to index; `hides_files` where nobody can tell what lies below it."""

    path: str
    reason: str
    hides_files: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """What lies at and below `path`. `absence` says why nothing can be known of it ("" when it is there)."""

    path: str
    files: tuple[FoundFile, ...] = ()
    problems: tuple[ScanProblem, ...] = ()
    is_folder: bool = True
    device: int | None = None
    absence: str = ""


def scan(path: str, excluded: frozenset[str] = frozenset()) -> Generator[str, None, Scan]:
    """Looks at a folder, or at one file, which is always taken. Yields each folder it enters: places to stop.

    Left out are hidden files and folders, IGNORED_FOLDERS, and everything at a path in `excluded`.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return Scan(path, absence="It is not there; perhaps it was moved, or its drive is not connected.")
    except OSError as error:
        return Scan(path, absence=f"It cannot be reached: {error.strerror}.")
    walk = _Walk(excluded)
    is_folder = stat.S_ISDIR(found.st_mode)
    if is_folder:
        yield from walk.folder(path, found)
        yield from walk.links()
    else:
        walk.take(path, found)
    return Scan(path, tuple(walk.files), tuple(walk.problems), is_folder, found.st_dev)


@dataclass(slots=True)
class _Walk:
    """One look around; holds what it has seen so far."""

    excluded: frozenset[str]
    files: list[FoundFile] = field(default_factory=list)
    problems: list[ScanProblem] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _links: deque[str] = field(default_factory=deque)

    def folder(self, path: str, found: os.stat_result) -> Generator[str, None, None]:
        """Takes all files below a folder and keeps its links for later. No recursion: folders may be nested deeply."""
        self._seen.add((found.st_dev, found.st_ino))
        waiting = [path]
        while waiting:
            current = waiting.pop()
            yield current
            inner = [entry for entry in self._entries(current) if self._look(entry)]
            waiting.extend(entry.path for entry in reversed(inner))

    def links(self) -> Generator[str, None, None]:
        """Follows the links that lead to something not seen yet; more may turn up on the way."""
        while self._links:
            path = self._links.popleft()
            try:
                found = os.stat(path)
            except OSError:
                self.problems.append(ScanProblem(path, "This link leads nowhere."))
                continue
            if (found.st_dev, found.st_ino) in self._seen:
                continue
            if stat.S_ISDIR(found.st_mode):
                yield from self.folder(path, found)
            else:
                self.take(path, found)

    def take(self, path: str, found: os.stat_result) -> None:
        """Takes a regular file; anything else is a problem, because reading it could wait for ever."""
        if stat.S_ISREG(found.st_mode):
            self._seen.add((found.st_dev, found.st_ino))
            self.files.append(found_file(path, found))
        else:
            self.problems.append(ScanProblem(path, f"This is {_kind(found.st_mode)}, not a file."))

    def _entries(self, path: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            reason = f"This folder cannot be read: {error.strerror}."
            self.problems.append(ScanProblem(path, reason, hides_files=True))
            return []

    def _look(self, entry: os.DirEntry[str]) -> bool:
        """Deals with anything but a folder; says whether this is one to enter."""
        if entry.name.startswith(".") or entry.path in self.excluded:
            return False
        try:
            if entry.is_symlink():
                self._links.append(entry.path)
                return False
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            self.problems.append(ScanProblem(entry.path, f"It cannot be reached: {error.strerror}.", hides_files=True))
            return False
        if not stat.S_ISDIR(found.st_mode):
            self.take(entry.path, found)
            return False
        identity = (found.st_dev, found.st_ino)
        if entry.name in IGNORED_FOLDERS or identity in self._seen:
            return False
        self._seen.add(identity)
        return True


def found_file(path: str, found: os.stat_result) -> FoundFile:
    return FoundFile(path, found.st_size, found.st_mtime_ns)


def look_at(path: str) -> FoundFile:
    """The file at `path` as it is now.

    Raises:
        FileNotFoundError: It is gone.
        OSError: It cannot be reached, or is no regular file any more.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, f"this is {_kind(found.st_mode)}, not a file")
    return found_file(path, found)


def content_hash(path: str) -> str:
    """blake2b of the file's content, 32 hex characters. Raises OSError."""
    # O_NONBLOCK: should a pipe have taken the file's place, opening it must not wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as stream:
        digest = blake2b(digest_size=16)
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")
