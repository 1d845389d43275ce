"""The small file that tells after a restart which passages were hot: a line with a checksum, and below it JSON.

It lies beside kept KV and is as much worth: whatever does not check out is as if there were none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from engine.generation.evidence import EvidencePassage

NAME = "hot-passages.json"
MAX_BYTES = 4 * 2**20
_VERSION = 1


def encode(uses: Mapping[EvidencePassage, int]) -> bytes:
    """What is hottest, as much as `MAX_BYTES` have room for; nothing at all of nothing."""
    rows, room_bytes = list[str](), MAX_BYTES - 1024
    for passage, count in sorted(uses.items(), key=lambda item: -item[1]):
        row = json.dumps([count, passage.document_id, passage.title, passage.page, passage.text])
        room_bytes -= len(row) + 1
        if room_bytes < 0:
            break
        rows.append(row)
    if not rows:
        return b""
    body = f'{{"version": {_VERSION}, "passages": [{",".join(rows)}]}}'.encode("ascii")
    return b"%08x\n%b" % (zlib.crc32(body), body)


def decode(content: bytes) -> dict[EvidencePassage, int]:
    """How often passages were used; nothing where the file is damaged, or of another version."""
    checksum, _, body = content.partition(b"\n")
    if len(content) > MAX_BYTES or checksum != b"%08x" % zlib.crc32(body):
        return {}
    try:
        told = json.loads(body)
        if told["version"] != _VERSION:
            return {}
        return {_passage(*row): int(count) for count, *row in told["passages"]}
    except (ValueError, TypeError, KeyError):
        return {}


def _passage(document_id: int, title: str, page: int | None, text: str) -> EvidencePassage:
    return EvidencePassage(int(document_id), str(title), None if page is None else int(page), str(text))
