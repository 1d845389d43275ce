"""What the machine has: capacities and free bytes of RAM, devices and disk, asked of the system each time.

RAM follows the cgroup where one limits us (v1 and v2). Devices are asked through ggml itself, by ctypes on
the libraries beside llama-cpp-python, because they are the ones that will be used; on Linux ggml's CPU device
reports free = total, so it is not asked.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

# ggml_backend_dev_type in ggml-backend.h: CPU 0, GPU 1, IGPU 2, ACCEL 3.
_GPU_TYPES = (1, 2)
_CGROUP_V2_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CGROUP_V1_LIMIT = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NO_LIMIT_ABOVE_BYTES = 2**60


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as ggml sees it."""

    name: str
    description: str
    capacity_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """One look at the machine. `process_bytes` is this process's own resident memory."""

    ram_capacity_bytes: int
    ram_free_bytes: int
    disk_capacity_bytes: int
    disk_free_bytes: int
    process_bytes: int
    devices: tuple[Device, ...] = ()


def probe(data_folder: Path, devices: tuple[Device, ...] = ()) -> Hardware:
    """RAM and the disk that holds `data_folder`; devices are handed in, since only their owner thread may ask them."""
    memory = psutil.virtual_memory()
    capacity_bytes = min(memory.total, _cgroup_limit_bytes())
    disk = shutil.disk_usage(data_folder)
    return Hardware(
        ram_capacity_bytes=capacity_bytes,
        ram_free_bytes=min(memory.available, capacity_bytes),
        disk_capacity_bytes=disk.total,
        disk_free_bytes=disk.free,
        process_bytes=process_bytes(),
        devices=devices,
    )


def process_bytes() -> int:
    """Resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


def probe_devices() -> tuple[Device, ...]:
    """The GPUs that ggml can use, with their free bytes now. Call it on the thread that owns llama.cpp."""
    ggml = _ggml()
    if ggml is None:
        return ()
    handles = [ggml.ggml_backend_dev_get(index) for index in range(ggml.ggml_backend_dev_count())]
    return tuple(_device(ggml, handle) for handle in handles if ggml.ggml_backend_dev_type(handle) in _GPU_TYPES)


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


def _cgroup_limit_bytes() -> int:
    for file in (_CGROUP_V2_LIMIT, *_own_cgroup_v1_limits(), _CGROUP_V1_LIMIT):
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _NO_LIMIT_ABOVE_BYTES:
            return int(text)
    return _NO_LIMIT_ABOVE_BYTES


def _own_cgroup_v1_limits() -> list[Path]:
    """The limit file of the v1 memory cgroup this process is in, where /proc says which one it is."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    groups = [line.split(":", 2)[2] for line in lines if "memory" in line.split(":", 2)[1].split(",")]
    return [_CGROUP_V1_LIMIT.parent / group.lstrip("/") / _CGROUP_V1_LIMIT.name for group in groups]
