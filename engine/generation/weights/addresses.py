"""Where llama.cpp has the tensors of a loaded model, asked of the library itself: no C header exposes it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.errors import NotStreamable

# llama_model::get_tensor(char const *) const, as compilers of Linux mangle it.
_GET_TENSOR = "_ZNK11llama_model10get_tensorEPKc"


def addresses_of(model_handle: Any, names: Iterable[str]) -> dict[str, int]:
    """The address of each tensor's first byte, by name, for those that the model has.

    Raises:
        NotStreamable: This build of llama.cpp does not expose it.
    """
    try:
        get_tensor = getattr(llama._lib, _GET_TENSOR)
        get_data = ctypes.CDLL(None, handle=llama._lib._handle).ggml_get_data
    except AttributeError as error:
        raise NotStreamable("This build of llama.cpp does not tell where it has weights.") from error
    get_tensor.argtypes, get_tensor.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
    get_data.argtypes, get_data.restype = (ctypes.c_void_p,), ctypes.c_void_p
    tensors = {name: get_tensor(model_handle, name.encode()) for name in names}
    found = {name: get_data(tensor) for name, tensor in tensors.items() if tensor}
    return {name: address for name, address in found.items() if address}
