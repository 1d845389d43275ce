"""Well-formed text: lone surrogates are replaced, because neither database accepts them.

A parser may hand on halves of characters beyond U+FFFF ("lone surrogates") that it found written in a file.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.core import Chunk, ReadDocument
from engine.errors import DocumentUnreadable

_HALF = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def well_formed(text: str) -> str:
    """Replaces each lone surrogate with U+FFFD; the length stays, so that positions in the text stay valid."""
    return _HALF.sub(_REPLACEMENT, text)


def well_formed_document(read: ReadDocument) -> ReadDocument:
    """Returns the document with all its texts made well-formed."""
    return replace(
        read,
        title=well_formed(read.title),
        remark=well_formed(read.remark),
        chunks=tuple(map(_well_formed_chunk, read.chunks)),
    )


def well_formed_error(error: DocumentUnreadable) -> DocumentUnreadable:
    """Returns the error with its sentences made well-formed."""
    return type(error)(well_formed(error.sentence), well_formed(error.way_out))


def _well_formed_chunk(chunk: Chunk) -> Chunk:
    # Nearly all chunks are well-formed already.
    if not _HALF.search(chunk.text + chunk.heading + chunk.place):
        return chunk
    return replace(
        chunk, text=well_formed(chunk.text), heading=well_formed(chunk.heading), place=well_formed(chunk.place)
    )
