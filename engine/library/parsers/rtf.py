"""RTF documents: paragraphs, headings, lists and tables, with what is hidden, deleted or only for programs left out.

Not striprtf, because it keeps no structure: headings and lists would be lost, and hidden or deleted text would be
indexed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers.encoding import codepage
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import sane_title
from engine.library.parsers.paragraphs import Paragraphs, Style
from engine.library.parsers.rtf_words import (
    CHARSETS,
    DOCUMENT_CHARSETS,
    KEPT,
    SIGNS,
    SKIPPED,
    Group,
    Word,
    destination,
    groups,
)

_HEADING_STYLE = re.compile(r"heading\s*([1-9])")
_BODY_TEXT_LEVEL = 9
_FALLBACK = "cp1252"
_HIDING = {"v", "deleted"}
# All words that matter here; 95 of 100 words in a file are about looks.
_MEANT = {
    "u", "par", "sect", "page", "\n", "\r", "cell", "nestcell", "row", "nestrow", "ansicpg", "deff", "f", "uc", "plain",
    "pard", "s", "outlinelevel", "intbl", "ls", *SIGNS, *DOCUMENT_CHARSETS, *_HIDING,
}  # fmt: skip


def parse(path: Path, limits: Limits) -> ParsedDocument:
    return read(path.read_bytes())


def read(data: bytes) -> ParsedDocument:
    """Parses the document in these bytes.

    Raises:
        DocumentUnreadable: They are no RTF.
    """
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentUnreadable("The RTF document is damaged: its beginning is missing.")
    reader = _Reader()
    reader.read(groups(data))
    return ParsedDocument("rtf", sane_title(reader.title), (reader.paragraphs.page(),))


@dataclass(frozen=True, slots=True)
class _State:
    """The state inside a group. `codepage` is "" for the document's own; `is_flat`: paragraphs end only lines."""

    codepage: str = ""
    num_stand_ins: int = 1
    is_hidden: bool = False
    is_flat: bool = False
    style: Style = field(default_factory=Style)


@dataclass(slots=True)
class _Text:
    """Text that is decoded from bytes of changing code pages; ASCII too: it may be half of a double-byte character."""

    _said: list[str] = field(default_factory=list)
    _bytes: bytearray = field(default_factory=bytearray)
    _codepage: str = _FALLBACK

    def add(self, data: bytes, codepage: str) -> None:
        if codepage != self._codepage:
            self._decode()
            self._codepage = codepage
        self._bytes += data

    def sign(self, text: str) -> None:
        self._decode()
        self._said.append(text)

    def take(self) -> str:
        self._decode()
        # Characters beyond the basic plane come as two surrogates.
        text = "".join(self._said).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self._said.clear()
        return text

    def _decode(self) -> None:
        if self._bytes:
            self._said.append(self._bytes.decode(self._codepage, "replace"))
            self._bytes.clear()


