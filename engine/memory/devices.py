"""GPUs and what of their memory is free, as ggml reports them; and what torch holds of them.

ggml is called through ctypes (ggml.py). Its CPU device reports on Linux that all memory is free, so only GPUs are
asked. Which of these get layers is llama.cpp's rule (`llama_prepare_model_devices`): a card that two of its backends
see counts once, and a GPU inside the processor only where there is no other.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.memory.ggml import DeviceProperties, Ggml, ggml_library

# ggml_backend_dev_type in ggml-backend.h: CPU 0, GPU 1, IGPU 2, ACCEL 3.
_GPU, _INTEGRATED_GPU = 1, 2


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as ggml sees it; `shares_ram`: its memory is the machine's."""

    name: str
    description: str
    capacity_bytes: int
    free_bytes: int
    shares_ram: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """A device as one of ggml's backends sees it; `hardware_id` is "" where that is not reported."""

    device: Device
    backend: str
    is_integrated: bool = False
    hardware_id: str = ""


def probe_devices() -> tuple[Device, ...]:
    """Returns the GPUs that ggml can use, with their free bytes now. Call it on the thread that owns llama.cpp."""
    ggml = ggml_library()
    if ggml is None:
        return ()
    handles = [ggml.ggml_backend_dev_get(index) for index in range(ggml.ggml_backend_dev_count())]
    gpus = [handle for handle in handles if ggml.ggml_backend_dev_type(handle) in (_GPU, _INTEGRATED_GPU)]
    return used_of([_seen(ggml, handle) for handle in gpus])


def used_of(seen: Sequence[Seen]) -> tuple[Device, ...]:
    """Returns the devices that llama.cpp gives layers to, of all that its backends see."""
    cards: dict[str, Device] = {}
    integrated = [one for one in seen if one.is_integrated]
    for number, one in enumerate(seen):
        if not one.is_integrated:
            cards.setdefault(one.hardware_id or str(number), one.device)
    return tuple(cards.values()) or tuple(one.device for one in integrated if one.backend == integrated[0].backend)


def torch_held_bytes() -> int:
    """Returns what torch's allocator holds of all GPUs for this process, in use or kept for the next use."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0
    return sum(int(torch.cuda.memory_reserved(index)) for index in range(torch.cuda.device_count()))


def _seen(ggml: Ggml, handle: int) -> Seen:
    found = DeviceProperties()
    ggml.ggml_backend_dev_get_props(handle, ctypes.byref(found))
    is_integrated = found.type == _INTEGRATED_GPU
    device = Device(
        name=found.name.decode(),
        description=found.description.decode(),
        capacity_bytes=found.memory_total,
        free_bytes=found.memory_free,
        # Metal reports all of them as discrete cards.
        shares_ram=is_integrated or sys.platform == "darwin",
    )
    backend = ggml.ggml_backend_reg_name(ggml.ggml_backend_dev_backend_reg(handle)).decode()
    return Seen(device, backend, is_integrated, (found.device_id or b"").decode())
