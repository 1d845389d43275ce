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
from engine.library.parsers.tex_words import readable
from engine.library.parsers.text import paragraphs

_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
    "frametitle": 3,
}  # fmt: skip
_SECTION = re.compile(rf"\\({'|'.join(_LEVELS)})\*?\s*(?:\[[^\]]*\])?\s*(?=\{{)")
_VERBATIM = re.compile(
    r"\\begin\{(verbatim|lstlisting|minted|Verbatim|alltt)\*?\}(?:\[[^\]]*\])?(?:\{[^}]*\})?(.*?)\\end\{\1\*?\}", re.S
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_TITLE = re.compile(r"\\title\s*(?:\[[^\]]*\])?\s*(?=\{)")
_BODY = re.compile(r"\\begin\s*\{document\}|\\end\s*\{document\}.*", re.S)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text from a line on; `level` makes it a heading, `is_code` leaves it as it is."""

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
        for block in paragraphs(text):
            line = piece.line + text.count("\n", 0, block.start)
            builder.add(
                "paragraph" if block.kind == "heading" else block.kind, text[block.start : block.end], line=line
            )


def _leading_lines(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))


def _pieces(source: str) -> Iterator[_Piece]:
    """Code, headings, and what stands between them."""
    start = 0
    for verbatim in _VERBATIM.finditer(source):
        yield from _prose(source, start, verbatim.start())
        yield _Piece(verbatim[2], _line(source, verbatim.start(2)), is_code=True)
        start = verbatim.end()
    yield from _prose(source, start, len(source))


def _prose(source: str, start: int, end: int) -> Iterator[_Piece]:
    # Without comments; a blank for each sign of them, so that places stay.
    part = _COMMENT.sub(lambda match: " " * len(match[0]), source[start:end])
    body = re.search(r"\\begin\s*\{document\}", source)
    preamble = body.end() - start if body else 0
    at = max(0, min(preamble, len(part)))
    for section in _SECTION.finditer(part, at):
        yield _Piece(part[at : section.start()], _line(source, start + at))
        label, after = argument(part, section.end())
        yield _Piece(label, _line(source, start + section.start()), level=_LEVELS[section[1]])
        at = max(after, section.end())
    yield _Piece(_BODY.sub("", part[at:]), _line(source, start + at))


def _line(source: str, position: int) -> int:
    return source.count("\n", 0, position) + 1


def argument(text: str, start: int) -> tuple[str, int]:
    """What stands in the braces that open at `start`, and where they have closed; all the rest if they never do."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "{}" and text[at - 1 : at] != "\\":
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return text[start + 1 : at], at + 1
    return text[start + 1 :], len(text)
