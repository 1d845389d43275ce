"""Loads and frees the model, says so, and enters every byte of it in the ledger.

At most one model is loaded. How many layers go to the GPU is decided from the header and the device's free
bytes before anything is loaded (memory/placement.py), unless the user chose.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil

from engine.config import Settings
from engine.core import ModelShape, Tier
from engine.errors import ModelError
from engine.events import ModelStateChanged, Publish
from engine.generation.model import Context, Model, start_backend
from engine.generation.sampler import ChainSampler
from engine.generation.writer import MakeSampler, Writer
from engine.memory.hardware import Device, probe, probe_devices
from engine.memory.ledger import Lease, Ledger
from engine.memory.placement import Placement, context_cells, place
from engine.metrics import Timeline
from engine.models.gguf import read_shape
from engine.phases import Phases

log = logging.getLogger(__name__)
MIN_PROGRESS_STEP = 0.05


class ModelLoader:
    """The generation thread's hands on models; `devices`, `tokens_per_s` and `abandon_loading` are for others too."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        data_folder: Path,
        ledger: Ledger,
        publish: Publish,
        make_sampler: MakeSampler = ChainSampler,
        phases: Phases | None = None,
    ) -> None:
        self._settings, self._data_folder, self._ledger, self._publish = settings, data_folder, ledger, publish
        self._phases = Phases(publish) if phases is None else phases
        self._make_sampler = make_sampler
        self._writer: Writer | None = None
        self._wanted: tuple[Path, int | None] | None = None
        self._leases: list[Lease] = []
        self._abandoned, self._is_closing = threading.Event(), threading.Event()
        self.devices: tuple[Device, ...] = ()
        self.tokens_per_s = 0.0
        self.decision = ""

    def look_at_devices(self) -> None:
        """Asks ggml which GPUs there are and how much of them is free."""
        start_backend()
        self.devices = probe_devices()

    def writer(self) -> Writer | None:
        """What answers now: the loaded model, or None for extractive answers.

        Raises:
            ModelError: The model that was asked for could not be loaded (tried again at each question).
        """
        if self._writer is None and self._wanted is not None:
            self.load(*self._wanted)
        return self._writer

    def load(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that answers; the one before is freed first.

        Raises:
            ModelError: It cannot be loaded; published as the model's state as well.
        """
        self.unload()
        self._abandoned.clear()
        self._wanted = (path, n_gpu_layers)
        try:
            with self._phases.during("loading model"):
                self._writer = self._load(path, n_gpu_layers)
        except ModelError as error:
            self._free()
            self._publish(ModelStateChanged("failed", str(path), path.stem, sentence=str(error)))
            raise
        except BaseException:
            self._free()
            raise
        shape = self._writer.shape
        self._publish(ModelStateChanged("loaded", str(path), shape.name, fraction=1.0, sentence=self.decision))

    def load_when_needed(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that the next question loads."""
        self.unload()
        self._wanted = (path, n_gpu_layers)

    def unload(self) -> None:
        """Frees the model; answers are quotes from then on."""
        was_wanted, self._wanted = self._wanted is not None, None
        if self._writer is not None:
            self._free()
        if was_wanted:
            # Also after a load that failed: its sentence would otherwise stay on show.
            self._publish(ModelStateChanged("none"))

    def abandon_loading(self) -> None:
        """Makes a load that is under way give up (from any thread)."""
        self._abandoned.set()

    def close(self) -> None:
        """Makes a load that is under way give up, and every later one at once (from any thread)."""
        self._is_closing.set()

    def note_speed(self, timeline: Timeline) -> None:
        """Remembers the decoding speed for the Memory page."""
        self.tokens_per_s = timeline.tokens_per_s() or self.tokens_per_s

    def _load(self, path: Path, n_gpu_layers: int | None) -> Writer:
        shape = read_shape(path)
        settings = self._settings()
        self.devices = probe_devices()
        num_cells = context_cells(shape, settings.generation.max_context)
        placement = self._place(shape, num_cells, n_gpu_layers)
        self.decision = placement.sentence
        self._take_weights(shape, placement)
        self._publish(ModelStateChanged("loading", str(path), shape.name, sentence=placement.sentence))
        with ExitStack() as undo:
            model = Model(path, placement.n_gpu_layers, self._progress(path, shape))
            undo.callback(model.close)
            context = Context(model, num_cells, settings.generation.n_batch, _num_threads(settings))
            undo.callback(context.close)
            self._take_context(shape, placement, context)
            self.devices = probe_devices()
            writer = Writer(model, context, shape, self._make_sampler)
            undo.pop_all()
        return writer

    def _place(self, shape: ModelShape, num_cells: int, n_gpu_layers: int | None) -> Placement:
        settings = self._settings()
        chosen = n_gpu_layers if n_gpu_layers is not None else settings.generation.n_gpu_layers
        return place(
            shape,
            num_cells,
            device_free_bytes=sum(device.free_bytes for device in self.devices),
            ram_free_bytes=probe(self._data_folder).ram_free_bytes,
            device_reserve_bytes=settings.memory.device_reserve_bytes,
            n_gpu_layers=chosen,
        )

    def _progress(self, path: Path, shape: ModelShape) -> Callable[[float], bool]:
        shown = 0.0

        def on_progress(fraction: float) -> bool:
            nonlocal shown
            if fraction - shown >= MIN_PROGRESS_STEP:
                shown = fraction
                self._publish(ModelStateChanged("loading", str(path), shape.name, fraction, self.decision))
            return not (self._abandoned.is_set() or self._is_closing.is_set())

        return on_progress

    def _take_weights(self, shape: ModelShape, placement: Placement) -> None:
        for layer, num_bytes in enumerate(shape.layer_bytes):
            self._take("weights", f"layer {layer}", placement.tier_of_layer(layer), num_bytes, loading=True)
        input_bytes = shape.other_bytes - shape.output_bytes
        self._take("weights", "token embeddings", "ram", input_bytes, loading=True)
        self._take("weights", "output head", placement.tier_of_output, shape.output_bytes, loading=True)

    def _take_context(self, shape: ModelShape, placement: Placement, context: Context) -> None:
        for lease in self._leases:
            lease.mark("resident")
        tiers: tuple[Tier, ...] = ("gpu", "ram")
        for tier in tiers:
            cell_bytes = sum(
                cell for layer, cell in enumerate(shape.kv_cell_bytes) if placement.tier_of_layer(layer) == tier
            )
            self._take("kv", f"{context.num_cells:,} cells", tier, cell_bytes * context.num_cells)
        for device, num_bytes in context.compute_bytes.items():
            self._take("workspace", f"compute buffer of {device}", _tier_of_buffer(device), num_bytes)

    def _take(self, owner: str, what: str, tier: Tier, num_bytes: int, loading: bool = False) -> None:
        if num_bytes:
            self._leases.append(self._ledger.take(owner, what, tier, num_bytes, "loading" if loading else "resident"))

    def _free(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for lease in self._leases:
            lease.release()
        self._leases.clear()
        self.decision = ""
        self.devices = probe_devices()


def _tier_of_buffer(device: str) -> Tier:
    return "ram" if device.startswith("CPU") or device.endswith("_Host") else "gpu"


def _num_threads(settings: Settings) -> int:
    return settings.generation.num_threads or psutil.cpu_count(logical=False) or 1
