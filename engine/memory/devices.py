"""GPUs and what of their memory is free, asked of the libraries that will use them: ggml, and torch where it sees one.

ggml is asked by ctypes on the libraries beside llama-cpp-python. Its CPU device reports on Linux that all memory is
free, so only GPUs are asked.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# ggml_backend_dev_type in ggml-backend.h: CPU 0, GPU 1, IGPU 2, ACCEL 3.
_GPU_TYPES = (1, 2)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as ggml sees it."""

    name: str
    description: str
    capacity_bytes: int
    free_bytes: int


def probe_devices() -> tuple[Device, ...]:
    """The GPUs that ggml can use, with their free bytes now. Call it on the thread that owns llama.cpp."""
    ggml = _ggml()
    if ggml is None:
        return ()
    handles = [ggml.ggml_backend_dev_get(index) for index in range(ggml.ggml_backend_dev_count())]
    return tuple(_device(ggml, handle) for handle in handles if ggml.ggml_backend_dev_type(handle) in _GPU_TYPES)


def torch_devices() -> tuple[Device, ...]:
    """The GPUs that torch can use, for the embedder; none while torch is not imported, which takes seconds.

    What torch keeps for itself of what it freed counts as used, as it does for every other program.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    return tuple(_torch_device(torch.cuda, index) for index in range(torch.cuda.device_count()))


def torch_held_bytes() -> int:
    """What torch's allocator holds of all GPUs for this process, in use or kept for the next use."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0
    return sum(int(torch.cuda.memory_reserved(index)) for index in range(torch.cuda.device_count()))


def _torch_device(cuda: Any, index: int) -> Device:
    free_bytes, capacity_bytes = cuda.mem_get_info(index)
    return Device(f"CUDA{index}", cuda.get_device_name(index), int(capacity_bytes), int(free_bytes))


def _device(ggml: ctypes.CDLL, handle: int) -> Device:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=ggml.ggml_backend_dev_name(handle).decode(),
        description=ggml.ggml_backend_dev_description(handle).decode(),
        capacity_bytes=total.value,
        free_bytes=free.value,
    )


@cache
def _ggml() -> ctypes.CDLL | None:
    """The ggml library that llama-cpp-python brings, with the prototypes of what we ask; None without one."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "lib"
    name = {"darwin": "libggml.dylib", "win32": "ggml.dll"}.get(sys.platform, "libggml.so")
    try:
        ggml = ctypes.CDLL(str(folder / name))
        # In builds that split the registry off, the device functions live in the base library.
        base = ctypes.CDLL(str(folder / name.replace("ggml", "ggml-base")))
    except OSError:
        return None
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    for function in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        _prototype(ggml, base, function, [ctypes.c_void_p], ctypes.c_char_p)
    _prototype(ggml, base, "ggml_backend_dev_type", [ctypes.c_void_p], ctypes.c_int)
    size_p = ctypes.POINTER(ctypes.c_size_t)
    _prototype(ggml, base, "ggml_backend_dev_memory", [ctypes.c_void_p, size_p, size_p], None)
    return ggml


def _prototype(ggml: ctypes.CDLL, base: ctypes.CDLL, name: str, arguments: list[type], result: type | None) -> None:
    function = getattr(ggml, name, None) or getattr(base, name)
    function.argtypes, function.restype = arguments, result
    setattr(ggml, name, function)
