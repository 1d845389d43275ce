"""The choice of a model: which are on the list, and which one answers; settings and loaded model change together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.config import Settings, expanded
from engine.core import QUOTES_ONLY
from engine.errors import ModelError
from engine.generation.commands import UseModel
from engine.memory.demand import Demand
from engine.memory.hardware import Hardware
from engine.models import shelf
from engine.models.catalogue import KnownModel
from engine.models.elsewhere import candidates, places
from engine.models.gguf import read_shape
from engine.models.known import named, with_model, without_model
from engine.models.source import pieces_of
from engine.protocol import FoundModel, ModelEntry


class ModelChoice:
    """Keeps the list of models in the settings, and hands the chosen one to the generation thread. From any thread."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        change_settings: Callable[[Mapping[str, Any]], Settings],
        hand_over: Callable[[UseModel], None],
        hardware: Callable[[], Hardware],
        planning: shelf.Planning = shelf.by_guess,
        beside: Callable[[Demand], Demand] = lambda demand: demand,
    ) -> None:
        """Prepares.

        Args:
            settings: The settings in force.
            change_settings: Changes and saves some by their dotted names.
            hand_over: Passes the chosen model to the generation thread.
            hardware: Probes the machine, and how much of it is free.
            planning: Computes how a model would be placed.
            beside: Adds to a model's demand what competes with it.
        """
        self._planning, self._beside = planning, beside
        self._settings, self._change_settings = settings, change_settings
        self._hand_over, self._hardware = hand_over, hardware
        self._lock = threading.RLock()
        self._checked: set[Path] = set()

    def entries(self) -> tuple[ModelEntry, ...]:
        settings, hardware = self._settings(), self._hardware()
        return tuple(self._entry(Path(path), settings, hardware) for path in settings.models.known)

    def elsewhere(self, ours: Iterable[Path]) -> tuple[FoundModel, ...]:
        """Returns usable models on this computer that are not on the list; `ours` are our folders of models."""
        settings, hardware = self._settings(), self._hardware()
        among = places(Path.home(), os.environ, ours)
        found = (
            FoundModel(app=one.app, model=self._entry(one.path, settings, hardware))
            for one in candidates(among, settings.models.known)
        )
        return tuple(one for one in found if not one.model.problem)

    def add(self, path: Path) -> ModelEntry:
        path = _told_by(_writable(expanded(path)))
        read_shape(path)
        with self._lock:
            self._change_settings({"models.known": with_model(self._settings().models.known, path)})
        return self._entry(path, self._settings(), self._hardware())

    def take_in(self, path: Path) -> None:
        """Adds a downloaded model to the list; it is chosen if it is the first one."""
        before = self._settings().models
        self.add(path)
        if not before.known and not before.current:
            self.use(path)

    def to_be_had(self, known: Iterable[tuple[KnownModel, Path]]) -> list[ModelEntry]:
        """Returns how models would run here, estimated without their files."""
        machine = self._settings(), self._hardware(), self._planning, self._beside
        return [shelf.to_be_had(model, path, *machine) for model, path in known]

    def forget(self, path: Path) -> None:
        with self._lock:
            if self._settings().models.current == str(path):
                self.use(None)
            self._change_settings({"models.known": without_model(self._settings().models.known, path)})

    def use(
        self,
        path: Path | None,
        n_gpu_layers: int | None = None,
        *,
        remember: bool = True,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        if path is not None:
            path = _told_by(_writable(expanded(path)))
            # This takes minutes on a share that hangs; meanwhile another model may be chosen.
            read_shape(path)
        with self._lock:
            if not is_wanted():
                return
            if remember:
                known = self._settings().models.known
                known = known if path is None else with_model(known, path)
                self._change_settings({"models.current": str(path or ""), "models.known": known})
            self._hand_over(UseModel(path, n_gpu_layers))

    def _entry(self, path: Path, settings: Settings, hardware: Hardware) -> ModelEntry:
        return shelf.entry(path, settings, hardware, self._planning, self._beside)

    def asked_for(self, name: str) -> str:
        """Returns the model that a question names, for the generation thread: its file, "none", or "" for the chosen.

        Raises:
            ModelError: There is no such file, or it is not a model.
        """
        if name in ("", QUOTES_ONLY):
            return name
        path = _told_by(expanded(self.named(name) or name))
        # A script's thousands of questions name the same one, and reading a header takes milliseconds. A file that
        # has gone since is reported by the loader.
        if path not in self._checked:
            read_shape(path)
            self._checked.add(path)
        return str(path)

    def named(self, name: str) -> Path | None:
        """Returns the file for a file's name, a known model's name or "none"."""
        if name == QUOTES_ONLY:
            return None
        return named(self._settings().models.known, name) or Path(name)


def _told_by(path: Path) -> Path:
    """Returns the file that identifies a model: the first of several, whichever was named."""
    return path.with_name(pieces_of(path.name)[0])


def _writable(path: Path) -> Path:
    """Returns the path, if it can be written into the settings.

    Raises:
        ModelError: Its name is not valid text.
    """
    if (text := str(path)) != (told := text.encode("utf-8", "replace").decode()):
        raise ModelError(f"The model {told} cannot be used: its name is not UTF-8.", "Rename the file or its folder.")
    return path
