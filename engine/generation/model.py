"""llama.cpp behind two small classes: `Model` (weights and vocabulary) and `Context` (KV cells and compute buffers).

One thread owns every call in here, and in sampler.py: concurrent calls crash. ctypes releases the GIL meanwhile.
llama-cpp-python's high-level `Llama` serves one request at a time and hides the cells, so it is not used.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.errors import DecodeFailed, ModelLoadFailed, NoCells

log = logging.getLogger(__name__)

_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.INFO}
_COMPUTE_BUFFER = re.compile(r"(\S+)\s+compute buffer size\s*=\s*([\d.]+)\s*MiB")
_NO_CELL_FREE = 1


class LlamaLog:
    """llama.cpp's log lines, handed to ours; the newest error and the compute buffers it tells of are kept."""

    def __init__(self) -> None:
        self.last_error = ""
        self.compute_buffers: dict[str, int] = {}
        # Kept alive here: llama.cpp holds the bare pointer.
        self._callback = llama.llama_log_callback(self._take)

    def install(self) -> None:
        llama.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _take(self, level: int, text: bytes, user_data: object) -> None:
        line = text.decode("utf-8", "replace").rstrip()
        if level == 4 and line:
            self.last_error = line
        match = _COMPUTE_BUFFER.search(line)
        if match:
            self.compute_buffers[match[1]] = int(float(match[2]) * 2**20)
        log.log(_LEVELS.get(level, logging.DEBUG), "%s", line)


native_log = LlamaLog()
_backend_lock = threading.Lock()
_backend_is_up = False


def start_backend() -> None:
    """Brings llama.cpp up once for the process."""
    global _backend_is_up
    with _backend_lock:
        if not _backend_is_up:
            native_log.install()
            llama.llama_backend_init()
            _backend_is_up = True


class Model:
    """Loaded weights and their vocabulary. Close it after its contexts."""

    def __init__(self, path: Path, n_gpu_layers: int, on_progress: Callable[[float], bool]) -> None:
        """Loads the file.

        Args:
            path: A GGUF file whose header was found good.
            n_gpu_layers: As llama.cpp counts; 0 keeps everything in RAM.
            on_progress: Told the share done (0…1); returning False abandons the load.

        Raises:
            ModelLoadFailed: llama.cpp refused the file, ran out of memory, or was told to stop.
        """
        start_backend()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        callback = llama.llama_progress_callback(lambda fraction, _: on_progress(fraction))
        params.progress_callback = callback
        native_log.last_error = ""
        handle = llama.llama_model_load_from_file(os.fsencode(path), params)
        if not handle:
            detail = f" ({native_log.last_error})" if native_log.last_error else ""
            raise ModelLoadFailed(
                f"{path.name} could not be loaded{detail}.",
                "Choose a smaller model or fewer GPU layers, or update Ragdoll if the model is very new.",
            )
        self.path = path
        self._handle: Any = handle
        self._vocab: Any = llama.llama_model_get_vocab(handle)

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def vocab(self) -> Any:
        return self._vocab

    @property
    def num_tokens(self) -> int:
        return int(llama.llama_vocab_n_tokens(self._vocab))

    @property
    def can_share_prefixes(self) -> bool:
        """Whether a part of a sequence can be forgotten, copied and saved by itself.

        Not where a state sums up all that was read (recurrent and hybrid models), nor where cells that left a
        sliding window are overwritten: such a sequence is kept and forgotten as a whole.
        """
        is_recurrent = llama.llama_model_is_recurrent(self._handle) or llama.llama_model_is_hybrid(self._handle)
        return not is_recurrent and llama.llama_model_n_swa(self._handle) == 0

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
        """How a control token is written in a template; "" where there is none."""
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    @property
    def bos_text(self) -> str:
        return self.special_text(self.bos)

    @property
    def eos_text(self) -> str:
        return self.special_text(int(llama.llama_vocab_eos(self._vocab)))

    def tokenize(self, text: str, parse_special: bool = False) -> list[int]:
        """Token ids of `text`, without beginning-of-text; control tokens count as such only if `parse_special`."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        buffer = (llama.llama_token * room)()
        count = llama.llama_tokenize(self._vocab, data, len(data), buffer, room, False, parse_special)
        if count < 0:
            buffer = (llama.llama_token * -count)()
            count = llama.llama_tokenize(self._vocab, data, len(data), buffer, -count, False, parse_special)
        return list(buffer[:count])

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes a token stands for; a character may be spread over several tokens."""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = llama.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def ends(self, token: int) -> bool:
        """Whether the model says with `token` that it is done."""
        return bool(llama.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        if self._handle:
            llama.llama_model_free(self._handle)
            self._handle = None


class Context:
    """KV cells and compute buffers over a model; sequences live in it by number."""

    def __init__(self, model: Model, num_cells: int, n_batch: int, num_threads: int) -> None:
        """Allocates the cells.

        Raises:
            ModelLoadFailed: There is no room for them.
        """
        params = llama.llama_context_default_params()
        params.n_ctx = num_cells
        params.n_batch = min(n_batch, num_cells)
        params.n_ubatch = min(n_batch, num_cells)
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = num_threads
        # With the default (False) a partial seq_cp asserts and kills the process.
        params.kv_unified = True
        params.no_perf = True
        native_log.compute_buffers.clear()
        handle = llama.llama_init_from_model(model.handle, params)
        if not handle:
            detail = f" ({native_log.last_error})" if native_log.last_error else ""
            raise ModelLoadFailed(
                f"There is no room for a context of {num_cells:,} tokens{detail}.",
                "Lower the context length in the settings, or choose a smaller model.",
            )
        self.compute_bytes = dict(native_log.compute_buffers)
        self._handle: Any = handle
        self._memory: Any = llama.llama_get_memory(handle)
        self._n_batch = int(params.n_batch)
        self._batch = llama.llama_batch_init(self._n_batch, 0, 1)

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def num_cells(self) -> int:
        return int(llama.llama_n_ctx(self._handle))

    @property
    def n_batch(self) -> int:
        """The most tokens one `decode` takes."""
        return self._n_batch

    def decode(self, tokens: Sequence[int], position: int, sequence: int = 0) -> None:
        """Computes `tokens` at `position`…; logits are kept for the last one.

        Raises:
            NoCells: No KV cell is free; nothing has changed.
            DecodeFailed: Anything else; the sequence is trimmed back to `position`.
        """
        batch = self._batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = position + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = index == len(tokens) - 1
        result = llama.llama_decode(self._handle, batch)
        if result == _NO_CELL_FREE:
            raise NoCells("The context is full.", "Start a new chat or raise the context length in the settings.")
        if result != 0:
            # After 2 or below −1 the finished ubatches remain in the cells.
            self.trim(position, sequence)
            raise DecodeFailed(f"The model stopped computing (llama_decode returned {result}).", "Ask again.")

    def trim(self, position: int, sequence: int = 0) -> bool:
        """Forgets the sequence from `position` on; False where the model cannot (recurrent ones), and all is kept."""
        return bool(llama.llama_memory_seq_rm(self._memory, sequence, position, -1))

    def clear(self) -> None:
        llama.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        if self._handle:
            llama.llama_batch_free(self._batch)
            llama.llama_free(self._handle)
            self._handle = None
