"""Loads and frees the model, says so, and enters every byte of it in the ledger.

At most one model is loaded. How many layers go to the GPU, and how many cells there are, is decided from the header
and from what is free before anything is loaded (memory/placement.py, kv_room.py), unless the user chose. What models
have read is kept in a folder that all of them share.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil

from engine.closing import close_all
from engine.config import Settings
from engine.core import KVType, ModelShape, Tier
from engine.errors import ModelError, RagdollError
from engine.events import ModelStateChanged, Publish
from engine.generation.beam import Beams
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells
from engine.generation.context import Context, ContextSpec
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.fingerprint import root_key
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.kv_room import KVRoom, kv_room, num_sequences, shape_with, usable_kv_type
from engine.generation.loaded import KEPT_CELLS_SHARE, LoadedModel
from engine.generation.model import Model, start_backend
from engine.generation.speaker import speaker_of
from engine.generation.step_loop import StepLoop
from engine.memory.hardware import Device, Hardware, probe, probe_devices
from engine.memory.ledger import Lease, Ledger
from engine.memory.placement import Placement, place
from engine.models.gguf import parts_of, read_header, read_shape
from engine.phases import Phases

log = logging.getLogger(__name__)
MIN_PROGRESS_STEP = 0.05
# Tokens of a prompt between two chances to stop: a second on a processor is about as many.
UBATCH_OF_PROCESSOR, UBATCH_OF_DEVICE = 128, 512


class ModelLoader:
    """The generation thread's hands on models.

    `devices`, `decision`, `problem`, `abandon_loading` and `close` are for other threads too. `decision` says where
    the model's layers are, `problem` why less is kept of what it reads than could be; "" where there is nothing to say.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        data_folder: Path,
        kept_folder: Path,
        ledger: Ledger,
        publish: Publish,
        phases: Phases | None = None,
    ) -> None:
        """Prepares; files of kept KV are looked at when they are first needed.

        Args:
            settings: Those in force.
            data_folder: Whose disk and memory are asked for what is free.
            kept_folder: Where KV is kept; only ours.
            ledger: Gets every byte.
            publish: Where events go.
            phases: Tells that loading takes a while.
        """
        self._settings, self._data_folder, self._kept_folder = settings, data_folder, kept_folder
        self._ledger, self._publish = ledger, publish
        self._phases = Phases(publish) if phases is None else phases
        self._loaded: LoadedModel | None = None
        self._bounds_applied: tuple[int | None, int | None] = (None, None)
        self._wanted: tuple[Path, int | None] | None = None
        self._files: CacheFiles | None = None
        self._leases: list[Lease] = []
        self._set_aside: Lease | None = None
        self._abandoned, self._is_closing = threading.Event(), threading.Event()
        self.devices: tuple[Device, ...] = ()
        self.decision = self.problem = ""

    def look_at_devices(self) -> None:
        """Asks ggml which GPUs there are and how much of them is free."""
        start_backend()
        self.devices = probe_devices()

    def loaded(self) -> LoadedModel | None:
        """What answers now: the loaded model, or None for extractive answers.

        Raises:
            ModelError: The model that was asked for could not be loaded (tried again at each question).
        """
        if self._loaded is None and self._wanted is not None:
            self.load(*self._wanted)
        return self._loaded

    @property
    def loaded_now(self) -> LoadedModel | None:
        """The same, without loading anything."""
        return self._loaded

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
                self._loaded = self._load(path, n_gpu_layers)
        except ModelError as error:
            self._free()
            self._publish(ModelStateChanged("failed", str(path), path.stem, sentence=str(error)))
            raise
        except BaseException:
            self._free()
            raise
        shape = self._loaded.shape
        self._publish(ModelStateChanged("loaded", str(path), shape.name, fraction=1.0, sentence=self.decision))

    def load_when_needed(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that the next question loads."""
        self.unload()
        self._wanted = (path, n_gpu_layers)

    def start_over(self) -> None:
        """Frees a model with which something went wrong; the next question loads it again."""
        if self._loaded is not None:
            broken, self._loaded = self._loaded, None
            close_all(broken.abandon, self._free)

    def unload(self) -> None:
        """Frees the model; answers are quotes from then on."""
        was_wanted, self._wanted = self._wanted is not None, None
        if self._loaded is not None:
            self._free()
        if was_wanted:
            # Also after a load that failed: its sentence would otherwise stay on show.
            self._publish(ModelStateChanged("none"))

    def forget_removed(self, known: Callable[[Collection[int]], Collection[int]]) -> None:
        """Nothing is kept any longer, in memory or on disk, of documents that are not in the library."""
        if self._files is None and not self._kept_folder.is_dir():
            return
        held = self._cache_files().documents()
        if self._loaded is not None:
            held |= self._loaded.documents()
        gone = held - frozenset(known(held))
        if gone and self._loaded is not None:
            self._loaded.forget(gone)
        if gone:
            self._cache_files().forget(gone)

    def apply_settings(self) -> None:
        """Bounds what is kept by the settings in force; all else is for the next load.

        What was chosen by what the machine had free stays: by now the model itself and what is kept have taken of it.
        """
        if self._loaded is not None and self._bounds_wanted() != self._bounds_applied:
            self._bounds_applied = self._bounds_wanted()
            room = self._room(self._loaded.shape)
            self._loaded.apply(room.ram_bytes, room.disk_bytes)

    def _bounds_wanted(self) -> tuple[int | None, int | None]:
        settings = self._settings().generation
        return settings.kv_ram_bytes, settings.kv_disk_bytes

    def note_set_aside(self, num_bytes: int) -> None:
        """So many bytes of memory hold answers that had to leave their cells for others."""
        if self._set_aside is None:
            if num_bytes:
                self._set_aside = self._ledger.take("kv", "answers set aside", "ram", num_bytes)
        elif not num_bytes:
            self._set_aside.release()
            self._set_aside = None
        elif num_bytes != self._set_aside.num_bytes:
            self._set_aside.resize(num_bytes)

    def abandon_loading(self) -> None:
        """Makes a load that is under way give up (from any thread)."""
        self._abandoned.set()

    def close(self) -> None:
        """Makes a load that is under way give up, and every later one at once (from any thread)."""
        self._is_closing.set()

    @property
    def is_closing(self) -> bool:
        return self._is_closing.is_set()

    def end(self) -> None:
        """Frees the model, and waits until what is kept of it is written."""
        self.unload()
        if self._files is not None:
            self._files.close()
            self._files = None

    def _load(self, path: Path, n_gpu_layers: int | None) -> LoadedModel:
        settings = self._settings()
        shape = read_shape(path)
        kv_type = usable_kv_type(read_header(parts_of(path)[0]).metadata, settings.generation.kv_type)
        shape = shape_with(shape, kv_type)
        room = self._room(shape)
        self._bounds_applied = self._bounds_wanted()
        placement = self._place(shape, room.num_cells, n_gpu_layers)
        self.decision, self.problem = placement.sentence, ""
        self._take_weights(shape, placement)
        self._publish(ModelStateChanged("loading", str(path), shape.name, sentence=placement.sentence))
        with ExitStack() as undo:
            model = Model(path, placement.n_gpu_layers, self._progress(path, shape))
            undo.callback(model.close)
            context = Context(model, _spec(shape, room, placement, settings, kv_type))
            undo.callback(context.close)
            self._take_context(shape, placement, context)
            self.devices = probe_devices()
            cells = Cells(context.num_cells, context.num_sequences)
            root = root_key(path, context.spec.kv_type, context.num_cells)
            keeper = self._keeper(root, model, context, cells)
            if keeper is not None:
                undo.callback(keeper.abandon)
                keeper.set_budgets(int(cells.num_cells * KEPT_CELLS_SHARE), room.ram_bytes, room.disk_bytes)
            costs = PassCosts()
            loop = StepLoop(
                model,
                context,
                cells,
                keeper,
                make_drafter=partial(PromptLookup, costs=costs),
                make_beams=Beams,
                note_pass=costs.note,
            )
            speaker = speaker_of(model, shape.name, root.hex(), room.context_tokens)
            undo.pop_all()
        reads_ahead = settings.generation.read_ahead
        if reads_ahead is None:
            # Else it would take the processor from the search, and from the quotes that people see first.
            reads_ahead = placement.n_gpu_layers > 0
        reads_ahead = reads_ahead and keeper is not None
        return LoadedModel(shape, model, context, speaker, loop, keeper, self._cache_files(), reads_ahead)

    def _keeper(self, root: bytes, model: Model, context: Context, cells: Cells) -> KnowledgeKeeper | None:
        """None where the beginning of one prompt is of no use to another."""
        if not model.can_share_prefixes:
            return None
        return KnowledgeKeeper(root, context, cells, self._ledger, self._cache_files())

    def _cache_files(self) -> CacheFiles:
        if self._files is None:
            self._files = CacheFiles(self._kept_folder, self._ledger, self._note_problem)
        return self._files

    def _note_problem(self, error: RagdollError) -> None:
        log.warning("%s", error)
        self.problem = str(error)

    def _room(self, shape: ModelShape) -> KVRoom:
        settings = self._settings()
        return kv_room(shape, settings.generation, self._hardware(), settings.memory.device_reserve_bytes)

    def _hardware(self) -> Hardware:
        return probe(self._data_folder, self.devices)

    def _place(self, shape: ModelShape, num_cells: int, n_gpu_layers: int | None) -> Placement:
        settings = self._settings()
        chosen = n_gpu_layers if n_gpu_layers is not None else settings.generation.n_gpu_layers
        return place(
            shape,
            num_cells,
            device_free_bytes=sum(device.free_bytes for device in self.devices),
            ram_free_bytes=self._hardware().ram_free_bytes,
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
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        for lease in (*self._leases, *([self._set_aside] if self._set_aside is not None else [])):
            lease.release()
        self._leases.clear()
        self._set_aside = None
        self.decision = ""
        self.devices = probe_devices()


def _spec(shape: ModelShape, room: KVRoom, placement: Placement, settings: Settings, kv_type: KVType) -> ContextSpec:
    chosen = settings.generation
    suits = UBATCH_OF_DEVICE if placement.n_gpu_layers else UBATCH_OF_PROCESSOR
    return ContextSpec(
        num_cells=room.num_cells,
        n_batch=chosen.n_batch,
        n_ubatch=chosen.n_ubatch or suits,
        num_threads=_num_threads(settings),
        num_sequences=num_sequences(shape.vocabulary_size),
        kv_type=kv_type,
    )


def _tier_of_buffer(device: str) -> Tier:
    return "ram" if device.startswith("CPU") or device.endswith("_Host") else "gpu"


def _num_threads(settings: Settings) -> int:
    return settings.generation.num_threads or psutil.cpu_count(logical=False) or 1
