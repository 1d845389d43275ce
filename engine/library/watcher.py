"""Watcher: keeps the library in step with its folders while the engine runs, at almost no cost while idle.

It listens below all linked folders, waits until changes have settled, and asks for a look at exactly these places.
Changes that are not reported (limits of the system, network drives, the engine was off) are found by looking: at every
root when listening begins or ends, when the root itself goes or comes back, and from time to time. This module only
calls `stat`; the index worker looks.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.catalog import Root
from engine.config import IGNORE_FILE, LibrarySettings
from engine.library.changes import is_below
from engine.library.debounce import GONE, Debouncer, State
from engine.library.ignoring import ignored_below
from engine.library.listening import FolderListener, Listener
from engine.library.pace import Clock
from engine.library.root_looks import PATIENCE_SECONDS, LookRound, RootLooks

log = logging.getLogger(__name__)

# How often to check whether roots are still there, and whether there are new ones.
TEND_SECONDS = 1.0
_RETRY_SECONDS = 2.0
_MAX_RETRY_SECONDS = 1800.0
_LASTING_SECONDS = 30.0
_STOP_SECONDS = 5.0
# A burst of this many changes may have been truncated by the system: then the whole folder is looked at.
_MAX_BURST = 4000

Listen = Callable[[str, bool, Callable[[Collection[str]], None], Callable[[str], None]], Listener]


@dataclass(slots=True)
class _Place:
    """A folder to listen in: a root, or the folder of a linked file."""

    is_recursive: bool
    listener: Listener | None = None
    retry_at: float = 0.0
    retry_seconds: float = _RETRY_SECONDS


class Watcher:
    """One thread that maintains the listeners and passes on settled changes. Create it, `start` it, `stop` it."""

    def __init__(
        self,
        roots: Callable[[], Sequence[Root]],
        settings: Callable[[], LibrarySettings],
        refresh: Callable[[Sequence[str]], object],
        rescan: Callable[[], object],
        clock: Clock = time.monotonic,
        listen: Listen = FolderListener,
        every_second: Callable[[], object] = lambda: None,
    ) -> None:
        """Takes the linked roots and the settings, and what to call to look at some places or at all roots.

        `every_second` is called every second or so, for other things that are tried regularly.
        """
        self._every_second = every_second
        self._roots, self._settings, self._refresh, self._rescan = roots, settings, refresh, rescan
        self._clock, self._listen = clock, listen
        self._changed = threading.Condition()
        self._debouncer = Debouncer()
        # Looks that have not returned, by path.
        self._hanging: dict[str, LookRound] = {}
        self._places: dict[str, _Place] = {}
        self._root_looks = RootLooks()
        self._identities: Mapping[str, Hashable] = {}
        self._known_roots: tuple[Root, ...] = ()
        self._real: dict[str, str] = {}
        self._to_look_at: dict[str, None] = {}
        self._tend_at = self._rescan_at = 0.0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._rescan_at = self._clock() + self._rescan_seconds()
        self._thread.start()

    def stop(self) -> None:
        """Ends all listening. May be called twice, and without `start`."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            # It may hang at a share that does not answer; then it ends with the process.
            self._thread.join(_STOP_SECONDS)

    def wake(self) -> None:
        """Reacts now to changed roots or settings."""
        with self._changed:
            self._tend_at = 0.0
            self._changed.notify_all()

    def is_watched(self, root: Root) -> bool:
        """Returns whether changes at or below a root are noticed as they happen; otherwise at the next look."""
        with self._changed:
            return any(
                place.listener is not None and place.listener.is_listening
                for folder, place in self._places.items()
                if (is_below(root.path, folder) if place.is_recursive else _lies_in(root, folder))
            )

    # --- the thread ---

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._step()
            except Exception:
                # The thread must go on: a failure at one folder must not stop watching the others.
                log.exception("the watcher met a fault of ours")
                self._tend_at = self._clock() + TEND_SECONDS
            self._sleep()
        for folder in [*self._places]:
            self._leave(folder)

    def _step(self) -> None:
        now = self._clock()
        if now >= self._tend_at:
            self._tend(now)
            self._tend_at = now + TEND_SECONDS
            self._every_second()
        states = self._states_of_quiet(now)
        with self._changed:
            paths = (*self._to_look_at, *self._debouncer.due(states, now))
            self._to_look_at.clear()
        if paths:
            self._refresh(tuple(dict.fromkeys(paths)))
        if now >= self._rescan_at:
            self._rescan()
            self._rescan_at = now + self._rescan_seconds()

    def _states_of_quiet(self, now: float) -> dict[str, State]:
        """Returns the states of paths that are quiet, except on shares that hang: those wait until they answer."""
        self._hanging = {path: look for path, look in self._hanging.items() if not look.is_over.is_set()}
        with self._changed:
            quiet = self._debouncer.quiet(now)
        held = [root.path for root in self._known_roots if any(is_below(path, root.path) for path in self._hanging)]
        paths = [path for path in quiet if not any(is_below(path, folder) for folder in held)]
        if not paths:
            return {}
        look = LookRound(lambda path: state_of(path), paths)
        if (silent := look.silent_after(PATIENCE_SECONDS)) is not None:
            self._hanging[silent] = look
        return {path: state for path, state in dict(look.found).items() if isinstance(state, State)}

    def _sleep(self) -> None:
        with self._changed:
            if self._is_stopping or self._to_look_at:
                return
            times = [self._tend_at, self._rescan_at, None if self._hanging else self._debouncer.next_due()]
            next_at = min(at for at in times if at is not None)
            self._changed.wait(max(0.01, next_at - self._clock()))

    def _rescan_seconds(self) -> float:
        minutes = self._settings().rescan_minutes
        return minutes * 60 if minutes else float("inf")

    # --- roots and listeners ---

    def _tend(self, now: float) -> None:
        """Starts and ends listeners, and notices roots that went away or came back."""
        # A shorter interval takes effect at once.
        self._rescan_at = min(self._rescan_at, now + self._rescan_seconds())
        roots = tuple(self._roots())
        fresh = {root.path for root in roots} - {root.path for root in self._known_roots}
        was_silent = self._root_looks.silent
        identities = self._root_looks.at(dict.fromkeys(root.path for root in roots))
        # Roots that answer again: the index thread may have given up on them meanwhile.
        again = [path for path in identities if path in was_silent - self._root_looks.silent]
        if roots != self._known_roots:
            silent = self._root_looks.silent
            real = {root.path: os.path.realpath(root.path) for root in roots if root.path not in silent}
            with self._changed:
                self._known_roots, self._real = roots, real
        turned = [path for path, identity in identities.items() if self._identities.get(path, identity) != identity]
        self._identities = identities
        wanted = places_for(roots, identities) if self._settings().watch else {}
        for folder, place in [*self._places.items()]:
            # A folder of linked files may now be linked itself, or the other way round.
            is_as_wanted = wanted.get(folder) == place.is_recursive
            if not is_as_wanted or any(is_below(path, folder) for path in turned):
                self._leave(folder)
        for folder, is_recursive in wanted.items():
            self._attend(folder, is_recursive, now)
        # A listener that begins asks for a look; other new roots get one now.
        unheard = [path for path in fresh if not any(is_below(path, folder) for folder in wanted)]
        self._look_at(list(dict.fromkeys((*turned, *again, *unheard))))

    def _attend(self, folder: str, is_recursive: bool, now: float) -> None:
        with self._changed:
            place = self._places.setdefault(folder, _Place(is_recursive))
        if place.listener is not None or now < place.retry_at:
            return
        place.retry_at = now + place.retry_seconds
        with self._changed:  # so that the listener cannot report its end before it is stored here
            place.listener = self._listen(
                folder, is_recursive, self._heard, lambda problem: self._turned(folder, place, problem)
            )

    def _leave(self, folder: str) -> None:
        with self._changed:  # because a listener that ends takes itself out
            listener = self._places.pop(folder).listener
        if listener is not None:
            listener.stop()

    def _turned(self, folder: str, place: _Place, problem: str) -> None:
        """Notes that a listener began or ended (on its thread), and asks for a look: changes may have been missed."""
        with self._changed:
            if problem:
                log.info("%s: %s", folder, problem)
                place.listener = None
                place.retry_seconds = self._next_retry(place)
                place.retry_at = self._clock() + place.retry_seconds
        self._look_at(root.path for root in self._known_roots if is_below(root.path, folder))

    def _next_retry(self, place: _Place) -> float:
        # A listener that lasted for a while before it ended is tried again soon.
        has_lasted = self._clock() - place.retry_at > _LASTING_SECONDS
        return _RETRY_SECONDS if has_lasted else min(2 * place.retry_seconds, _MAX_RETRY_SECONDS)

    def _look_at(self, paths: Iterable[str]) -> None:
        with self._changed:
            self._to_look_at.update(dict.fromkeys(paths))
            if self._to_look_at:
                self._changed.notify_all()

    # --- what is heard ---

    def _heard(self, paths: Collection[str]) -> None:
        roots, real = self._known_roots, self._real
        folders = {os.path.dirname(path): "" for path in paths}
        for folder in folders:
            folders[folder] = own_name(folder, real)
        told = [os.path.join(folders[os.path.dirname(path)], os.path.basename(path)) for path in paths]
        now = self._clock()
        wanted = {place for path in told for place in place_of(path, roots)}
        if len(paths) > _MAX_BURST:
            wanted = {root.path for root in roots if any(is_below(path, root.path) for path in wanted)}
        states = _states_of(wanted)
        with self._changed:
            for path, state in states.items():
                self._debouncer.note(path, state, now)
            self._changed.notify_all()


