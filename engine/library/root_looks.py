"""Looks at where roots are, on threads of their own: a share that does not answer delays only itself."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial

# A sleeping drive takes longer, and is waited for once.
PATIENCE_SECONDS = 2.0
# A look that is about to read there waits longer; but only briefly for a root next to one that does not answer.
LONG_PATIENCE_SECONDS, SHORT_PATIENCE_SECONDS = 15.0, 0.25

Look = Callable[[str], Hashable]


class RootLooks:
    """Looks at roots for one thread that does so again and again; a root that hangs is left out until it answers."""

    def __init__(self, look: Look | None = None, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Takes how to look at a path (by default `identity_of`), which may hang."""
        self._look, self._patience_seconds = look or identity_of, patience_seconds
        self._known: dict[str, Hashable] = {}
        self._silent: dict[str, LookRound] = {}

    @property
    def silent(self) -> frozenset[str]:
        """Paths whose last look has not returned: touching them would hang as well."""
        return frozenset(self._silent)

    def at(self, paths: Iterable[str]) -> Mapping[str, Hashable]:
        """Looks at each path; for those that do not answer returns the last result, None if there is none."""
        self._silent = {path: look for path, look in self._silent.items() if not look.is_over.is_set()}
        wanted = tuple(paths)
        waiting = [path for path in wanted if path not in self._silent]
        while waiting:
            look = LookRound(self._look, waiting)
            if (silent := look.silent_after(self._patience_seconds)) is not None:
                self._silent[silent] = look
            self._known |= look.found
            waiting = [path for path in waiting if path not in look.found and path not in self._silent]
        self._known = {path: self._known.get(path) for path in wanted}
        return dict(self._known)


class LookRound:
    """Looks at paths one after another, on a thread of its own that callers may abandon."""

    def __init__(self, look: Look, paths: Iterable[str]) -> None:
        self.found: dict[str, Hashable] = {}
        self.is_over = threading.Event()
        self._look, self._paths, self._at = look, tuple(paths), ""
        self._is_given_up = False
        # Notified before each look and at the end.
        self._stepped = threading.Condition()
        threading.Thread(target=self._run, name="looking at roots", daemon=True).start()

    def silent_after(self, patience_seconds: float) -> str | None:
        """Waits for the end. Gives up on the first path whose look takes longer than this, and returns it."""
        with self._stepped:
            while not self.is_over.is_set():
                at = self._at
                if not self._stepped.wait_for(partial(self._has_left, at), patience_seconds):
                    return self.give_up()
        return None

    def _has_left(self, path: str) -> bool:
        return self.is_over.is_set() or self._at != path

    def give_up(self) -> str:
        """Has it end after the current look, and returns that look's path; later results are dropped."""
        with self._stepped:
            self._is_given_up = True
            return self._at or self._paths[0]

    def _run(self) -> None:
        try:
            for path in self._paths:
                with self._stepped:
                    if self._is_given_up:
                        return
                    self._at = path
                    self._stepped.notify_all()
                seen = self._seen(path)
                with self._stepped:
                    if not self._is_given_up:
                        self.found[path] = seen
        finally:
            with self._stepped:
                self.is_over.set()
                self._stepped.notify_all()

    def _seen(self, path: str) -> Hashable:
        try:
            return self._look(path)
        except (OSError, ValueError):
            # For ValueError: this is no valid path, so nothing is there.
            return None


def seen_in_time(paths: Sequence[str], look: Look) -> Mapping[str, Hashable]:
    """Looks at paths, up to the first that does not answer in time; None stands for a path where nothing is.

    Not for frequent use: it may leave a thread behind.
    """
    if not paths:
        return {}
    seen = LookRound(look, paths)
    if not seen.is_over.wait(PATIENCE_SECONDS):
        seen.give_up()
    return dict(seen.found)


# Looks that have not returned, by path, so that none is waited for twice. For the index thread only.
_UNANSWERED: dict[str, LookRound] = {}


def answers(path: str) -> bool:
    """Returns whether a root answers, be it there or not: a thread that touches one that does not cannot be stopped."""
    for other in [other for other, look in _UNANSWERED.items() if look.is_over.is_set()]:
        del _UNANSWERED[other]
    folder = os.path.dirname(path)
    if any(path == other or path.startswith(os.path.join(other, "")) for other in _UNANSWERED):
        return False
    is_beside = any(folder == os.path.dirname(other) for other in _UNANSWERED)
    look = LookRound(identity_of, (path,))
    if look.is_over.wait(SHORT_PATIENCE_SECONDS if is_beside else LONG_PATIENCE_SECONDS):
        return True
    _UNANSWERED[path] = look
    return False


def identity_of(path: str) -> Hashable:
    """Returns a value that differs when another folder, file or drive is in a root's place; None if nothing is."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else stat.S_IFMT(found.st_mode)
