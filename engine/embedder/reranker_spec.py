"""Which reranker the settings name and what its files say about it, read in milliseconds and without torch.

A reranker is a cross-encoder: a model that reads two texts together and scores how well they fit. Other kinds of models
could be loaded as one but would give meaningless scores, so they are detected by their configuration.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.embedder import spec
from engine.embedder.repository_files import PICKLED, SAFETENSORS, parsed, weights_in
from engine.errors import EmbedderUnavailable

CONFIG = "config.json"
MODULES = "modules.json"
_LIBRARY = "sentence_transformers."
_KIND = "ForSequenceClassification"
# The default of transformers, and the most that a cross-encoder has: "does not fit" and "fits".
_USUAL_LABELS, _MOST_LABELS = 2, 2
_FLOAT32_BYTES = 4
# In the shortest number format. A header with more numbers is damaged.
_MOST_NUMBERS_PER_BYTE = 2
# A longer header is invalid: for a thousand tensors it is a tenth of that.
_MOST_HEAD_BYTES = 2**27
_GET_IT = "Download it in the settings, under “Reranker”, choose a folder that holds it, or use none."
_CHOOSE_ANOTHER = "Choose another one in the settings, under “Reranker”, or none."


@dataclass(frozen=True, slots=True)
class RerankerSpec:
    """A cross-encoder on this machine. `num_bytes` is the size of its weights in memory, as 32-bit numbers."""

    name: str
    folder: Path
    num_bytes: int


def resolve(model: str) -> RerankerSpec:
    """Finds a cross-encoder by its folder or its name in Hugging Face's cache, without network access.

    Raises:
        EmbedderUnavailable: It is not on this machine, or is not a cross-encoder.
    """
    name = Path(model).name or model
    try:
        folder = spec.local_folder(model)
    except EmbedderUnavailable as error:
        raise EmbedderUnavailable(f"The reranker {model!r} is not on this computer.", _GET_IT) from error
    try:
        files = sorted(file.name for file in folder.iterdir() if file.is_file())
        lack = lack_of(_said(folder / CONFIG)) or _lack_of_parts(folder / MODULES)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError) and error.filename
        why = f"it has no {Path(missing).name}" if missing else str(error)
        raise _is_none(name, why) from error
    weights = weights_in("", files, (SAFETENSORS, PICKLED))
    if lack or not weights:
        raise _is_none(name, lack or "it has no weights")
    return RerankerSpec(name, folder, sum(_bytes_in_memory(folder / file) for file in weights))


def lack_of(config: Mapping[str, Any]) -> str:
    """Returns why a model with this `config.json` is not a cross-encoder that we can use; "" if it is one."""
    if "auto_map" in config:
        return "it comes with a program of its own, and no program that was fetched is run here"
    kinds = config.get("architectures")
    if not isinstance(kinds, list) or not any(str(kind).endswith(_KIND) for kind in kinds):
        return "it is not made to say how well two texts fit"
    if (num_labels := _num_labels(config)) > _MOST_LABELS:
        return f"it sorts texts into {num_labels} kinds, and does not say how well two of them fit"
    return ""


def lack_of_parts(modules: Any) -> str:
    """Returns why a cross-encoder with these modules cannot be used; "" if it can."""
    is_list = isinstance(modules, list) and all(isinstance(module, dict) for module in modules)
    if not is_list or any(not str(module.get("type")).startswith(_LIBRARY) for module in modules):
        return f"its {MODULES} tells of another kind"
    if any(str(module.get("path", "")).strip("/") for module in modules):
        return "it consists of several parts"
    return ""


def _lack_of_parts(modules: Path) -> str:
    return lack_of_parts(parsed(modules)) if modules.is_file() else ""


def _num_labels(config: Mapping[str, Any]) -> int:
    labels = config.get("id2label")
    if isinstance(labels, Mapping):
        return len(labels)
    number = config.get("num_labels", _USUAL_LABELS)
    return number if isinstance(number, int) else _USUAL_LABELS


def _said(config: Path) -> dict[str, Any]:
    said = parsed(config)
    if not isinstance(said, dict):
        raise ValueError(f"its {CONFIG} says nothing")
    return said


def _bytes_in_memory(file: Path) -> int:
    """Returns the size of weights as 32-bit numbers; the size of the file if it is unknown."""
    with suppress(OSError, ValueError, struct.error, RecursionError):
        if file.suffix == ".safetensors":
            num_numbers = sum(math.prod(shape) for shape in _shapes(file))
            if num_numbers <= file.stat().st_size * _MOST_NUMBERS_PER_BYTE:
                return num_numbers * _FLOAT32_BYTES
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _shapes(file: Path) -> Iterator[list[int]]:
    """Yields the shapes of all tensors. Raises OSError, and ValueError or struct.error if it is not safetensors."""
    with file.open("rb") as stream:
        (num_bytes,) = struct.unpack("<Q", stream.read(8))
        if num_bytes > _MOST_HEAD_BYTES:
            raise ValueError("no head is as long")
        head = json.loads(stream.read(num_bytes))
    if not isinstance(head, dict):
        raise ValueError("its head lists no tensors")
    for name, tensor in head.items():
        if name != "__metadata__":
            yield _shape(tensor)


def _shape(tensor: Any) -> list[int]:
    """Returns the shape of a tensor in the header. Raises ValueError if it is invalid."""
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    if not isinstance(shape, list) or not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError("its head tells no shape")
    return shape


def _is_none(name: str, why: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"The folder {name!r} holds no reranker that Ragdoll can use: {why}.", _CHOOSE_ANOTHER)
