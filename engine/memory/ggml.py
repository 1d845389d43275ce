"""ggml by ctypes: the libraries shipped with llama-cpp-python know the devices and compute on them, but are not bound.

The names and types are those of ggml.h, ggml-alloc.h and ggml-backend.h. Objects made here belong to the caller;
llama.cpp's own objects are never touched.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Mapping
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

# Where llama-cpp-python takes the libraries from instead of its own.
LIBRARIES_VARIABLE = "LLAMA_CPP_LIB_PATH"
# ggml_type.
F32, Q4_0 = 0, 2


class DeviceProperties(ctypes.Structure):
    """ggml_backend_dev_props; its last fields are not read, and have room to grow."""

    _fields_: ClassVar = [
        ("name", c_char_p),
        ("description", c_char_p),
        ("memory_free", c_size_t),
        ("memory_total", c_size_t),
        ("type", c_int),
        ("device_id", c_char_p),
        ("capabilities", c_bool * 64),
    ]


class InitParams(ctypes.Structure):
    """ggml_init_params."""

    _fields_: ClassVar = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


_PROTOTYPES: Mapping[str, tuple[tuple[Any, ...], Any]] = {
    "ggml_backend_dev_count": ((), c_size_t),
    "ggml_backend_dev_get": ((c_size_t,), c_void_p),
    "ggml_backend_dev_by_name": ((c_char_p,), c_void_p),
    "ggml_backend_dev_type": ((c_void_p,), c_int),
    "ggml_backend_dev_backend_reg": ((c_void_p,), c_void_p),
    "ggml_backend_dev_get_props": ((c_void_p, POINTER(DeviceProperties)), None),
    "ggml_backend_dev_buffer_type": ((c_void_p,), c_void_p),
    "ggml_backend_dev_host_buffer_type": ((c_void_p,), c_void_p),
    "ggml_backend_dev_init": ((c_void_p, c_char_p), c_void_p),
    "ggml_backend_reg_name": ((c_void_p,), c_char_p),
    "ggml_backend_buft_alloc_buffer": ((c_void_p, c_size_t), c_void_p),
    "ggml_backend_buffer_get_base": ((c_void_p,), c_void_p),
    "ggml_backend_buffer_clear": ((c_void_p, c_uint8), None),
    "ggml_backend_buffer_free": ((c_void_p,), None),
    "ggml_backend_alloc_ctx_tensors": ((c_void_p, c_void_p), c_void_p),
    "ggml_backend_tensor_set": ((c_void_p, c_void_p, c_size_t, c_size_t), None),
    "ggml_backend_graph_compute": ((c_void_p, c_void_p), c_int),
    "ggml_backend_synchronize": ((c_void_p,), None),
    "ggml_backend_free": ((c_void_p,), None),
    "ggml_init": ((InitParams,), c_void_p),
    "ggml_free": ((c_void_p,), None),
    "ggml_new_tensor_2d": ((c_void_p, c_int, c_int64, c_int64), c_void_p),
    "ggml_mul_mat": ((c_void_p, c_void_p, c_void_p), c_void_p),
    "ggml_new_graph": ((c_void_p,), c_void_p),
    "ggml_build_forward_expand": ((c_void_p, c_void_p), None),
}


class Ggml:
    """The functions by their names in C."""

    def __init__(self, libraries: tuple[ctypes.CDLL, ...]) -> None:
        self._libraries = libraries

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError where no library has it."""
        arguments, result = _PROTOTYPES.get(name, (None, None))
        library = next((one for one in self._libraries if arguments is not None and hasattr(one, name)), None)
        if library is None:
            raise AttributeError(name)
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
        setattr(self, name, function)
        return function


@cache
def ggml_library() -> Ggml | None:
    """Returns the ggml of this process; None without one."""
    folder = _folder()
    if folder is None:
        return None
    name = {"darwin": "libggml.dylib", "win32": "ggml.dll"}.get(sys.platform, "libggml.so")
    try:
        # In builds that split the registry off, most of it lives in the base library.
        return Ggml(tuple(ctypes.CDLL(str(folder / one)) for one in (name, name.replace("ggml", "ggml-base"))))
    except OSError:
        return None


def _folder() -> Path | None:
    chosen = os.environ.get(LIBRARIES_VARIABLE)
    if chosen is not None:
        return Path(chosen)
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "lib"
