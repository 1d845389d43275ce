"""The format of a cache file: what a piece of KV is and whose, checksums, then the bytes as llama.cpp saved them.

    0   magic, version, checksum of the header; frequency, cost per token (these two are updated in place)
    32  root key, parent's key, key; start; counts of tokens and documents; checksum and length of the blob
    …   token ids (int32), document ids (int64), the blob

The root key stands for model, KV type and llama.cpp's release (fingerprint.py). Little-endian throughout. A file that
fails a check is not a cache file: that is never an error, and the file is deleted.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from engine.generation.knowledge_tree import NO_DOCUMENTS, NO_TOKENS, Piece, digest_of, key_after, packed

MAGIC, VERSION = b"RAGDOLKV", 1
USAGE_OFFSET = 16
_PREAMBLE = struct.Struct("<8sII")
_USAGE = struct.Struct("<Ixxxxd")
_BODY = struct.Struct("<16s16s16sIIIIQ")
_BODY_OFFSET = _PREAMBLE.size + _USAGE.size
# Enough for nearly every header, so that one read suffices.
HEADER_GUESS_BYTES = 8192


@dataclass(frozen=True, slots=True)
class CacheHeader:
    """What a file says about its blob; `num_bytes` and `checksum` are the blob's.

    A header that was read from a file does not hold the piece's tokens, which stay in the file.
    """

    root: bytes
    parent: bytes
    key: bytes
    start: int
    piece: Piece
    num_bytes: int
    checksum: int = 0
    frequency: int = 0
    cost_per_token: float = 0.0

    @property
    def header_bytes(self) -> int:
        return _header_bytes(self.piece.num_tokens, len(self.piece.documents))

    @property
    def file_bytes(self) -> int:
        return self.header_bytes + self.num_bytes

    def encode(self) -> bytes:
        """Returns the header's bytes; needs the piece's tokens."""
        documents = np.array(sorted(self.piece.documents), "<i8")
        body = _BODY.pack(
            self.root,
            self.parent,
            self.key,
            self.start,
            len(self.piece.tokens),
            len(documents),
            self.checksum,
            self.num_bytes,
        )
        body += packed(self.piece.tokens) + documents.tobytes()
        usage = encode_usage(self.frequency, self.cost_per_token)
        return _PREAMBLE.pack(MAGIC, VERSION, zlib.crc32(body)) + usage + body


def encode_usage(frequency: int, cost_per_token: float) -> bytes:
    """Returns the part that is updated in place, at `USAGE_OFFSET`."""
    return _USAGE.pack(min(frequency, 2**32 - 1), cost_per_token)


def header_length(data: bytes) -> int | None:
    """Returns the length of the header that `data` begins with; None if it is no header of this version."""
    if len(data) < _BODY_OFFSET + _BODY.size or _PREAMBLE.unpack_from(data)[:2] != (MAGIC, VERSION):
        return None
    _, _, _, _, num_tokens, num_documents, _, _ = _BODY.unpack_from(data, _BODY_OFFSET)
    return _header_bytes(num_tokens, num_documents)


def decode(data: bytes) -> CacheHeader | None:
    """Returns the header at the beginning of `data`; None if it is damaged, or its key is not that of its tokens."""
    length = header_length(data)
    if length is None or length > len(data) or zlib.crc32(data[_BODY_OFFSET:length]) != _PREAMBLE.unpack_from(data)[2]:
        return None
    root, parent, key, start, num_tokens, num_documents, checksum, num_bytes = _BODY.unpack_from(data, _BODY_OFFSET)
    at = _BODY_OFFSET + _BODY.size
    end = at + 4 * num_tokens
    documents = frozenset(np.frombuffer(data, "<i8", num_documents, end).tolist()) if num_documents else NO_DOCUMENTS
    piece = Piece(NO_TOKENS, documents, digest_of(data[at:end]), num_tokens)
    frequency, cost = _USAGE.unpack_from(data, USAGE_OFFSET)
    if key_after(parent, piece) != key:
        return None
    usable_cost = cost if 0 <= cost < float("inf") else 0.0
    return CacheHeader(root, parent, key, start, piece, num_bytes, checksum, frequency, usable_cost)


def _header_bytes(num_tokens: int, num_documents: int) -> int:
    return _BODY_OFFSET + _BODY.size + 4 * num_tokens + 8 * num_documents
