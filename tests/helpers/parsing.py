"""What tests read documents with, and what they say about them."""

from __future__ import annotations

from pathlib import Path

from engine.core import ParsedDocument
from engine.library.parsers.pool import ParserPool, PoolLimits


def pool_of(processes: int, seconds: float, memory_bytes: int, ocr_cache: Path | None = None) -> ParserPool:
    """One whose limits stay as they are."""
    limits = PoolLimits(processes, seconds, memory_bytes)
    return ParserPool(lambda: limits, ocr_cache)


def check(document: ParsedDocument) -> None:
    for page in document.pages:
        page.text.encode()
        assert "\0" not in page.text
        end = 0
        for block in page.blocks:
            assert end <= block.start < block.end <= len(page.text)
            assert page.text[block.start : block.end].strip()
            assert (block.level > 0) == (block.kind == "heading")
            end = block.end


def said(document: ParsedDocument, page: int = 0) -> list[tuple[str, str]]:
    """The blocks of a page as (kind, text)."""
    text = document.pages[page].text
    return [(block.kind, text[block.start : block.end]) for block in document.pages[page].blocks]
