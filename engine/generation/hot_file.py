"""The small file that preserves over a restart what was hot, and what preceded it: a checksum line, and JSON.

It is next to kept KV and just as expendable: a file that fails a check counts as none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.generation.evidence import EvidencePassage

NAME = "hot-passages.json"
MAX_BYTES = 4 * 2**20
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Hot:
    """How many prompts each passage was in, and the tokens that each model's prompts began with, by its fingerprint."""

    uses: Mapping[EvidencePassage, int] = field(default_factory=dict)
    openings: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def encode(hot: Hot) -> bytes:
    """Returns the file with the hottest passages, as many as fit into `MAX_BYTES`; empty for none."""
    openings = json.dumps(hot.openings)
    rows, room_bytes = list[str](), MAX_BYTES - 1024 - len(openings)
    for passage, count in sorted(hot.uses.items(), key=lambda item: -item[1]):
        row = json.dumps([count, passage.document_id, passage.title, passage.page, passage.text])
        room_bytes -= len(row) + 1
        if room_bytes < 0:
            break
        rows.append(row)
    if not rows:
        return b""
    body = f'{{"version": {_VERSION}, "openings": {openings}, "passages": [{",".join(rows)}]}}'.encode("ascii")
    return b"%08x\n%b" % (zlib.crc32(body), body)


def decode(content: bytes) -> Hot:
    """Returns what was written; empty if the file is damaged, or of another version."""
    checksum, _, body = content.partition(b"\n")
    if len(content) > MAX_BYTES or checksum != b"%08x" % zlib.crc32(body):
        return Hot()
    try:
        told = json.loads(body)
        if told["version"] != _VERSION:
            return Hot()
        # Older files have no openings.
        openings = {str(name): tuple(map(int, tokens)) for name, tokens in told.get("openings", {}).items()}
        return Hot({_passage(*row): int(count) for count, *row in told["passages"]}, openings)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Hot()


def _passage(document_id: int, title: str, page: int | None, text: str) -> EvidencePassage:
    return EvidencePassage(int(document_id), str(title), None if page is None else int(page), str(text))
