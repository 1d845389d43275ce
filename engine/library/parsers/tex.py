"""TeX and LaTeX: sections, paragraphs, items and listings as they would be printed, with their lines in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core import ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder
from engine.library.parsers.tex_words import closed, readable
from engine.library.parsers.text import numbered, paragraphs

_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
    "frametitle": 3,
}  # fmt: skip
_SECTION = re.compile(rf"\\({'|'.join(_LEVELS)})\*?\s*+(?:\[[^\]]*+\]\s*+)?+(?=\{{)")
_VERBATIM_BEGIN = re.compile(r"\\begin\{(verbatim|lstlisting|minted|Verbatim|alltt)\*?\}")
_VERBATIM = re.compile(_VERBATIM_BEGIN.pattern + r"(?:\[[^\]]*\])?(?:\{[^}]*\})?(.*?)\\end\{\1\*?\}", re.S)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_TITLE = re.compile(r"\\title\s*+(?:\[[^\]]*+\]\s*+)?+(?=\{)")
_DOCUMENT = re.compile(r"\\begin\s*\{document\}")
_BODY = re.compile(r"\\begin\s*\{document\}|\\end\s*\{document\}.*", re.S)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the source that begins on `line`; with a `level` it is a heading, with `is_code` it stays as it is."""

    text: str
    line: int
    level: int = 0
    is_code: bool = False


def parse(path: Path, limits: Limits) -> ParsedDocument:
    source = decode(path.read_bytes())
    title = _TITLE.search(source)
    builder = PageBuilder()
    for piece in _pieces(source):
        _add(builder, piece)
    said = " ".join(readable(argument(source, title.end())[0]).split()) if title else ""
    return ParsedDocument("tex", said, (builder.page(),), "line")


def _add(builder: PageBuilder, piece: _Piece) -> None:
    if piece.is_code:
        builder.add("code", piece.text.strip("\n"), line=piece.line + _leading_lines(piece.text))
    elif piece.level:
        builder.add("heading", " ".join(readable(piece.text).split()), piece.level, piece.line)
    else:
        text = readable(piece.text)
        for block in numbered(text, paragraphs(text)):
            kind = "paragraph" if block.kind == "heading" else block.kind
            builder.add(kind, text[block.start : block.end], line=piece.line + block.line - 1)


def _leading_lines(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))


class _Lines:
    """Finds the line of a position in a source; fast if positions are asked for from front to back."""

    def __init__(self, source: str) -> None:
        self._source, self._place, self._line = source, 0, 1

    def of(self, place: int) -> int:
        if place < self._place:
            self._place, self._line = 0, 1
        self._line += self._source.count("\n", self._place, place)
        self._place = place
        return self._line


def _pieces(source: str) -> Iterator[_Piece]:
    """Yields code, headings, and the text between them."""
    body, lines = _DOCUMENT.search(source), _Lines(source)
    preamble, start = body.end() if body else 0, 0
    for verbatim in closed(_VERBATIM, _VERBATIM_BEGIN, source):
        yield from _prose(source, start, verbatim.start(), preamble, lines)
        yield _Piece(verbatim[2], lines.of(verbatim.start(2)), is_code=True)
        start = verbatim.end()
    yield from _prose(source, start, len(source), preamble, lines)


def _prose(source: str, start: int, end: int, preamble: int, lines: _Lines) -> Iterator[_Piece]:
    """Yields the part of `source[start:end]` that is after the preamble."""
    # Comments are replaced by blanks, so that positions stay the same.
    part = _COMMENT.sub(lambda match: " " * len(match[0]), source[start:end])
    at = max(0, min(preamble - start, len(part)))
    for section in _SECTION.finditer(part, at):
        yield _Piece(part[at : section.start()], lines.of(start + at))
        label, after = argument(part, section.end())
        yield _Piece(label, lines.of(start + section.start()), level=_LEVELS[section[1]])
        at = max(after, section.end())
    yield _Piece(_BODY.sub("", part[at:]), lines.of(start + at))


def argument(text: str, start: int) -> tuple[str, int]:
    """Returns the text in the braces that open at `start`, and the position after them; all the rest if unclosed."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "{}" and text[at - 1 : at] != "\\":
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return text[start + 1 : at], at + 1
    return text[start + 1 :], len(text)
