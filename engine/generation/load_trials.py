"""Loads that ended the process: a mark lies on disk while a model is being loaded, and is removed when that has ended.

Whatever a file does to llama.cpp, or to the memory of the machine, an engine that is started again finds the mark. So a
model that takes the engine down is not loaded over and over with no process left to say why. Code that has to end the
process because of a model long after it was loaded leaves the same mark first.
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

from engine.errors import ModelLoadFailed

log = logging.getLogger(__name__)
# The first death may have had any cause: a user ended Ragdoll, or the machine went off.
MAX_DEATHS = 2
# Notes the death of the process over the model that this thread is loading. A context variable, because code that is
# made for a model, such as that for its memory, knows addresses, but neither the model's name nor where marks lie.
note_death: ContextVar[Callable[[], None]] = ContextVar("note_death", default=lambda: None)


class LoadTrials:
    """On the generation thread, except `note_closing`. Each model has its own mark; one is loaded at a time."""

    def __init__(self, file: Path) -> None:
        """Prepares; `file` holds the marks, and nothing else."""
        self._file = file
        self._lock = threading.Lock()
        self._is_closing = False
        # What the mark of a load that is under way said before it.
        self._before: dict[str, Any] | None = None
        # What removed marks said, of models that could be loaded with less.
        self._survived: dict[str, int] = {}

    @contextmanager
    def of(self, model: Path) -> Iterator[None]:
        """Marks a load that is under way; the mark is removed however the load ends, even with an error.

        Raises:
            ModelLoadFailed: The same file has ended the process too often; it is not tried again.
        """
        deaths = self.deaths_of(model)
        if deaths >= MAX_DEATHS:
            raise ModelLoadFailed(
                f"Ragdoll's engine ended {deaths} times while it loaded {model.name}, so that is not tried again.",
                "Choose a smaller model, or choose this one again to try it once more.",
            )
        with self._lock:
            self._before = {**_identity(model), "deaths": deaths}
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
        """The process is about to end itself over a loaded model: the next process is to load less of it."""
        with self._lock, suppress(OSError):
            if not self._is_closing:
                deaths = self._survived.get(str(model), 0) + 1
                self._write({**self._marks(), str(model): {**_identity(model), "deaths": deaths}})

    def note_closing(self) -> None:
        """The process is about to be ended on purpose (from any thread): that counts against no load."""
        with self._lock:
            self._is_closing = True
            self._mark()

    def reset_failures(self) -> None:
        """A user has chosen a model: whatever it did before, it is tried."""
        self._survived.clear()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def deaths_of(self, model: Path) -> int:
        """How often the process ended over this file; a mark that is unreadable, or of another file, counts as none."""
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
        """The marks of all models, by their paths; none where they cannot be read."""
        try:
            marks = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return marks if isinstance(marks, dict) else {}

    def _write(self, marks: dict[str, Any]) -> None:
        try:
            if marks:
                self._file.write_text(json.dumps(marks), encoding="ascii")
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            # Loading goes on without a mark: a full disk is no reason not to answer.
            log.warning("a load could not be marked: %s", error)


def _identity(model: Path) -> dict[str, Any]:
    """The file as it is now: one that was downloaded again is a different one."""
    status = model.stat()
    return {"path": str(model), "size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
