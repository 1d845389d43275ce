"""Passages for tests of what reads them."""

from __future__ import annotations

from engine.core import Passage


def passage(text: str, *, document_id: int = 1, start: int = 0, page: int | None = None, score: float = 1.0) -> Passage:
    return Passage(
        row_id=f"{document_id}-{start}",
        document_id=document_id,
        document=f"/docs/{document_id}.txt",
        ordinal=0,
        page=page,
        start=start,
        end=start + len(text),
        heading="",
        text=text,
        score=score,
    )
