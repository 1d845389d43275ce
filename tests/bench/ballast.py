"""Stands in for another program on the graphics card: holds all of its memory but a given amount.

Runs as a side (side_process.py). Settings: `usable_bytes` to leave free. It allocates through ggml, so it works on any
card that llama.cpp supports, and reports how much is free. What cannot be allocated in one piece is allocated in
smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.generation.model import start_backend
from engine.memory.devices import probe_devices
from engine.memory.ggml import ggml_library
from tests.bench.side_process import Said, serve

LARGEST_BYTES, SMALLEST_BYTES = 1 << 30, 1 << 22


def prepare(settings: Said) -> Callable[[Said], Said]:
    start_backend()
    buffers = list(taken(settings["usable_bytes"]))

    def answer(asked: Said) -> Said:
        return {"free_bytes": free_bytes(), "num_buffers": len(buffers)}

    return answer


def taken(usable_bytes: int) -> Iterator[int]:
    """Yields buffers on the first card until at most `usable_bytes` are free."""
    ggml = ggml_library()
    if ggml is None or not (devices := probe_devices()):
        raise SystemExit("llama.cpp sees no graphics card here.")
    device = ggml.ggml_backend_dev_by_name(devices[0].name.encode())
    kind, piece_bytes = ggml.ggml_backend_dev_buffer_type(device), LARGEST_BYTES
    # Counted here, because not every driver reports what is in use.
    to_take = free_bytes() - usable_bytes
    while piece_bytes >= SMALLEST_BYTES:
        buffer = ggml.ggml_backend_buft_alloc_buffer(kind, piece_bytes) if piece_bytes <= to_take else None
        if buffer is None:
            piece_bytes //= 2
        else:
            # Some drivers commit memory only when it is written.
            ggml.ggml_backend_buffer_clear(buffer, 1)
            to_take -= piece_bytes
            yield buffer


def free_bytes() -> int:
    return probe_devices()[0].free_bytes


if __name__ == "__main__":
    serve(prepare)
