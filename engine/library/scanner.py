"""Scanner: which files lie below a folder now. It looks and tells; what follows from it is decided elsewhere.

Names may be any bytes (surrogate escapes in `str`). Links are followed after all real folders have been seen, and each
folder is entered once: so cycles end, and a file is found under its own name rather than a link's.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from hashlib import blake2b

from engine.core import FoundFile
from engine.library.identities import has_its_name, is_mount
from engine.library.ignoring import IgnoreRules, ignored_below, rules_in
from engine.library.removed import Removed
from engine.library.root_looks import answers

_READ_BYTES = 1 << 20
# One less than the latest time that filters use (scopes.py).
_MOST_NS = 2**63 - 2


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """Something that is no file to index; `hides_files`: what is below it cannot be seen."""

    path: str
    reason: str
    hides_files: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """What is at and below `path`. `absence` is why that cannot be known ("" when it is there).

    `has_links`: links were found, so the name of a file may depend on what else the root holds. `mounts` are folders on
    which another drive is mounted (other than the root itself), and links that lead to one.
    """

    path: str
    files: tuple[FoundFile, ...] = ()
    problems: tuple[ScanProblem, ...] = ()
    is_folder: bool = True
    device: int | None = None
    absence: str = ""
    has_links: bool = False
    mounts: tuple[str, ...] = ()


def scan(path: str, removed: Removed | None = None) -> Generator[str, None, Scan]:
    """Looks at a folder, or at one file, which is always taken. Yields each folder it enters; it can be stopped there.

    Leaves out what the rules of `ignoring` exclude, and what was `removed`.
    """
    # A place to stop and to let other work run, because each of many roots that do not answer is waited for.
    yield path
    if not answers(path):
        return Scan(path, absence="It does not answer; perhaps its drive or its server is not connected.")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return Scan(path, absence="It is not there; perhaps it was moved, or its drive is not connected.")
    except OSError as error:
        return Scan(path, absence=f"It cannot be reached: {error.strerror}.")
    walk = _Walk(removed or Removed())
    is_folder = stat.S_ISDIR(found.st_mode)
    if is_folder:
        yield from walk.folder(path, found, IgnoreRules())
        yield from walk.links()
    else:
        walk.take(path, found)
    if is_folder and _has_gone(path, found.st_dev):
        return Scan(path, absence="It went away while it was looked at; perhaps it was moved, or its drive taken off.")
    return walk.seen(path, is_folder, found.st_dev)


def _has_gone(path: str, device: int) -> bool:
    """Returns whether a folder has gone since it was looked at, or another drive is in its place."""
    try:
        return os.stat(path).st_dev != device
    except OSError:
        return True


def scan_below(root: str, path: str, removed: Removed | None = None) -> Generator[str, None, Scan]:
    """Looks at one file or folder below a root, as a look at the whole root would see it.

    Finds nothing where nothing is, or where it is left out. Links are noted (`Scan.has_links`), not followed.
    """
    removed = removed or Removed()
    walk = _Walk(removed)
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Scan(path)
    except OSError as error:
        return Scan(path, problems=(ScanProblem(path, f"It cannot be reached: {error.strerror}.", hides_files=True),))
    is_folder = stat.S_ISDIR(found.st_mode)
    if removed.takes_above(root, path) or ignored_below(root, path, is_folder) or not has_its_name(path):
        return Scan(path)
    if is_folder:
        if path != root and is_mount(path):
            walk.mounts.append(path)
        yield from walk.folder(path, found, rules_in(root, os.path.dirname(path)))
    elif stat.S_ISLNK(found.st_mode):
        return Scan(path, has_links=True)
    else:
        walk.take(path, found)
    return walk.seen(path, is_folder, found.st_dev)


def is_left_out(root: str, path: str, is_folder: bool, excluded: frozenset[str]) -> bool:
    """Returns whether something below a root is excluded by the rules, or because the user removed it."""
    at = path
    while at != root and at != os.path.dirname(at):
        if at in excluded:
            return True
        at = os.path.dirname(at)
    return ignored_below(root, path, is_folder)


@dataclass(slots=True)
class _Walk:
    """One walk through folders, with what it has seen so far."""

    removed: Removed
    files: list[FoundFile] = field(default_factory=list)
    problems: list[ScanProblem] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _links: deque[tuple[str, IgnoreRules]] = field(default_factory=deque)
    _has_links: bool = False

    def seen(self, path: str, is_folder: bool, device: int) -> Scan:
        files, problems, mounts = tuple(self.files), tuple(self.problems), tuple(self.mounts)
        return Scan(path, files, problems, is_folder, device, has_links=self._has_links, mounts=mounts)

    def folder(self, path: str, found: os.stat_result, rules: IgnoreRules) -> Generator[str, None, None]:
        """Takes all files below a folder and keeps its links for later; not recursive, for folders nested deeply.

        `rules` are those of the folders above.
        """
        self._seen.add((found.st_dev, found.st_ino))
        waiting = [(path, rules, found.st_dev)]
        while waiting:
            current, above, device = waiting.pop()
            yield current
            here = above.within(current)
            looked_at = ((entry.path, self._look(entry, here)) for entry in self._entries(current))
            devices = {path: inner.st_dev for path, inner in looked_at if inner is not None}
            self.mounts += [path for path, inner_device in devices.items() if inner_device != device]
            waiting.extend((path, here, inner_device) for path, inner_device in reversed(devices.items()))

    def links(self) -> Generator[str, None, None]:
        """Follows links that lead to something not seen yet; more links may turn up on the way."""
        while self._links:
            path, rules = self._links.popleft()
            try:
                found = os.stat(path)
            except OSError:
                # Its drive may be away: then what was behind it is out of reach, not gone.
                self.problems.append(ScanProblem(path, "This link leads nowhere.", hides_files=True))
                continue
            if (found.st_dev, found.st_ino) in self._seen:
                continue
            if stat.S_ISDIR(found.st_mode):
                if not rules.ignore(path, is_folder=True):
                    if is_mount(path):
                        # Where the drive is away, the link leads to an empty folder.
                        self.mounts.append(path)
                    yield from self.folder(path, found, rules)
            else:
                self.take(path, found)

    def take(self, path: str, found: os.stat_result) -> None:
        """Takes a regular file; anything else is a problem, because reading it could hang."""
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
            self._note_vanished(path)
            return []
        except OSError as error:
            reason = f"This folder cannot be read: {error.strerror}."
            self.problems.append(ScanProblem(path, reason, hides_files=True))
            return []

    def _note_vanished(self, path: str) -> None:
        """Notes a folder that has just vanished; the next look tells if it was deleted, renamed or disconnected."""
        problem = ScanProblem(path, "This folder went away while it was looked at.", hides_files=True)
        if problem not in self.problems[-1:]:
            self.problems.append(problem)

    def _look(self, entry: os.DirEntry[str], rules: IgnoreRules) -> os.stat_result | None:
        """Handles an entry; returns its status if it is a folder to enter, otherwise None."""
        if entry.path in self.removed:
            self.removed.note(entry.path)
            return None
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.ignore(entry.path, is_folder):
                return None
            found = _told_of(entry)
            if self.removed.takes(entry.path, found):
                return None
            if stat.S_ISLNK(found.st_mode):
                self._has_links = True
                self._links.append((entry.path, rules))
                return None
        except FileNotFoundError:
            if not os.path.lexists(folder := os.path.dirname(entry.path)):
                self._note_vanished(folder)
            return None
        except OSError as error:
            self.problems.append(ScanProblem(entry.path, f"It cannot be reached: {error.strerror}.", hides_files=True))
            return None
        if not stat.S_ISDIR(found.st_mode):
            self.take(entry.path, found)
            return None
        identity = (found.st_dev, found.st_ino)
        if identity in self._seen:
            return None
        self._seen.add(identity)
        return found


def _told_of(entry: os.DirEntry[str]) -> os.stat_result:
    """Returns the status of an entry, not of a link's target. Raises OSError."""
    found = entry.stat(follow_symlinks=False)
    # On Windows, entries have no inode and no device: all would seem to be the same thing.
    return found if found.st_ino else os.lstat(entry.path)


def found_file(path: str, found: os.stat_result) -> FoundFile:
    # File systems allow dates after 2262 or before 1677, which do not fit into the catalogue.
    return FoundFile(path, found.st_size, max(-_MOST_NS, min(found.st_mtime_ns, _MOST_NS)))


def look_at(path: str) -> FoundFile:
    """Returns the file at `path` as it is now.

    Raises:
        FileNotFoundError: It is gone.
        OSError: It cannot be reached, or is no regular file any more.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, f"this is {_kind(found.st_mode)}, not a file")
    return found_file(path, found)


def content_hash(path: str) -> str:
    """Hashes the file's content (blake2b, 32 hex characters). Raises OSError."""
    # O_NONBLOCK: if a pipe has taken the file's place, opening it must not wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as stream:
        digest = blake2b(digest_size=16)
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")
