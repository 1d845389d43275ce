"""llama.cpp behind small classes: `Model` (weights and vocabulary), and over it contexts (context.py) and samplers.

One thread owns every call in here and there: concurrent calls crash. ctypes releases the GIL meanwhile.
llama-cpp-python's high-level `Llama` serves one request at a time and hides the cells, so it is not used.
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

from engine.errors import ModelLoadFailed

log = logging.getLogger(__name__)

_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.INFO}
_BUFFER = re.compile(r"(\S+)\s+(compute|output) buffer size\s*=\s*([\d.]+)\s*MiB")


class LlamaLog:
    """llama.cpp's log lines, handed to ours; the first error of a call and the buffers it tells of are kept.

    The first says what is wrong, those after it that something was.
    """

    def __init__(self) -> None:
        self.first_error = ""
        self.compute_buffers: dict[str, int] = {}
        # Kept alive here: llama.cpp holds the bare pointer.
        self._callback = llama.llama_log_callback(self._take)

    @property
    def detail(self) -> str:
        """The error, as the end of a sentence; "" where none was told."""
        return f" ({self.first_error})" if self.first_error else ""

    def begin(self) -> None:
        """Forgets what was told of earlier calls."""
        self.first_error = ""
        self.compute_buffers.clear()

    def install(self) -> None:
        llama.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _take(self, level: int, text: bytes, user_data: object) -> None:
        line = text.decode("utf-8", "replace").rstrip()
        if level == 4 and not self.first_error:
            self.first_error = line
        match = _BUFFER.search(line)
        if match:
            # The output buffer lies beside the first of the others and bears the same name.
            name = match[1] if match[2] == "compute" else f"{match[1]} output"
            self.compute_buffers[name] = int(float(match[3]) * 2**20)
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
        native_log.begin()
        handle = llama.llama_model_load_from_file(os.fsencode(path), params)
        if not handle:
            raise ModelLoadFailed(
                f"{path.name} could not be loaded{native_log.detail}.",
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
    def is_recurrent(self) -> bool:
        """Whether a state of one size sums up all that was read, in some layers at least."""
        return bool(llama.llama_model_is_recurrent(self._handle) or llama.llama_model_is_hybrid(self._handle))

    @property
    def can_share_prefixes(self) -> bool:
        """Whether a part of a sequence can be forgotten, copied and saved by itself.

        Not where a state sums it up, nor where cells that left a sliding window are overwritten: such a sequence is
        kept and forgotten as a whole.
        """
        return not self.is_recurrent and llama.llama_model_n_swa(self._handle) == 0

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
