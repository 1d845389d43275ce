"""Jupyter notebooks: prose and code by cell, and what the cells printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core import Block, ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import code, markdown
from engine.library.parsers.encoding import clean, decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title

# Results are short; longer outputs are dumps of data.
_MAX_OUTPUT_CHARACTERS = 1000


def parse(path: Path, limits: Limits) -> ParsedDocument:
    try:
        notebook = json.loads(decode(path.read_bytes()))
        cells = [cell for sheet in notebook.get("worksheets", [notebook]) for cell in sheet["cells"]]
        parts = [part for number, cell in enumerate(cells, start=1) for part in _parts(number, cell)]
        title = sane_title(str(notebook.get("metadata", {}).get("title") or ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DocumentUnreadable("The notebook is damaged: its cells cannot be read.") from error
    return ParsedDocument("notebook", title, (_page(parts),), "cell")


def _parts(number: int, cell: dict[str, Any]) -> Iterator[tuple[str, list[Block]]]:
    """Yields the texts of a cell with their blocks; the number of the cell is their line."""
    # Version 3 of the format calls the source of code "input", and has cells for headings.
    source = clean(_text(cell.get("source", cell.get("input", "")))).strip()
    kind = cell.get("cell_type", "code")
    if kind == "heading":
        source = f"{'#' * int(cell.get('level', 1))} {source}"
    is_prose = kind in ("markdown", "heading", "raw")
    if is_prose:
        source = markdown.without_data(source)
    blocks = markdown.blocks(source) if is_prose else code.definitions(source)
    yield source, [replace(block, line=number) for block in blocks]
    for output in cell.get("outputs", ()):
        said = clean(_output(output)).strip()[:_MAX_OUTPUT_CHARACTERS]
        if said:
            yield said, [Block("code", 0, len(said), line=number)]


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", output)
    return _text(data.get("text/plain", data.get("text", "")))


def _text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(map(str, lines))


def _page(parts: list[tuple[str, list[Block]]]) -> ParsedPage:
    blocks: list[Block] = []
    texts: list[str] = []
    length = 0
    for text, inner in parts:
        blocks += (replace(block, start=block.start + length, end=block.end + length) for block in inner)
        texts.append(text)
        length += len(text) + 2
    return ParsedPage(None, "\n\n".join(texts), tuple(blocks))
