"""Compressed RTF: how Outlook keeps the body of a message that was written with formats ([MS-OXRTFCP])."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<IIII")
_COMPRESSED, _PLAIN = 0x75465A4C, 0x414C454D
_WINDOW_BYTES = 4096
_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor "
    rb"MS Sans SerifSymbol"
    rb"ArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def unpacked(data: bytes, max_bytes: int) -> bytes:
    """Returns the RTF, at most `max_bytes` of it; b"" if `data` is no compressed RTF."""
    if len(data) < _HEADER.size:
        return b""
    _, raw_bytes, kind, _ = _HEADER.unpack_from(data)
    if kind == _PLAIN:
        return data[_HEADER.size : _HEADER.size + raw_bytes]
    max_bytes = min(raw_bytes, max_bytes)
    return _expanded(data, max_bytes)[:max_bytes] if kind == _COMPRESSED else b""


def _expanded(data: bytes, max_bytes: int) -> bytes:
    """Expands the packed bytes."""
    window = bytearray(_DICTIONARY.ljust(_WINDOW_BYTES, b"\0"))
    write = len(_DICTIONARY)
    said = bytearray()
    for token in _tokens(data):
        run = token if isinstance(token, bytes) else _run(window, *token, write)
        if not run or len(said) >= max_bytes:
            break
        for byte in run:
            window[write] = byte
            write = (write + 1) % _WINDOW_BYTES
        said += run
    return bytes(said)


def _tokens(data: bytes) -> Iterator[bytes | tuple[int, int]]:
    """Yields literal bytes, and references as offset and length; a byte of flags precedes every eight of them."""
    position = _HEADER.size
    while position < len(data):
        flags = data[position]
        position += 1
        for bit in range(8):
            size = 1 + (flags >> bit & 1)
            token = data[position : position + size]
            if len(token) < size:
                return
            position += size
            yield token if size == 1 else ((token[0] << 4) | token[1] >> 4, (token[1] & 0xF) + 2)


def _run(window: bytearray, offset: int, length: int, write: int) -> bytes:
    """Returns `length` bytes of the window from `offset` on; a run may overlap its own output. b"" marks the end."""
    distance = (write - offset) % _WINDOW_BYTES
    source = bytes(window[(offset + index) % _WINDOW_BYTES] for index in range(min(length, distance)))
    return (source * (-(-length // max(1, len(source)))))[:length]
