"""The pipe between the pool and a parser child: frames of a JSON head and, where needed, raw bytes.

JSON and not pickle, because a child reads untrusted files: what it sends must not be able to run code in the engine.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

from engine.core import Chunk

Head = dict[str, Any]

_SIZES = struct.Struct(">II")
MAX_HEAD_BYTES = 64 * 2**20
MAX_BLOB_BYTES = 256 * 2**20


def write_frame(stream: BinaryIO, head: Head, blob: bytes = b"") -> None:
    # ASCII, so that file names which are not UTF-8 travel as surrogate escapes.
    encoded = json.dumps(head, separators=(",", ":")).encode()
    stream.write(_SIZES.pack(len(encoded), len(blob)) + encoded)
    stream.write(blob)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[Head, bytes] | None:
    """Reads the next frame; None at the end of the stream.

    Raises:
        ValueError: The data is no valid frame.
    """
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head_bytes, blob_bytes = _SIZES.unpack(sizes)
    if head_bytes > MAX_HEAD_BYTES or blob_bytes > MAX_BLOB_BYTES:
        raise ValueError("a frame longer than any of ours")
    encoded, blob = stream.read(head_bytes), stream.read(blob_bytes)
    if len(encoded) < head_bytes or len(blob) < blob_bytes:
        return None
    head = json.loads(encoded)
    if not isinstance(head, dict):
        raise ValueError("a frame without a head")
    return head, blob


def pack_chunk(chunk: Chunk) -> list[Any]:
    return [chunk.ordinal, chunk.page, chunk.start, chunk.end, chunk.heading, chunk.text, chunk.place]


def unpack_chunk(fields: list[Any]) -> Chunk:
    return Chunk(*fields)
