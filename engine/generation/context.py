"""A context of llama.cpp: KV cells and compute buffers over loaded weights; sequences live in it by number.

One thread owns every call (see model.py). Flash attention is always on: without it V is stored transposed, which
makes a sequence's state thousands of tiny copies and cannot be quantised. The cache is always unified: with separate
streams a partial copy between sequences asserts and kills the process.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from engine.core import KVType
from engine.errors import DecodeFailed, ModelLoadFailed, NoCells, NoRoomToCompute, WeightsChanged, WeightsNotRead
from engine.generation.batch_padding import BatchPadding
from engine.generation.model import Model, native_log
from engine.generation.rows import TILE_TOKENS, Extent, Filling, cell_cost
from engine.memory.heap import bytes_in_arenas
from engine.memory.pages import anonymous_ranges, appeared, resident_bytes
from engine.memory.workspace import ADDED_SEQUENCES, MAX_SEQUENCES, MAX_STATES

_NO_CELL_FREE, _NO_MEMORY = 1, -2
# Per gap, thread and head of a layer; measured with 16 answers whose 4,000 cells were scattered: a step took 165 ms,
# not 104.
_GAP_SECONDS = 65e-9
_KV_TYPES = {"f16": llama.GGML_TYPE_F16, "q8_0": llama.GGML_TYPE_Q8_0}
State = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The parameters of a context; in tokens, and threads of the processor.

    `n_ubatch` is the most tokens computed without a chance to stop, `n_batch` the most that one step takes. Keys and
    values are on the device with their layer, or all in memory without `kv_on_gpu`. `op_offload`: large batches of
    layers in memory are computed on the device, to which their weights are copied.
    """

    num_cells: int
    n_batch: int
    n_ubatch: int
    num_threads: int
    num_sequences: int = MAX_SEQUENCES
    kv_type: KVType = "f16"
    kv_on_gpu: bool = True
    op_offload: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tokens of one sequence in a batch; logits are kept for the last `num_logits` of them."""

    slot: int
    position: int
    tokens: Sequence[int]
    num_logits: int = 0


class Streaming(Protocol):
    """A reader that has a layer's weights in memory when it is computed, if not all of them fit at once."""

    # Whether a device may copy weights for large batches: only when they have been read.
    can_copy: bool

    @property
    def cb_eval(self) -> Any:
        """The callback that llama.cpp calls for each node of the graph."""

    def disk_seconds(self) -> tuple[float, float]:
        """Returns how long passes have waited for layers so far, and for how long layers were read."""

    def before_decode(self) -> None:
        """Makes sure that a pass can begin. Raises WeightsNotRead if it cannot."""

    def after_decode(self, is_computed: bool) -> None:
        """Ends a decode. Raises WeightsNotRead if weights were missing, WeightsChanged if the file changed."""


