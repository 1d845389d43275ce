"""How fast the graphics card is, measured by the products that answers are made of, in a process of its own.

    python -m engine.memory.device_rates

4-bit weights are multiplied by one token, which reads them as writing an answer does, and by many, as reading a prompt
does; and they are copied from the memory that layers outside the device are in: page-locked, where the driver has that,
and ordinary memory while some are streamed. It takes a second or two, most of it for the driver to start. A driver that
runs out of memory while it computes ends its process, which must not be ours.
"""

from __future__ import annotations

import ctypes
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_void_p
from typing import Any

import numpy as np

from engine import own_modules
from engine.memory.devices import Device, probe_devices
from engine.memory.ggml import F32, Q4_0, Ggml, InitParams, ggml_library

log = logging.getLogger(__name__)

MIB = 2**20
# Matrices as wide as those of a 7B model, and together more than a card's caches hold.
COLUMNS, ROWS, NUM_MATRICES = 4096, 14_336, 8
NUM_TOKENS = 512
_BLOCK_WEIGHTS, _BLOCK_BYTES = 32, 18
MATRIX_BYTES = ROWS * COLUMNS // _BLOCK_WEIGHTS * _BLOCK_BYTES
# The matrices, their operands and results, and what the driver needs in addition.
NEEDED_BYTES = 1024 * MIB
_LONGEST_SECONDS, _PATIENCE_SECONDS, _LOOK_SECONDS = 0.25, 20.0, 0.2
_NODES_BYTES = 4 * MIB
# ggml_status.
_SUCCESS = 0


