"""What tests say about parsed documents."""

from __future__ import annotations

from engine.core import ParsedDocument


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