class Context:
    """A llama.cpp context (see the module). Close it before its model."""

    def __init__(self, model: Model, spec: ContextSpec, stream: Streaming | None = None) -> None:
        """Allocates the cells.

        Args:
            model: The model whose weights it computes with.
            spec: Its parameters.
            stream: Reads the layers that are not in memory; None if all are.

        Raises:
            ModelLoadFailed: There is no room for them.
        """
        self.model, self.spec, self._stream = model, spec, stream
        params = llama.llama_context_default_params()
        params.n_ctx = spec.num_cells
        params.n_batch = min(spec.n_batch, spec.num_cells)
        params.n_ubatch = min(spec.n_ubatch, params.n_batch)
        # A batch with fewer tokens than there are sequences trips an assertion while memory is reserved.
        most = min(MAX_STATES if model.is_recurrent else MAX_SEQUENCES + ADDED_SEQUENCES, params.n_batch)
        fills_up = _fills_up(model) and most > 1
        self.num_sequences = min(spec.num_sequences, most - fills_up)
        # Padding tokens of a batch belong to a sequence after all others.
        self._added_slot = self.num_sequences if fills_up else None
        params.n_seq_max = self.num_sequences + fills_up
        # By default, llama.cpp reserves room for the logits of every token of a pass, which are never read: 60 MB for
        # 512 tokens and a vocabulary of 32,000.
        params.n_outputs_max = params.n_seq_max
        params.n_threads = params.n_threads_batch = spec.num_threads
        params.type_k = params.type_v = _KV_TYPES[spec.kv_type]
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.kv_unified = True
        # Layers with a sliding window keep cells outside it as long as there is room, so that other requests can
        # continue there.
        params.swa_full = True
        params.offload_kqv = spec.kv_on_gpu
        params.op_offload = spec.op_offload and (stream is None or stream.can_copy)
        if stream is not None:
            params.cb_eval = stream.cb_eval
        params.no_perf = True
        native_log.begin()
        before, used_before = anonymous_ranges(), bytes_in_arenas()
        handle = llama.llama_init_from_model(model.handle, params)
        if not handle:
            raise ModelLoadFailed(
                f"There is no room for a context of {spec.num_cells:,} tokens{native_log.detail}.",
                "Lower the context length in the settings, or choose a smaller model.",
            )
        self.compute_bytes = dict(native_log.compute_buffers)
        self._ranges = appeared(before, anonymous_ranges())
        used = bytes_in_arenas()
        self._heap_bytes = max(0, used - used_before) if used is not None and used_before is not None else None
        self._handle: Any = handle
        self._memory: Any = llama.llama_get_memory(handle)
        self.n_batch, self.n_ubatch = int(params.n_batch), int(params.n_ubatch)
        self._num_rows = int(params.n_outputs_max)
        self.window_tokens = model.window_tokens
        # When batches are padded; replaced once the times of passes are known.
        self.filling, self._trained_tokens = self._filling_here(), int(llama.llama_model_n_ctx_train(model.handle))
        self._batch, self._padding, self._may_try = _Batch(self.n_batch), BatchPadding(), True
        self._is_spoilt = False
        self._num_threads = spec.num_threads

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def num_cells(self) -> int:
        return int(llama.llama_n_ctx(self._handle))

    @property
    def is_streamed(self) -> bool:
        """Whether a pass reads layers from the disk, however few tokens it computes."""
        return self._stream is not None

    def disk_seconds(self) -> tuple[float, float]:
        """Returns how long passes have waited for layers so far, and for how long layers were read."""
        return (0.0, 0.0) if self._stream is None else self._stream.disk_seconds()

    @property
    def attends_on_processor(self) -> bool:
        """Whether most attention is on the processor, where each token attends to each cell up to the last used one.

        The last of a model's devices is that of its output head.
        """
        devices = list(self.model.layer_devices.values())[:-1] if self.spec.kv_on_gpu else []
        return 2 * sum(device != "CPU" for device in devices) <= len(devices)

    @property
    def attends_by_tiles(self) -> bool:
        """Whether tokens of a batch attend together, each to the cells of all; not if cells are quantised."""
        return self.attends_on_processor and self.spec.kv_type == "f16"

    @property
    def cell_cost(self) -> float:
        """A token's attention to one cell, as a share of the time of its matrices (rows.py)."""
        handle = self.model.handle
        parameters, layers = llama.llama_model_n_params(handle), llama.llama_model_n_layer(handle)
        in_own_order = self.model.is_in_own_order
        return cell_cost(parameters, layers, llama.llama_model_n_embd(handle), in_own_order=in_own_order)

    @property
    def gap_seconds(self) -> float:
        """How much longer a token's attention takes for each gap between the cells of its sequence.

        0 if cells cannot be moved by themselves, or are on another device, from which each would be copied separately;
        with quantised cells it was not measured.
        """
        is_elsewhere = any(device != "CPU" for device in self.model.layer_devices.values())
        is_plain = self.model.can_share_prefixes and not self.model.window_tokens
        if is_elsewhere or not self.attends_by_tiles or not is_plain:
            return 0.0
        handle = self.model.handle
        num_heads = int(llama.llama_model_n_layer(handle)) * int(llama.llama_model_n_head(handle))
        return _GAP_SECONDS * num_heads / self.spec.num_threads

    @property
    def is_spoilt(self) -> bool:
        """Whether cells that no longer belong to a sequence may hold NaN, until `clear`.

        What was computed with missing weights may be NaN. Attention masks cells of others by adding −∞ to a product,
        which leaves NaN as it is, so it would spoil long prompts of other requests.
        """
        return self._is_spoilt

    def touched_bytes(self, in_memory_bytes: int) -> int:
        """Returns how much of its memory was ever written to; usable from any thread.

        Args:
            in_memory_bytes: How much main memory its cells and buffers may take. Buffers in the allocator's heap (which
                takes 32 MiB after as much was freed) count whole.
        """
        if not self._ranges:
            return in_memory_bytes
        heap_bytes = self._heap_bytes
        if heap_bytes is None:
            heap_bytes = max(0, in_memory_bytes - sum(end - start for start, end in self._ranges))
        return min(in_memory_bytes, resident_bytes(self._ranges) + heap_bytes)

    def use_threads(self, num_threads: int | None) -> None:
        """Computes with this many threads from the next pass on; None: with those it was made with."""
        wanted = num_threads or self.spec.num_threads
        if wanted != self._num_threads:
            llama.llama_set_n_threads(self._handle, wanted, wanted)
            self._num_threads = wanted

    def decode(self, stretches: Sequence[Stretch]) -> list[int]:
        """Computes a batch of at most `n_batch` tokens of one or more sequences.

        Returns:
            For each stretch, the row of its first token; its k-th token's logits are those of row + k.

        Raises:
            NoCells: Too few cells are free; nothing has changed.
            WeightsNotRead: A layer could not be read; otherwise as DecodeFailed. The same batch may succeed.
            WeightsChanged: The file that layers are read from has changed; no batch will succeed.
            NoRoomToCompute: An allocation failed; otherwise as DecodeFailed. A smaller context may have room.
            DecodeFailed: Anything else; finished ubatches may remain, and the caller trims every sequence back.
        """
        if sum(stretch.num_logits for stretch in stretches) > self._num_rows:
            # llama.cpp would end the process.
            raise ValueError(f"this context has {self._num_rows} rows of logits")
        rows = self._batch.fill(stretches)
        if self._stream is not None:
            self._stream.before_decode()
        extents = [Extent(len(one.tokens), one.position + len(one.tokens)) for one in stretches]
        computed = self._decode(extents)
        result = computed.result
        if self._stream is not None:
            try:
                self._stream.after_decode(result == 0)
            except (WeightsNotRead, WeightsChanged):
                self._is_spoilt = True
                raise
        if result == _NO_CELL_FREE:
            raise NoCells("The context is full.", "Start a new chat or raise the context length in the settings.")
        if result == _NO_MEMORY:
            raise NoRoomToCompute(
                "There is no room in memory to compute this (llama_decode returned -2).",
                "Put fewer layers on the graphics card, or lower the context length in the settings.",
            )
        if result != 0:
            raise DecodeFailed(f"The model stopped computing (llama_decode returned {result}).", "Ask again.")
        self._note(extents, computed)
        return rows

    def _filling_here(self) -> Filling:
        """Returns when batches are padded with this model and placement."""
        if self._added_slot is None:
            return Filling()
        in_own_order = self.model.is_in_own_order
        if not self.attends_by_tiles:
            return Filling(in_own_order)
        return Filling(in_own_order, self.cell_cost)

    def _decode(self, extents: Sequence[Extent]) -> _Computed:
        """Computes the batch, padded if that is faster and there are cells."""
        asked, added = self._batch.struct.n_tokens, self._num_to_add(extents)
        if added and self._added_slot is not None:
            # Padding tokens have a sequence of their own and attend to no other cells.
            self._batch.add(added, self._added_slot)
            computed = self._compute(added)
            self.remove(self._added_slot)
            self._batch.struct.n_tokens = asked
            if computed.result != _NO_CELL_FREE:
                return computed
        return self._compute(0)

    def _num_to_add(self, extents: Sequence[Extent]) -> int:
        num_tokens = self._batch.struct.n_tokens
        # Beyond the context that a model was trained with, it may have no positions.
        most = min(self.n_batch - num_tokens, self._trained_tokens)
        if 0 < (added := self.filling.num_to_tile(extents, self.n_ubatch)) <= most:
            return added
        if not self.filling.in_fours:
            return 0
        added = self._padding.num_to_add(num_tokens, self.n_ubatch, may_try=self._tries)
        return added if added <= most else 0

    def _compute(self, num_added: int) -> _Computed:
        since = time.perf_counter()
        result = int(llama.llama_decode(self._handle, self._batch.struct))
        # A device goes on after the call returns, but what is measured, cancelled or saved next must be finished.
        llama.llama_synchronize(self._handle)
        return _Computed(result, num_added, time.perf_counter() - since)

    def _note(self, extents: Sequence[Extent], computed: _Computed) -> None:
        num_tokens = sum(extent.num_tokens for extent in extents)
        if self._tries and num_tokens + computed.num_added < TILE_TOKENS:
            num_cells = sum(extent.num_tokens * extent.end for extent in extents)
            self._padding.note(num_tokens, computed.num_added, num_cells, computed.seconds)

    @property
    def _tries(self) -> bool:
        return self._may_try and self._num_threads == self.spec.num_threads

    def is_trying(self, num_tokens: int) -> bool:
        """Returns whether passes of `num_tokens` are computed in two ways for now, to find out which is faster."""
        return self.filling.in_fours and self._tries and self._padding.is_trying(num_tokens)

    @contextmanager
    def as_known(self) -> Iterator[None]:
        """Makes passes within the block use the way that is known to be faster, without trying or learning."""
        self._may_try = False
        try:
            yield
        finally:
            self._may_try = True

    def logits(self, row: int) -> NDArray[np.float32]:
        """Returns the logits of a row of the last batch, by token id: a view that the next `decode` overwrites."""
        pointer = llama.llama_get_logits_ith(self._handle, row)
        return np.ctypeslib.as_array(pointer, (self.model.num_tokens,))

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Lets `target` share the cells that `source` has at the positions `start`…`end`."""
        llama.llama_memory_seq_cp(self._memory, source, target, start, end)

    def remove(self, slot: int, start: int = 0, end: int = -1) -> bool:
        """Removes positions of a sequence (-1: to the end); returns False if the model cannot, and all is kept."""
        return bool(llama.llama_memory_seq_rm(self._memory, slot, start, end))

    def has_window(self, slot: int, end: int, start: int = 0) -> bool:
        """Returns whether a sequence holds, from position `start` on, all cells that the token at `end` attends to.

        llama.cpp reuses cells that have left a window, and then drops everything before them in such layers.
        """
        window = self.window_tokens
        return not window or 0 <= llama.llama_memory_seq_pos_min(self._memory, slot) <= max(start, end - window + 1)

    def clear(self) -> None:
        """Empties all sequences and all cells."""
        llama.llama_memory_clear(self._memory, True)
        self._is_spoilt = False

    def state_bytes(self, slot: int) -> int:
        """Returns the size of what `save` would write."""
        return int(llama.llama_state_seq_get_size_ext(self._handle, slot, 0))

    def save(self, slot: int, into: State) -> int:
        """Writes keys and values of a sequence into `into`; returns how many bytes, 0 when it is too small."""
        return int(llama.llama_state_seq_get_data_ext(self._handle, _pointer(into), into.nbytes, slot, 0))

    def load(self, state: State, slot: int) -> bool:
        """Replaces a sequence by a saved one, at its old positions; returns False if it is damaged or has no room."""
        return int(llama.llama_state_seq_set_data_ext(self._handle, _pointer(state), state.nbytes, slot, 0)) > 0

    def close(self) -> None:
        if self._handle:
            llama.llama_free(self._handle)
            self._handle = None


@dataclass(frozen=True, slots=True)
class _Computed:
    """What llama.cpp returned for a batch, how many padding tokens it had, and how long it took."""

    result: int
    num_added: int
    seconds: float


class _Batch:
    """llama.cpp's batch over our own arrays, filled by a few copies; a write per token through ctypes is slow."""

    def __init__(self, room: int) -> None:
        self._tokens, self._positions, self._slots = (np.zeros(room, np.int32) for _ in range(3))
        self._wanted = np.zeros(room, np.int8)
        self._num_slots = np.ones(room, np.int32)
        # Every token belongs to one sequence: a pointer for each to its entry of `_slots`.
        addresses = self._slots.ctypes.data + np.arange(room, dtype=np.uintp) * self._slots.itemsize
        self._slot_pointers = addresses.astype(np.uintp)
        self.struct = llama.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(ctypes.POINTER(llama.llama_token)),
            pos=self._positions.ctypes.data_as(ctypes.POINTER(llama.llama_pos)),
            n_seq_id=self._num_slots.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._slot_pointers.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(llama.llama_seq_id))),
            logits=self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, stretches: Sequence[Stretch]) -> list[int]:
        """Lays the stretches side by side; returns the row of each one's first token."""
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        rows = []
        for stretch in stretches:
            length = len(stretch.tokens)
            rows.append(len(tokens))
            tokens += stretch.tokens
            positions += range(stretch.position, stretch.position + length)
            slots += [stretch.slot] * length
            wanted += [0] * (length - stretch.num_logits) + [1] * stretch.num_logits
        count = len(tokens)
        self._tokens[:count], self._positions[:count] = tokens, positions
        self._slots[:count], self._wanted[:count] = slots, wanted
        self.struct.n_tokens = count
        return rows

    def add(self, count: int, slot: int) -> None:
        """Appends the first tokens of another sequence; no logits of them are kept."""
        start = self.struct.n_tokens
        end = start + count
        self._tokens[start:end], self._positions[start:end] = 0, range(count)
        self._slots[start:end], self._wanted[start:end] = slot, 0
        self.struct.n_tokens = end


def _fills_up(model: Model) -> bool:
    """Returns whether batches may be padded; padding has to be removed again, which not every model can do."""
    # Experts are computed token by token, however many there are.
    return model.can_share_prefixes and not model.window_tokens and not model.has_experts


def _pointer(array: State) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
