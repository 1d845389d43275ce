"""Detects loads that crash the process: a mark is on disk while a model is being loaded, and is removed afterwards.

Whatever a file does to llama.cpp or to the machine's memory, an engine that is started again finds the mark. So a model
that crashes the engine is not loaded over and over without an explanation. Code that has to end the process because of
a model long after its load leaves the same mark first.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from engine.config import write_atomically
from engine.errors import ModelLoadFailed

log = logging.getLogger(__name__)
# The first death may have another cause: the user ended Ragdoll, or the machine lost power.
MAX_DEATHS = 2
# Marks that the model that this thread is loading is about to end the process. A context variable, because the code
# that handles a model's memory knows addresses, but neither the model's name nor where the marks are.
note_death: ContextVar[Callable[[], None]] = ContextVar("note_death", default=lambda: None)


class LoadTrials:
    """The marks of all models, one each; on the generation thread, except `note_closing`. One model loads at a time."""

    def __init__(self, file: Path) -> None:
        """Reads nothing yet; `file` holds only the marks."""
        self._file = file
        self._lock = threading.Lock()
        self._is_closing = False
        # The mark of the load under way, with the deaths before this load.
        self._before: dict[str, Any] | None = None
        # Deaths from removed marks, for models that loaded after all when less of them was loaded.
        self._survived: dict[str, int] = {}

    @contextmanager
    def of(self, model: Path) -> Iterator[None]:
        """Marks a load for as long as it runs; the mark is removed however the load ends, even with an error.

        Raises:
            ModelLoadFailed: The same file has ended the process too often, so it is not tried again; or it is gone.
        """
        deaths, identity = self.deaths_of(model), _identity_now(model)
        if deaths >= MAX_DEATHS:
            raise ModelLoadFailed(
                f"Ragdoll's engine ended {deaths} times while it loaded {model.name}, so that is not tried again.",
                "Choose a smaller model, or choose this one again to try it once more.",
            )
        with self._lock:
            self._before = {**identity, "deaths": deaths}
            self._survived[str(model)] = max(deaths, self._survived.get(str(model), 0))
            self._mark()
        is_ours = note_death.set(partial(self.note_death, model))
        try:
            yield
        finally:
            note_death.reset(is_ours)
            with self._lock:
                self._before = None
                self._write({path: mark for path, mark in self._marks().items() if path != str(model)})

    def note_death(self, model: Path) -> None:
        """Marks that a loaded model is about to end the process, so that the next process loads less of it."""
        with self._lock, suppress(OSError):
            if not self._is_closing:
                deaths = self._survived.get(str(model), 0) + 1
                self._write({**self._marks(), str(model): {**_identity(model), "deaths": deaths}})

    def note_closing(self) -> None:
        """Makes the coming end of the process, which is intended, count against no load (from any thread)."""
        with self._lock:
            self._is_closing = True
            self._mark()

    def reset_failures(self, model: Path) -> None:
        """Forgets the mark of a model, because a user has chosen it and wants it tried."""
        with self._lock:
            self._survived.pop(str(model), None)
            self._write({path: mark for path, mark in self._marks().items() if path != str(model)})

    def deaths_of(self, model: Path) -> int:
        """Returns how often this file ended the process; an unreadable mark, or one of another file, counts as none."""
        try:
            mark = dict(self._marks()[str(model)])
            deaths = mark.pop("deaths")
            return int(deaths) if mark == _identity(model) else 0
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return 0

    def _mark(self) -> None:
        if self._before is not None:
            deaths = self._before["deaths"] + (not self._is_closing)
            self._write({**self._marks(), self._before["path"]: {**self._before, "deaths": deaths}})

    def _marks(self) -> dict[str, Any]:
        """Reads the marks of all models by their paths; none if they cannot be read."""
        try:
            marks = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return marks if isinstance(marks, dict) else {}

    def _write(self, marks: dict[str, Any]) -> None:
        try:
            if marks:
                write_atomically(self._file, json.dumps(marks).encode("ascii"))
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            # The model is loaded without a mark: a full disk must not prevent answers.
            log.warning("a load could not be marked: %s", error)


def _identity(model: Path) -> dict[str, Any]:
    """Returns what identifies the present file: a repeated download counts as another file."""
    status = model.stat()
    return {"path": str(model), "size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _identity_now(model: Path) -> dict[str, Any]:
    """Returns the same of a file that is about to be loaded. Raises ModelLoadFailed if it cannot be looked at."""
    try:
        return _identity(model)
    except OSError as error:
        raise ModelLoadFailed(
            f"{model.name} cannot be read any more: {error.strerror or error}.",
            "Look whether its drive is connected, then choose it again.",
        ) from error
