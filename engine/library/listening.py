"""Listening: what the system tells of changes below one folder, on a thread of its own, by way of watchfiles.

It ends at the system's limit on watches, at names that are not UTF-8, and when a drive goes away. The listener reports
the reason; from then on the watcher finds changes by looking.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from watchfiles._rust_notify import RustNotify

log = logging.getLogger(__name__)

# How often to ask for changes; each time costs some 20 µs.
_STEP_MS = 100
# Changes of one burst are reported together, but not later than this.
_BURST_MS = 300
_STOP_SECONDS = 5.0

LIMIT_REACHED = (
    "The system's limit on watched folders is reached; changes here are noticed at the next look. "
    "Raising fs.inotify.max_user_watches lifts it."
)
NOT_WATCHABLE = "This folder cannot be watched; changes here are noticed at the next look."


class Listener(Protocol):
    """A listener as the watcher sees it."""

    @property
    def is_listening(self) -> bool: ...

    def stop(self) -> None: ...


class FolderListener:
    """Listens below `folder` until `stop` is called, or until the system ends it."""

    def __init__(
        self, folder: str, is_recursive: bool, heard: Callable[[Collection[str]], None], turned: Callable[[str], None]
    ) -> None:
        """Starts listening at once.

        Args:
            folder: Where to listen.
            is_recursive: Whether to listen in all folders below as well.
            heard: Called with the paths of each burst, on the listener's thread.
            turned: Called with "" when listening begins, and with the reason when it ends by itself.
        """
        self._folder, self._is_recursive, self._heard, self._turned = folder, is_recursive, heard, turned
        self._is_over = threading.Event()
        self.is_listening = False
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends within a step. May be called twice, and from its own callbacks."""
        self._is_over.set()
        if self._thread is not threading.current_thread():
            # A share that hangs may hold it; it ends once that answers.
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        try:
            with RustNotify([self._folder], False, False, 0, self._is_recursive, True) as notify:
                self.is_listening = True
                self._turned("")
                self._listen(notify)
        # The thread's edge: the watcher gets the reason, and finds changes by looking from then on. `BaseException`,
        # because a panic of watchfiles' Rust code is no Exception.
        except BaseException as error:
            if not isinstance(error, OSError | RuntimeError | ValueError):
                log.exception("what was heard of a folder could not be taken in")
            self.is_listening = False
            if not self._is_over.is_set():
                self._turned(reason_for(error))
        self.is_listening = False

    def _listen(self, notify: RustNotify) -> None:
        while not self._is_over.is_set():
            changes = notify.watch(_BURST_MS, _STEP_MS, 0, self._is_over)
            if isinstance(changes, set):
                # The kinds of changes are not reliable (a rename comes as two halves), so only the paths are used.
                self._heard({path for _, path in changes})


def reason_for(error: BaseException) -> str:
    """Returns why listening ended, as a sentence."""
    text = str(error).lower()
    is_limit = "os error 28" in text or "limit" in text or "too many open files" in text
    return LIMIT_REACHED if is_limit else NOT_WATCHABLE
