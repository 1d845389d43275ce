"""Identifies the model that keys and values belong to: whatever would change them changes the fingerprint."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from engine.core import KVType
from engine.errors import ModelNotFound, ModelUnreadable
from engine.generation.knowledge_tree import KEY_BYTES
from engine.models.gguf import Header, parts_of, read_header

# Samples over the whole of the weights, besides one of every tensor: the largest tensors get several.
_SAMPLES = 64
_SAMPLE_BYTES = 4096


def model_fingerprint(path: Path) -> str:
    """Returns a name for the weights and the vocabulary in a GGUF file, the same wherever the file is.

    Raises:
        ModelNotFound: The file no longer exists.
        ModelFileInvalid: It is no longer a model.
        ModelUnreadable: The system does not let us read it.
    """
    return _fingerprint(_files(path))


def root_key(path: Path, kv_type: KVType, num_cells: int) -> bytes:
    """Returns the key of the knowledge tree's root, for a model in a context of `num_cells` cells of `kv_type`.

    llama.cpp's release is part of it, because another may rotate, order or scale keys differently. Raises as
    `model_fingerprint` does.
    """
    original = _original_context(_files(path)[:1])
    reads_far = original is not None and num_cells > original
    words = f"{model_fingerprint(path)} {version('llama-cpp-python')} {kv_type} {reads_far}"
    return hashlib.blake2b(words.encode(), digest_size=KEY_BYTES).digest()


_Files = tuple[tuple[Path, int, int], ...]


def _files(path: Path) -> _Files:
    """Returns the parts of a model as they are now: path, size, time of the last change."""
    try:
        return tuple((part, status.st_size, status.st_mtime_ns) for part in parts_of(path) if (status := part.stat()))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelNotFound(f"There is no model file at {path}.", "Choose another file.") from error
    except OSError as error:
        raise ModelUnreadable(f"{path.name} cannot be read: {error.strerror or error}.") from error


@lru_cache(maxsize=16)
def _fingerprint(files: _Files) -> str:
    """Hashes header, size, and samples of every tensor's weights: two exports may differ in a few tensors only.

    Cached while the files stay as they are (path, size, time of the last change).
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for path, size_bytes, _ in files:
        digest.update(size_bytes.to_bytes(8, "little"))
        header = read_header(path)
        try:
            with path.open("rb") as stream:
                _add_samples(digest, stream, header)
        except OSError as error:
            raise ModelUnreadable(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest()


def _add_samples(digest: hashlib.blake2b, stream: BinaryIO, header: Header) -> None:
    start = min((tensor.offset for tensor in header.tensors), default=header.file_bytes)
    digest.update(stream.read(start))
    step = max(_SAMPLE_BYTES, (header.file_bytes - start) // _SAMPLES)
    places = [(offset, _SAMPLE_BYTES) for offset in range(start, header.file_bytes, step)]
    # From the middle: what pads a tensor, or was added to it, is at an end.
    places += [_middle(tensor.offset, tensor.num_bytes) for tensor in header.tensors]
    # In the order of the file, for hard disks.
    for offset, num_bytes in sorted(places):
        stream.seek(offset)
        digest.update(stream.read(num_bytes))


def _middle(offset: int, num_bytes: int) -> tuple[int, int]:
    """Returns where the sample of a tensor begins, and how long it is."""
    length = min(num_bytes, _SAMPLE_BYTES)
    return offset + (num_bytes - length) // 2, length


@lru_cache(maxsize=16)
def _original_context(files: _Files) -> int | None:
    """Returns from how many cells on a model rotates its keys differently (LongRoPE); None if it never does.

    Cached: a header with its vocabulary takes long to read, and all answers pause meanwhile.
    """
    metadata = read_header(files[0][0]).metadata
    original = metadata.get(f"{metadata.get('general.architecture', '')}.rope.scaling.original_context_length")
    return original if isinstance(original, int) else None
