"""Plain llama.cpp without our code: the model is memory-mapped, and the kernel pages in what is missing.

Runs as a side (side_process.py). Settings: `model`; `num_cells` and `num_threads`; `is_repacked`, llama.cpp's default,
which copies weights into process memory in the processor's preferred layout. It must be off for a model that exceeds
the limit: copies cannot be reclaimed and read again, so the process would be killed.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np

from tests.bench import process_marks
from tests.bench.confined import Group
from tests.bench.measured_answers import MeasuredAnswers, checksum
from tests.bench.side_process import Said, group_of, serve

MAX_SEQUENCES = 16
_silent = llama.llama_log_callback(lambda level, text, data: None)


class StockSide:
    """A loaded model that writes greedy answers together, a token of each per pass."""

    def __init__(self, settings: Said, group: Group | None) -> None:
        self._group = group
        llama.llama_log_set(_silent, ctypes.c_void_p(0))
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 0
        params.load_mode = llama.LLAMA_LOAD_MODE_MMAP
        params.use_extra_bufts = settings["is_repacked"]
        model = llama.llama_model_load_from_file(os.fsencode(settings["model"]), params)
        self._num_tokens = int(llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model)))
        self._context = llama.llama_init_from_model(model, _context_params(settings))
        self._batch = llama.llama_batch_init(settings["num_cells"], 0, 1)

    def write(self, prompts: Sequence[Sequence[int]], num_tokens: int) -> MeasuredAnswers:
        """Writes an answer of `num_tokens` tokens to each prompt."""
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        begun = time.perf_counter()
        self._checksums: list[list[int]] = [[] for _ in prompts]
        answers = [[token] for token in self._read(prompts)]
        read_seconds, before = time.perf_counter() - begun, process_marks.take(self._group)
        pass_seconds = []
        for place in range(1, num_tokens):
            begun = time.perf_counter()
            last = [(answer[-1], len(prompt) + place - 1) for answer, prompt in zip(answers, prompts, strict=True)]
            for answer, token in zip(answers, self._pass(last), strict=True):
                answer.append(token)
            pass_seconds.append(time.perf_counter() - begun)
        return MeasuredAnswers(
            tokens=tuple(map(tuple, answers)),
            read_seconds=read_seconds,
            pass_seconds=tuple(pass_seconds),
            num_written=len(answers) * (num_tokens - 1),
            marks=process_marks.take(self._group).since(before),
            checksums=tuple(map(tuple, self._checksums)),
        )

    def _read(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        """Reads all prompts together; returns the first token of each answer."""
        ends = []
        self._batch.n_tokens = 0
        for sequence, prompt in enumerate(prompts):
            for position, token in enumerate(prompt):
                self._add(token, position, sequence, is_wanted=position == len(prompt) - 1)
            ends.append(self._batch.n_tokens - 1)
        return self._likeliest(ends)

    def _pass(self, last: Sequence[tuple[int, int]]) -> list[int]:
        """Returns the next token of each sequence, given its last token and that token's position."""
        self._batch.n_tokens = 0
        for sequence, (token, position) in enumerate(last):
            self._add(token, position, sequence, is_wanted=True)
        return self._likeliest(range(len(last)))

    def _add(self, token: int, position: int, sequence: int, *, is_wanted: bool) -> None:
        batch, place = self._batch, self._batch.n_tokens
        batch.token[place], batch.pos[place], batch.logits[place] = token, position, is_wanted
        batch.n_seq_id[place], batch.seq_id[place][0] = 1, sequence
        batch.n_tokens += 1

    def _likeliest(self, rows: Sequence[int]) -> list[int]:
        result = llama.llama_decode(self._context, self._batch)
        if result != 0:
            raise RuntimeError(f"llama_decode returned {result}")
        likeliest = []
        for row, checksums in zip(rows, self._checksums, strict=True):
            logits = self._logits(row)
            checksums.append(checksum(logits))
            likeliest.append(int(np.argmax(logits)))
        return likeliest

    def _logits(self, row: int) -> Any:
        return np.ctypeslib.as_array(llama.llama_get_logits_ith(self._context, row), (self._num_tokens,))


def _context_params(settings: Said) -> Any:
    """Returns context parameters with llama.cpp's default batch sizes."""
    params = llama.llama_context_default_params()
    params.n_ctx = settings["num_cells"]
    params.n_seq_max = MAX_SEQUENCES
    params.n_threads = params.n_threads_batch = settings["num_threads"]
    params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = True
    params.no_perf = True
    return params


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = StockSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        return side.write(asked["prompts"], asked["num_tokens"]).told() if asked else {}

    return answer


if __name__ == "__main__":
    serve(prepare)