class _Reader:
    """One pass over the groups of a document."""

    def __init__(self) -> None:
        self.paragraphs = Paragraphs()
        self.title = ""
        self._text = _Text()
        self._document_codepage = _FALLBACK
        self._default_font = 0
        self._codepages: dict[int, str] = {}
        self._styles: dict[int, Style] = {}

    def read(self, root: Group) -> None:
        document = next((item for item in root if isinstance(item, list)), [])
        state = self._items(document, _State())
        self.paragraphs.end(self._text.take(), state.style)
        # Content after a surplus closing brace, which ended the document too early.
        state = self._items([item for item in root if item is not document], state)
        self.paragraphs.end(self._text.take(), state.style)

    def _group(self, group: Group, state: _State) -> None:
        name, is_starred = destination(group)
        if name == "fonttbl":
            self._read_fonts(group)
        elif name == "stylesheet":
            for style in group:
                self._read_style(style)
        elif name == "info":
            self._read_title(group)
        elif name in ("footnote", "shptxt"):
            self.paragraphs.note(self._aside(group, replace(state, style=Style())))
        elif name == "upr":
            # It holds the same text twice: first for old programs, then in Unicode.
            self._items([item for item in group if isinstance(item, list)][-1:], state)
        elif name not in SKIPPED and (not is_starred or name in KEPT):
            self._items(group, state)

    def _aside(self, group: Group, state: _State) -> str:
        """Returns the text of a group that is separate from the paragraph around it."""
        outer, self._text = self._text, _Text()
        self._items(group, replace(state, is_flat=True))
        said, self._text = self._text.take(), outer
        return said

    def _items(self, group: Group, state: _State) -> _State:
        """Processes the items of a group; returns the state at its end."""
        num_to_skip = 0
        for item in group:
            if isinstance(item, bytes):
                self._say(item[num_to_skip:], state)
                num_to_skip = max(0, num_to_skip - len(item))
            elif isinstance(item, Word):
                # Substitutes for old programs are text; a word that follows is not one of them.
                state, num_to_skip = self._word(item, state), state.num_stand_ins if item.name == "u" else 0
            else:
                num_to_skip = 0
                self._group(item, state)
        return state

    def _say(self, data: bytes, state: _State) -> None:
        if data and not state.is_hidden:
            self._text.add(data, state.codepage or self._codepages.get(self._default_font) or self._document_codepage)

    def _word(self, word: Word, state: _State) -> _State:
        name, number = word
        if name not in _MEANT:
            return state
        if name in SIGNS:
            self._sign(SIGNS[name], state)
        elif name == "u" and number is not None:
            self._sign(chr(number & 0xFFFF), state)
        elif name in ("par", "sect", "page", "\n", "\r"):
            self._end_paragraph(state)
        elif name in ("cell", "nestcell"):
            self.paragraphs.end_cell(self._text.take())
        elif name in ("row", "nestrow"):
            self.paragraphs.end_row()
        elif name == "ansicpg" and number:
            self._document_codepage = codepage(number)
        elif name in DOCUMENT_CHARSETS:
            self._document_codepage = DOCUMENT_CHARSETS[name]
        elif name == "deff":
            self._default_font = number or 0
        else:
            return self._changed(name, number, state)
        return state

    def _sign(self, text: str, state: _State) -> None:
        if not state.is_hidden:
            self._text.sign(text)

    def _end_paragraph(self, state: _State) -> None:
        if state.is_flat:
            self._text.sign("\n")
        else:
            self.paragraphs.end(self._text.take(), state.style)

    def _changed(self, name: str, number: int | None, state: _State) -> _State:
        """Returns the state after a word that changes how the following text is read."""
        if name == "f":
            return replace(state, codepage=self._codepages.get(number or 0, ""))
        if name == "uc":
            return replace(state, num_stand_ins=max(0, number or 0))
        if name in _HIDING:
            return replace(state, is_hidden=number != 0)
        if name == "plain":
            return replace(state, is_hidden=False, codepage="")
        return replace(state, style=self._styled(name, number, state.style))

    def _styled(self, name: str, number: int | None, style: Style) -> Style:
        if name == "pard":
            return Style()
        if name == "s":
            return replace(self._styles.get(number or 0, Style()), in_table=style.in_table)
        if name == "outlinelevel" and number is not None:
            return replace(style, level=number + 1 if 0 <= number < _BODY_TEXT_LEVEL else 0)
        if name == "intbl":
            return replace(style, in_table=True)
        return replace(style, is_item=number != 0) if name == "ls" else style

    def _read_fonts(self, table: Group) -> None:
        """Reads the code page of each font."""
        font = 0
        for item in table:
            if isinstance(item, list):
                self._read_fonts(item)
            elif isinstance(item, Word) and item.name == "f":
                font = item.number or 0
            elif isinstance(item, Word) and item.name == "fcharset" and item.number in CHARSETS:
                self._codepages[font] = CHARSETS[item.number]
            elif isinstance(item, Word) and item.name == "cpg" and item.number:
                self._codepages[font] = codepage(item.number)

    def _read_style(self, declared: object) -> None:
        if not isinstance(declared, list) or destination(declared)[1]:
            return
        style, number, name = Style(), 0, b""
        for item in declared:
            if isinstance(item, bytes):
                name += item
            elif isinstance(item, Word) and item.name == "s":
                number = item.number or 0
            elif isinstance(item, Word):
                style = self._styled(item.name, item.number, style)
        said = name.decode("latin-1").strip(" ;").lower()
        heading = _HEADING_STYLE.match(said)
        level = style.level or (int(heading.group(1)) if heading else 0)
        self._styles[number] = replace(style, level=level, is_title=said == "title", in_table=False)

    def _read_title(self, info: Group) -> None:
        for item in info:
            if isinstance(item, list) and destination(item)[0] == "title":
                self.title = self._aside(item, _State())
