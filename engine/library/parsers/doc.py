"""Old Word documents (.doc, Word 97 to 2003): headings, paragraphs, list items and tables, without fields' code."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import encrypted, remarks
from engine.library.parsers.compound import Compound, opened
from engine.library.parsers.doc_structure import Structure, is_encrypted, table_name
from engine.library.parsers.limits import Limits
from engine.library.parsers.paragraphs import Paragraphs, Style

_MARK = re.compile(r"[\r\x07\x0c]")
_CELL_END = "\x07"
_COMMENT_MARK = "\x05"
_FIELD_BEGIN, _FIELD_SEPARATOR, _FIELD_END = "\x13", "\x14", "\x15"
# Placeholders of pictures, note numbers, drawings and comments, and hyphens that only break words, are dropped.
_SIGNS = {**dict.fromkeys(map(ord, "\x00\x01\x02\x03\x04\x05\x08\x1f")), 0x0B: "\n", 0x0E: "\n", 0x1E: "-"}


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, "The Word document") as file:
        main = file.data("WordDocument") or b""
        if not is_encrypted(main):
            return ParsedDocument("doc", file.title(), (_page(file, main),))
    return encrypted.parse(path, limits)


def _page(file: Compound, main: bytes) -> ParsedPage:
    table = file.data(table_name(main))
    if table is None:
        raise DocumentUnreadable("The Word document is damaged: its tables are missing.")
    structure = Structure(main, table)
    writer = _Writer(structure)
    for start, end in structure.shown():
        writer.write(start, min(end, len(structure.text)))
    writer.comment(*structure.comments())
    return writer.paragraphs.page()


class _Writer:
    """Writes spans of the text, paragraph by paragraph."""

    def __init__(self, structure: Structure) -> None:
        self.paragraphs = Paragraphs()
        self._structure = structure
        # For each open field: whether its code or its result is being read.
        self._fields: list[str] = []

    def write(self, start: int, end: int) -> None:
        text = self._structure.text
        for mark in _MARK.finditer(text, start, end):
            self._end(self._visible(text[start : mark.start()]), mark)
            start = mark.end()
        if start < end:
            self.paragraphs.end(self._visible(text[start:end]), self._structure.paragraph(end - 1).style)

    def comment(self, start: int, end: int) -> None:
        """Writes the comments in a span, without authors: the file keeps only their initials, elsewhere."""
        for text in self._structure.text[start:end].split(_COMMENT_MARK):
            said = remarks.comment("", self._visible(_MARK.sub(" ", text)))
            if said:
                self.paragraphs.end(said, Style())

    def _end(self, text: str, mark: re.Match[str]) -> None:
        paragraph = self._structure.paragraph(mark.start())
        if paragraph.is_row_end:
            self.paragraphs.end_row()
        elif mark.group() == _CELL_END:
            self.paragraphs.end_cell(text)
        elif not paragraph.is_contents:
            self.paragraphs.end(text, paragraph.style)

    def _visible(self, text: str) -> str:
        """Returns the text without the code of fields; a field may begin in one paragraph and end in another."""
        if self._fields or _FIELD_BEGIN in text:
            text = "".join(sign for sign in text if self._is_shown(sign))
        return text.translate(_SIGNS).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _is_shown(self, sign: str) -> bool:
        if sign == _FIELD_BEGIN:
            self._fields.append("code")
        elif sign == _FIELD_SEPARATOR and self._fields:
            self._fields[-1] = "result"
        elif sign == _FIELD_END and self._fields:
            self._fields.pop()
        else:
            return "code" not in self._fields
        return False