def device_rates(is_wanted: Callable[[], bool] = lambda: True) -> dict[str, float]:
    """Returns rates of the first card by their names in the profile; {} without a card, or if it cannot be measured.

    `is_wanted` is called all the time: once it is False, the measurement is ended.
    """
    try:
        output = _output_of(own_modules.command_of(__name__), is_wanted)
        rates: dict[str, float] = json.loads(output.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        log.info("the graphics card could not be measured", exc_info=True)
        return {}
    return rates


def _output_of(command: Sequence[str], is_wanted: Callable[[], bool]) -> bytes:
    """Runs a command and returns its output.

    Raises subprocess.SubprocessError where it fails, takes too long or is no longer wanted.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=own_modules.environment(),
    ) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if not is_wanted() or time.monotonic() > deadline:
                    process.kill()
                    raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output


def measured_rates(ggml: Ggml, device: Device, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Measures the rates in this process; {} where there is no room for it.

    Args:
        ggml: Its libraries.
        device: The device that is measured.
        clock: Seconds.
    """
    found = ggml.ggml_backend_dev_by_name(device.name.encode())
    locked = ggml.ggml_backend_dev_host_buffer_type(found)
    with _closing(ggml.ggml_backend_dev_init(found, None), ggml.ggml_backend_free) as backend:
        with _Products(ggml, backend, num_tokens=1) as few:
            if not few.has_room:
                return {}
            copied = few.fill(clock, locked)
            read = few.best_seconds(clock)
        with _Products(ggml, backend, NUM_TOKENS) as many:
            if not many.has_room:
                return {}
            copied_from_pages = many.fill(clock)
            computed = many.best_seconds(clock)
    num_bytes = NUM_MATRICES * MATRIX_BYTES
    return {
        "host_to_device_bytes_per_s": MATRIX_BYTES / copied,
        "pageable_to_device_bytes_per_s": MATRIX_BYTES / copied_from_pages,
        "device_bytes_per_s": num_bytes / read,
        # Without the time for the bytes, which are read again for that many tokens.
        "device_rate": NUM_TOKENS * num_bytes / max(computed - read, computed / 2),
    }


class _Products:
    """Matrices on a card, each multiplied by the same tokens. `has_room` is whether the card had room for them."""

    def __init__(self, ggml: Ggml, backend: c_void_p, num_tokens: int) -> None:
        self._ggml, self._backend = ggml, backend
        self._context = ggml.ggml_init(InitParams(_NODES_BYTES, None, True))
        self._graph = ggml.ggml_new_graph(self._context)
        tokens = ggml.ggml_new_tensor_2d(self._context, F32, COLUMNS, num_tokens)
        self._matrices = [ggml.ggml_new_tensor_2d(self._context, Q4_0, COLUMNS, ROWS) for _ in range(NUM_MATRICES)]
        for matrix in self._matrices:
            ggml.ggml_build_forward_expand(self._graph, ggml.ggml_mul_mat(self._context, matrix, tokens))
        self._tokens, self._num_tokens = tokens, num_tokens
        self._buffer = ggml.ggml_backend_alloc_ctx_tensors(self._context, backend)

    def __enter__(self) -> _Products:
        return self

    def __exit__(self, *error: object) -> None:
        if self._buffer is not None:
            self._ggml.ggml_backend_buffer_free(self._buffer)
        self._ggml.ggml_free(self._context)

    @property
    def has_room(self) -> bool:
        return self._buffer is not None

    def fill(self, clock: Callable[[], float], locked: c_void_p | None = None) -> float:
        """Sets random weights and tokens; returns the seconds of the fastest copy of a matrix.

        They are copied from memory of the type `locked`, if that is given and can be allocated.
        """
        random = np.random.default_rng(0)
        self._set(self._tokens, random.standard_normal((self._num_tokens, COLUMNS), np.float32))
        blocks = np.frombuffer(random.bytes(MATRIX_BYTES), np.uint8).reshape(-1, _BLOCK_BYTES).copy()
        blocks[:, :2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        buffer = None if locked is None else self._ggml.ggml_backend_buft_alloc_buffer(locked, MATRIX_BYTES)
        if buffer is None:
            return min(self._set(matrix, blocks, clock) for matrix in self._matrices)
        try:
            base = self._ggml.ggml_backend_buffer_get_base(buffer)
            there = np.ctypeslib.as_array((ctypes.c_uint8 * MATRIX_BYTES).from_address(base))
            there[:] = blocks.reshape(-1)
            return min(self._set(matrix, there, clock) for matrix in self._matrices)
        finally:
            self._ggml.ggml_backend_buffer_free(buffer)

    def best_seconds(self, clock: Callable[[], float]) -> float:
        """Returns the fastest run of all products: other programs only take time away. The first only warms up."""
        best, begun = float("inf"), clock()
        self._compute()
        while best == float("inf") or clock() - begun < _LONGEST_SECONDS:
            before = clock()
            self._compute()
            best = min(best, max(clock() - before, 1e-9))
        return best

    def _compute(self) -> None:
        status = self._ggml.ggml_backend_graph_compute(self._backend, self._graph)
        self._ggml.ggml_backend_synchronize(self._backend)
        if status != _SUCCESS:
            raise OSError(f"The graphics card stopped computing ({status}).")

    def _set(self, tensor: c_void_p, content: Any, clock: Callable[[], float] = time.perf_counter) -> float:
        before = clock()
        self._ggml.ggml_backend_tensor_set(tensor, content.ctypes.data_as(c_void_p), 0, content.nbytes)
        self._ggml.ggml_backend_synchronize(self._backend)
        return max(clock() - before, 1e-9)


@contextmanager
def _closing(backend: c_void_p | None, free: Callable[[c_void_p], None]) -> Iterator[c_void_p]:
    if backend is None:
        raise OSError("The graphics card could not be opened.")
    try:
        yield backend
    finally:
        free(backend)


def main() -> None:
    """Prints the rates as JSON."""
    ggml, rates = ggml_library(), dict[str, float]()
    devices = probe_devices() if ggml is not None else ()
    if ggml is not None and devices and devices[0].free_bytes >= NEEDED_BYTES:
        rates = measured_rates(ggml, devices[0])
    # After anything that libraries print.
    print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    main()