def places_for(roots: Iterable[Root], identities: Mapping[str, Hashable]) -> dict[str, bool]:
    """Returns the folders to listen in, each with whether it is recursive; none is below a recursive one.

    A linked file is watched through its folder. Folders that are not there are left out.
    """
    here = [root for root in roots if identities.get(root.path) is not None]
    folders = {root.path for root in here if root.is_folder}
    folders = {path for path in folders if not any(path != other and is_below(path, other) for other in folders)}
    parents = {os.path.dirname(root.path) for root in here if not root.is_folder}
    parents = {path for path in parents if not any(is_below(path, folder) for folder in folders)}
    return dict.fromkeys(sorted(folders), True) | dict.fromkeys(sorted(parents), False)


def own_name(folder: str, real_roots: dict[str, str]) -> str:
    """Returns a folder's path below its root: the system may report it by the path of a link that leads there."""
    real = os.path.realpath(folder)
    if real == folder:
        return folder
    for root, real_root in real_roots.items():
        if is_below(real, real_root):
            return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))
    return folder


def _lies_in(root: Root, folder: str) -> bool:
    return not root.is_folder and os.path.dirname(root.path) == folder


def place_of(path: str, roots: Iterable[Root]) -> tuple[str, ...]:
    """Returns what to look at because of a change at `path`; nothing if no root includes it."""
    covering = [root for root in roots if is_below(path, root.path)]
    if os.path.basename(path) == IGNORE_FILE:
        return (os.path.dirname(path),) if covering else ()
    is_folder = os.path.isdir(path)
    is_wanted = any(path == root.path or not ignored_below(root.path, path, is_folder) for root in covering)
    return (path,) if is_wanted else ()


def _states_of(paths: Iterable[str]) -> dict[str, State]:
    """Returns the states of paths; never to be called while a lock is held, as a share may not answer."""
    return {path: state_of(path) for path in paths}


def state_of(path: str) -> State:
    """Returns a state that differs when a path has changed."""
    try:
        found = os.lstat(path)
    except OSError:
        return GONE
    is_folder = stat.S_ISDIR(found.st_mode)
    return State("folder" if is_folder else (found.st_size, found.st_mtime_ns), is_folder)
