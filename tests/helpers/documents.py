"""Writes small Word documents through python-docx, which our own reader does not use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import docx


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Item:
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    rows: Sequence[Sequence[str]]


def write_docx(path: Path, *parts: str | Heading | Item | Table, title: str = "") -> Path:
    """A Word document of these parts in order; a str is a paragraph. Heading level 0 is Word's "Title"."""
    document = docx.Document()
    document.core_properties.title = title
    for part in parts:
        if isinstance(part, Heading):
            document.add_heading(part.text, part.level)
        elif isinstance(part, Item):
            document.add_paragraph(part.text, style="List Bullet")
        elif isinstance(part, Table):
            _add_table(document, part)
        else:
            document.add_paragraph(part)
    document.save(str(path))
    return path


def _add_table(document, table: Table) -> None:
    grid = document.add_table(rows=len(table.rows), cols=len(table.rows[0]))
    for row, texts in zip(grid.rows, table.rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
