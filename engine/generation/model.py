"""Wraps llama.cpp in small classes: `Model` (weights and vocabulary) here, contexts (context.py) and samplers on top.

One thread makes all calls, here and there: concurrent calls crash. ctypes releases the GIL during a call.
llama-cpp-python's high-level `Llama` is not used, because it serves one request at a time and hides the cells.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.errors import ModelLoadFailed, NotStreamable
from engine.generation.tokenizer import Tokenizer, piece
from engine.generation.weights import file_pages
from engine.generation.weights.copied import range_of
from engine.generation.weights.mappings import Mapping, appeared, current
from engine.generation.weights.packing import Packing
from engine.memory import pages
from engine.memory.devices import probe_devices
from engine.memory.heap import trim_heap
from engine.memory.pages import Range, anonymous_ranges
from engine.models.gguf import read_shape

log = logging.getLogger(__name__)

_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.INFO}
_BUFFER = re.compile(r"(\S+)\s+(compute|output) buffer size\s*=\s*([\d.]+)\s*MiB")
_WEIGHTS = re.compile(r"(\S+) model buffer size\s*=\s*([\d.]+)\s*MiB")
_CAN_BE_PACKED = re.compile(r"_Mapped$|^CPU_REPACK$")
_ASSIGNED = re.compile(r"load_tensors: layer\s+(\d+) assigned to device (\S+?),")
# In each group of layers, all but one have a window that slides token by token (LLAMA_SWA_TYPE_STANDARD), and all keys
# and values are in llama.cpp's two KV caches, one for each kind of layer (llama_kv_cache_iswa).
_PLAIN_WINDOWS = frozenset({"cohere2", "exaone4", "gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss"})


class LlamaLog:
    """Forwards llama.cpp's log to ours, and keeps what a call reports about errors, buffers and devices.

    Only the first error is kept, because later ones merely say that something failed. `layer_devices` counts the
    output head as one more layer.
    """

    def __init__(self) -> None:
        self.first_error = ""
        self.compute_buffers: dict[str, int] = {}
        self.layer_devices: dict[int, str] = {}
        self.weight_buffers: dict[str, int] = {}
        # Kept alive here: llama.cpp holds the bare pointer.
        self._callback = llama.llama_log_callback(self._take)

    @property
    def detail(self) -> str:
        """The error, as the end of a sentence; "" if none was reported."""
        return f" ({self.first_error})" if self.first_error else ""

    def begin(self) -> None:
        """Forgets what earlier calls reported."""
        self.first_error = ""
        self.compute_buffers.clear()
        self.layer_devices.clear()
        self.weight_buffers.clear()

    def install(self) -> None:
        llama.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _take(self, level: int, text: bytes, user_data: object) -> None:
        line = text.decode("utf-8", "replace").rstrip()
        if level == 4 and not self.first_error:
            self.first_error = line
        match = _BUFFER.search(line)
        if match:
            # The output buffer is on the first device of the other buffers, and has the same name.
            name = match[1] if match[2] == "compute" else f"{match[1]} output"
            self.compute_buffers[name] = int(float(match[3]) * 2**20)
        if weights := _WEIGHTS.search(line):
            self.weight_buffers[weights[1]] = int(float(weights[2]) * 2**20)
        if assigned := _ASSIGNED.match(line):
            self.layer_devices[int(assigned[1])] = assigned[2]
        log.log(_LEVELS.get(level, logging.DEBUG), "%s", line)


native_log = LlamaLog()
_backend_lock = threading.Lock()
_backend_is_up = False


def start_backend() -> None:
    """Initialises llama.cpp once for the process."""
    global _backend_is_up
    with _backend_lock:
        if not _backend_is_up:
            native_log.install()
            llama.llama_backend_init()
            _backend_is_up = True


class Copying:
    """Finds the weights that llama.cpp copies into its own memory during one load, from its log."""

    def __init__(self, packing: Packing | None) -> None:
        # Weights that fit into freed heap memory would be placed there, among other data, and could never leave.
        trim_heap()
        self._packing, self._before = packing, anonymous_ranges()
        self._known: Range | None = None
        self.problem: NotStreamable | None = None

    def num_bytes(self) -> int:
        """Returns the bytes of its buffers; 0 before they exist."""
        return file_pages.copied_bytes(native_log.weight_buffers)

    def where(self) -> Range | None:
        """Returns the address range of the buffers, if it can be determined."""
        if self._known is None and self._is_on_processor():
            now = anonymous_ranges()
            # They may have been merged with ranges that existed before, or have reused addresses.
            new_ranges = {*pages.appeared(self._before, now), *(set(now) - set(self._before))}
            self._known = range_of(sorted(new_ranges), self.num_bytes())
        return self._known

    def goes_on(self) -> bool:
        """Packs what was copied so far; called between two tensors. False if it cannot be taken out of memory."""
        if self._packing is not None:
            try:
                self._pack(self._packing)
            except NotStreamable as error:
                self.problem = error
            except Exception as error:  # noqa: BLE001 - llama.cpp would only be told to stop, without a reason
                self.problem = NotStreamable(f"The model's weights could not be taken out of memory: {error}.")
        return self.problem is None

    def _pack(self, packing: Packing) -> None:
        if any(not _CAN_BE_PACKED.search(name) for name in native_log.weight_buffers):
            # Such as that of a matrix unit, in which the layout of weights differs from their tensors.
            raise NotStreamable("On this processor weights lie in memory in an order that cannot be told.")
        if self.num_bytes():
            if (where := self.where()) is None:
                raise NotStreamable("Where the weights of this model lie in memory cannot be told.")
            packing.take(where)

    @staticmethod
    def _is_on_processor() -> bool:
        return all(device == "CPU" for device in native_log.layer_devices.values())


class Model:
    """Loaded weights and their vocabulary. Close it after its contexts."""

    def __init__(
        self,
        path: Path,
        n_gpu_layers: int,
        on_progress: Callable[[float], bool],
        is_repacked: bool = True,
        packing: Packing | None = None,
    ) -> None:
        """Loads the file; see `load`."""
        start_backend()
        self.path = path
        self._handle: Any = None
        self._vocab: Any = None
        self._tokenizer: Tokenizer | None = None
        self.is_repacked = is_repacked
        # The address ranges of the files that this load has mapped, and the devices of the layers; the last is the
        # output head's.
        self.mappings: tuple[Mapping, ...] = ()
        self.layer_devices: dict[int, str] = {}
        # Weights that llama.cpp copied into its own memory, instead of using the mapped file.
        self.copied_bytes = 0
        # Whether these are in the order that the processor reads fastest.
        self.is_in_own_order = False
        # The address range of that memory, if it can be determined; it is not written to after loading.
        self.copied_range: Range | None = None
        self.load(n_gpu_layers, on_progress, is_repacked, packing)

    def load(
        self,
        n_gpu_layers: int,
        on_progress: Callable[[float], bool],
        is_repacked: bool = True,
        packing: Packing | None = None,
    ) -> None:
        """Reads the weights, possibly again after `close`: users of this object continue with it.

        Objects that llama.cpp made from the vocabulary, such as a grammar, have to be made again.

        Args:
            n_gpu_layers: As llama.cpp counts; 0 keeps everything in RAM.
            on_progress: Gets the fraction done (0…1); returning False abandons the load.
            is_repacked: Whether weights may be copied: into the order that the processor reads fastest, or, with some
                layers on a device, into memory from which that copies fastest. Otherwise they stay in the mapped file.
            packing: Moves copied weights out of memory while others are still being copied; they have to be read from
                it
                afterwards.

        Raises:
            ModelLoadFailed: llama.cpp refused the file, ran out of memory, or was stopped.
            NotStreamable: Copied weights could not be taken out of memory.
        """
        if self._handle is not None:
            self.close()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.use_extra_bufts = is_repacked
        # Without layers on a device, weights must not be put into memory that a device copies from: they would not be
        # repacked.
        params.no_host = n_gpu_layers == 0
        if packing is not None or not is_repacked or not n_gpu_layers:
            # By default llama.cpp maps no file if an integrated GPU cannot copy from it, even if that GPU is not used.
            params.load_mode = llama.LLAMA_LOAD_MODE_MMAP
        elif self._is_shared_out(n_gpu_layers):
            # Without a mapping, the layers in memory are page-locked, and a device that computes long batches of them
            # copies them two to three times as fast (an H100, 11 GB: 512 tokens in .45 s instead of 1.35).
            params.load_mode = llama.LLAMA_LOAD_MODE_NONE
        before, copying = current(), Copying(packing)

        def on_tensor(fraction: float, user_data: object) -> bool:
            return copying.goes_on() and on_progress(fraction)

        callback = llama.llama_progress_callback(on_tensor)
        params.progress_callback = callback
        native_log.begin()
        handle = llama.llama_model_load_from_file(os.fsencode(self.path), params)
        if copying.problem is not None:
            if handle:
                llama.llama_model_free(handle)
            raise copying.problem
        if not handle:
            raise ModelLoadFailed(
                f"{self.path.name} could not be loaded{native_log.detail}.",
                "Choose a smaller model or fewer GPU layers, or update Ragdoll if the model is very new.",
            )
        self._handle, self.is_repacked = handle, is_repacked
        self._vocab = llama.llama_model_get_vocab(handle)
        self._tokenizer = Tokenizer(self._vocab, self.chat_template or "")
        self.mappings, self.layer_devices = appeared(before, current()), dict(native_log.layer_devices)
        self.copied_bytes, self.copied_range = copying.num_bytes(), copying.where()
        self.is_in_own_order = file_pages.own_order_bytes(native_log.weight_buffers) > 0
        if self.copied_bytes:
            file_pages.let_go(self.path, self.mappings)
            file_pages.read_singly(self.path, self.mappings)

    def _is_shared_out(self, n_gpu_layers: int) -> bool:
        """Returns whether some layers, but not all, are for a device with its own memory."""
        if not 0 < n_gpu_layers <= read_shape(self.path).num_layers:
            return False
        return not any(device.shares_ram for device in probe_devices())

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def is_open(self) -> bool:
        """Whether weights are loaded."""
        return self._handle is not None

    @property
    def vocab(self) -> Any:
        return self._vocab

    @property
    def num_tokens(self) -> int:
        return int(llama.llama_vocab_n_tokens(self._vocab))

    @property
    def is_recurrent(self) -> bool:
        """Whether at least some layers have a recurrent state of fixed size."""
        return bool(llama.llama_model_is_recurrent(self._handle) or llama.llama_model_is_hybrid(self._handle))

    @property
    def can_share_prefixes(self) -> bool:
        """Whether a part of a sequence can be removed, copied and saved by itself.

        Not with a recurrent state: such a sequence is kept and removed as a whole. With a sliding window in some
        layers, cells outside of it may be overwritten, so code that continues from an earlier position has to check
        that all of the window is there (`Context.has_window`); True only for models that are known to allow this.
        """
        return not self.is_recurrent and (not self.window_tokens or self._architecture in _PLAIN_WINDOWS)

    @property
    def window_tokens(self) -> int:
        """The size of the sliding window in positions; 0 if all layers attend to everything."""
        return int(llama.llama_model_n_swa(self._handle))

    @property
    def has_experts(self) -> bool:
        """Whether a token is computed with only some of a layer's weights (a mixture of experts)."""
        return int(self._metadata(f"{self._architecture}.expert_count") or 0) > 1

    @property
    def _open_tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("no weights are loaded")
        return self._tokenizer

    @property
    def _architecture(self) -> str:
        return self._metadata("general.architecture")

    def _metadata(self, key: str) -> str:
        """Reads a short value from the file's header, as text; "" if there is none."""
        value = ctypes.create_string_buffer(64)
        size = llama.llama_model_meta_val_str(self._handle, key.encode(), value, len(value))
        return value.value.decode("utf-8", "replace") if size > 0 else ""

    @property
    def chat_template(self) -> str | None:
        """The Jinja template in the file, if it has one."""
        template = llama.llama_model_chat_template(self._handle, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def adds_bos(self) -> bool:
        return bool(llama.llama_vocab_get_add_bos(self._vocab))

    @property
    def bos(self) -> int:
        return int(llama.llama_vocab_bos(self._vocab))

    def special_text(self, token: int) -> str:
        """Returns how templates write a control token; "" if there is none."""
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def is_control(self, token: int) -> bool:
        """Returns whether a token is a control token instead of text."""
        return bool(llama.llama_vocab_is_control(self._vocab, token))

    @property
    def adds_space(self) -> bool:
        """Whether the tokenizer puts a space before the first word of a text, like SentencePiece (word_spaces.py)."""
        return self._open_tokenizer.adds_space

    @property
    def bos_text(self) -> str:
        return self.special_text(self.bos)

    @property
    def eos_text(self) -> str:
        return self.special_text(int(llama.llama_vocab_eos(self._vocab)))

    def tokenize(self, text: str, parse_special: bool = False) -> list[int]:
        """Tokenises `text` without a beginning-of-text token; see `Tokenizer.tokens`."""
        return self._open_tokenizer.tokens(text, parse_special)

    def piece(self, token: int, special: bool = False) -> bytes:
        """Returns the bytes of a token; a character may be spread over several tokens."""
        return piece(self._vocab, token, special)

    def ends(self, token: int) -> bool:
        """Returns whether `token` ends the model's output."""
        return bool(llama.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        if self._handle:
            llama.llama_model_free(self._handle)
            self._handle = self._vocab = self._tokenizer = None
