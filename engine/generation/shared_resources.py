"""The resources that all models of an engine share: files of kept KV, the devices, and what is known of models.

Used on the generation thread; other threads may read `devices` and `problem`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import GIB
from engine.generation.cache_files import CacheFiles
from engine.generation.load_trials import LoadTrials
from engine.generation.model import start_backend
from engine.memory.hardware import Device, probe_devices
from engine.memory.ledger import Ledger

log = logging.getLogger(__name__)

# Free disk space fluctuates; only with this much more of it is a failed copy tried again.
MORE_ROOM_BYTES = GIB


@dataclass(slots=True)
class SharedResources:
    """The resources shared by all models; `devices` are as ggml last reported them.

    `tell_when_scanned` is called once all kept files are known, `tell_backends` before llama.cpp's backends start, and
    `measure_card` before a model is placed on a graphics card.

    `keeps_in_cells`: KV may stay in cells that no answer needs. `sets_aside_on_disk`: KV of answers that wait for cells
    is on disk instead of in memory.
    """

    kept_folder: Path
    ledger: Ledger
    trials: LoadTrials
    keeps_in_cells: bool = True
    sets_aside_on_disk: bool = False
    # Models whose weights stay in the file's order so that they can leave memory; in another order they could not.
    left_in_order: set[Path] = field(default_factory=set)
    # Models for which no copy in the processor's order could be made, with the free disk space at that time; None if
    # it is impossible, because they have no order but the file's.
    not_packed: dict[Path, int | None] = field(default_factory=dict)
    # Models whose layers a device cannot copy while they are streamed, because it would copy some before they are read.
    not_copied: set[Path] = field(default_factory=set)
    devices: tuple[Device, ...] = ()
    has_looked_at_devices: bool = False
    tell_when_scanned: Callable[[], None] = field(default=lambda: None)
    tell_backends: Callable[[], None] = field(default=lambda: None)
    measure_card: Callable[[Device, Callable[[], bool]], None] = field(default=lambda card, is_wanted: None)
    _files: CacheFiles | None = None

    def may_pack(self, path: Path, free_bytes: Callable[[], int]) -> bool:
        """Returns whether copying a model in the processor's order is worth a try, with the present free disk space."""
        if path not in self.not_packed:
            return True
        free_then = self.not_packed[path]
        return free_then is not None and free_bytes() >= free_then + MORE_ROOM_BYTES

    def reset_failures(self, model: Path) -> None:
        """Lets the next load of a model try what failed before, except what can never succeed."""
        self.trials.reset_failures(model)
        self.not_packed = {path: free_bytes for path, free_bytes in self.not_packed.items() if free_bytes is None}

    def look_at_devices(self) -> None:
        """Asks ggml which GPUs there are, and how much of their memory is free; on the generation thread."""
        if self.has_looked_at_devices:
            self.devices = probe_devices()
            return
        self.tell_backends()
        start_backend()
        # Starting a driver takes memory, some hundred megabytes for CUDA.
        with self.ledger.growing("runtime", "graphics driver"):
            self.devices = probe_devices()
        self.has_looked_at_devices = True

    @property
    def has_files(self) -> bool:
        """Whether files of kept KV were opened, or there may be some."""
        return self._files is not None or self.kept_folder.is_dir()

    @property
    def opened_files(self) -> CacheFiles | None:
        """The files of kept KV, if they were opened."""
        return self._files

    @property
    def problem(self) -> str:
        """Why less KV is kept than could be; "" if nothing is wrong."""
        # Read once: the generation thread may close the files meanwhile.
        files = self._files
        return files.problem if files is not None else ""

    def files(self, disk_budget: Callable[[], int]) -> CacheFiles:
        """Returns the files of kept KV, which are opened and bounded when they are first needed."""
        if self._files is None:
            self._files = CacheFiles(
                self.kept_folder,
                self.ledger,
                # Logged as an error, because the command line shows no lower level.
                lambda error: log.error("%s", error),
                on_scanned=lambda: self.tell_when_scanned(),
            )
            self._files.set_budget(disk_budget())
        return self._files

    def close(self, keeping_seconds: float) -> None:
        """Closes the files, waiting at most `keeping_seconds` for writes. A second call does nothing."""
        if self._files is not None:
            self._files.close(keeping_seconds)
            self._files = None
