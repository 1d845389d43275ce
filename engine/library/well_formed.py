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
    """The text with U+FFFD for each half of a character: as long as before, so that places in it stay true."""
    return _HALF.sub(_REPLACEMENT, text)


def well_formed_document(read: ReadDocument) -> ReadDocument:
    """What was read, its words for people made well-formed."""
    return replace(
        read,
        title=well_formed(read.title),
        remark=well_formed(read.remark),
        chunks=tuple(map(_well_formed_chunk, read.chunks)),
    )


def well_formed_error(error: DocumentUnreadable) -> DocumentUnreadable:
    """The refusal, its words made well-formed."""
    return type(error)(well_formed(error.sentence), well_formed(error.way_out))


def _well_formed_chunk(chunk: Chunk) -> Chunk:
    # Nearly all are: they are returned as they are.
    if not _HALF.search(chunk.text + chunk.heading + chunk.place):
        return chunk
    return replace(
        chunk, text=well_formed(chunk.text), heading=well_formed(chunk.heading), place=well_formed(chunk.place)
    )
