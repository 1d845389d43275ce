"""Markdown as a list of blocks that only changes at its end, so that streaming re-renders the tail alone.

CommonMark never reopens a closed block: text appended to a document can change its last top-level block and
add new ones, nothing before. So everything up to the last block is *sealed* and never parsed again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from app.widgets.formula import html_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BlockKind = Literal["prose", "code"]
CITE_SCHEME = "cite"
_LINE_END = re.compile(r"\r\n|\n|\r")
# What the engine reads as citations (engine/generation/citations.py): "[1]", "[1, 2]", "【1】", but not a link's text.
_OPENERS = "[【"
_CITATION = re.compile(r"(?<![_`])(?<![^\W\d]\d)(?<![^\W\d]\d\d)[\[【]\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*[\]】](?!\()")
_NUMBER = re.compile(r"\d+")
_NUM_PASSAGES = "num_passages"
# LaTeX: `\(…\)`, `\[…\]`, `$$…$$`, `$…$`, in which a backslash belongs to what follows it. Single signs also mark
# prices and variables, as in "${A_B}, **$C**", "$A_B ($C)" and "$5 (+5%), A$ 6".
_FORMULA = re.compile(
    r"\\\((?P<round>(?:[^\\]|\\[^()])++)\\\)"
    r"|\\\[(?P<square>(?:[^\\]|\\[^\[\]])++)\\\]"
    r"|\$\$(?P<displayed>(?:[^$\\]|\\.|\$(?!\$))++)\$\$"
    r"|(?<![A-Za-z0-9])\$(?![\s$])(?P<single>(?:[^$\\\n]|\\.)++)(?<![\s(*=])\$(?![A-Za-z_{(]|\s?\d)",
    re.DOTALL,
)
# The marks that begin a formula over several lines, and those that end it.
_FORMULA_BLOCK = {"$$": "$$", "\\[": "\\]"}
# Without any of these, "\[sic\]" is a word in brackets, and "$5/A$" a price.
_FORMULA_SIGN = re.compile(r"[\\^_=+]")
_PROSE_WORD = re.compile(r"(?<!\S)[^\W\d_]{2,}(?![^\s.,;:])")
# The degree of a root, and an interval.
_FORMULA_BRACKET = re.compile(r"\\(?:in\s+|[A-Za-z]+)\[[^\[\]]*\]")
# Not a plain thin space: a full stop must not be left alone on the next line.
_HAIR = "\N{NARROW NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Block:
    """One top-level block: HTML for prose; the bare text and its language for code."""

    kind: BlockKind
    content: str
    language: str = ""


def tokens_of(text: str, num_passages: int | None) -> list[Token]:
    """Returns the parser's tokens of a whole text."""
    return _parser().parse(text, {_NUM_PASSAGES: num_passages})


def blocks_of(text: str, num_passages: int | None) -> list[Block]:
    """Returns the blocks of a whole text."""
    return [block for _, block in _parse(text, num_passages)]


class MarkdownStream:
    """Owns the text so far and its blocks.

    `num_passages` is how many passages further text may cite: a higher number is shown as it is; None: any number may
    be a citation. `num_parsed_chars` counts every character passed to the parser; tests check with it that only the
    tail is parsed.
    """

    def __init__(self) -> None:
        self.num_passages: int | None = None
        self._parsed_for: int | None = None
        self._text = ""
        self._sealed_chars = 0
        self._sealed: list[Block] = []
        self._tail: list[Block] = []
        self.num_parsed_chars = 0

    @property
    def text(self) -> str:
        return self._text

    @property
    def blocks(self) -> list[Block]:
        return self._sealed + self._tail

    def append(self, piece: str) -> int:
        """Adds text; returns the index of the first block that may differ from before."""
        first_changed = len(self._sealed)
        self._text += piece
        self._parse_tail()
        return first_changed

    def replace(self, text: str) -> int:
        """Takes a whole text; returns the index of the first block that may differ from before."""
        if text.startswith(self._text) and self._parsed_for == self.num_passages:
            return self.append(text[len(self._text) :])
        self._text, self._sealed_chars, self._sealed, self._tail = "", 0, [], []
        self._parsed_for = self.num_passages
        self.append(text)
        return 0

    def _parse_tail(self) -> None:
        tail = self._text[self._sealed_chars :]
        self.num_parsed_chars += len(tail)
        parsed = _parse(tail, self.num_passages)
        if len(parsed) > 1:
            self._sealed += [block for _, block in parsed[:-1]]
            self._sealed_chars += _line_start(tail, parsed[-1][0])
        self._tail = [block for _, block in parsed[-1:]]


def _parse(text: str, num_passages: int | None) -> list[tuple[int, Block]]:
    """Returns the top-level blocks of `text`, each with the line at which it starts."""
    groups = _groups(tokens_of(text, num_passages))
    return [(first_line, _block(group)) for first_line, group in groups]


def _line_start(text: str, line: int) -> int:
    """Returns the offset at which a line (0-based) starts, with CommonMark's line ends."""
    ends = (found.end() for found in _LINE_END.finditer(text))
    return next(islice(ends, line - 1, None)) if line else 0


def _groups(tokens: Sequence[Token]) -> list[tuple[int, list[Token]]]:
    groups: list[tuple[int, list[Token]]] = []
    depth = 0
    for token in tokens:
        if depth == 0 and token.nesting >= 0:
            groups.append((token.map[0] if token.map else 0, []))
        groups[-1][1].append(token)
        depth += token.nesting
    return groups


def _block(tokens: list[Token]) -> Block:
    first = tokens[0]
    if first.type in ("fence", "code_block"):
        return Block("code", first.content.rstrip("\n"), first.info.strip().split(" ")[0])
    parser = _parser()
    return Block("prose", parser.renderer.render(tokens, parser.options, {}).rstrip())


@cache
def _parser() -> MarkdownIt:
    # Imported at the first answer, not at the first paint.
    from markdown_it import MarkdownIt

    # `breaks`, because models mean their line breaks: a list of sources, an address, a poem.
    options = {"html": False, "linkify": False, "breaks": True}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    # "[1]: 1,200" is a citation, not the definition of a link, which would not be shown.
    parser.disable("reference")
    for opener in (*_OPENERS, "$"):
        parser.inline.add_terminator_char(opener)
    parser.inline.ruler.before("link", "citation", _citation_rule)
    parser.inline.ruler.before("escape", "formula", _formula_rule)
    interrupted = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "formula_block", _formula_block_rule, {"alt": interrupted})
    parser.add_render_rule("citation", _render_citation)
    parser.add_render_rule("formula", _render_formula)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("s_open", lambda *_: "<s>")
    return parser


def _citation_rule(state: Any, silent: bool) -> bool:
    """Makes a citation token of each number of "[3]" or "[1, 2]"; none if no passage has such a number."""
    found = _CITATION.match(state.src, state.pos) if state.src[state.pos] in _OPENERS else None
    if found is None:
        return False
    most = state.env.get(_NUM_PASSAGES)
    numbers = [int(number) for number in _NUMBER.findall(found[0])]
    if not any(_is_passage(number, most) for number in numbers):
        return False
    for number in numbers if not silent else ():
        if _is_passage(number, most):
            state.push("citation", "", 0).content = str(number)
        else:
            state.push("text", "", 0).content = f"[{number}]"
    state.pos = found.end()
    return True


def _formula_block_rule(state: Any, start: int, end: int, silent: bool) -> bool:
    """Makes a paragraph of lines that are a formula, so that no line in it is read as a list or a heading.

    It ends at its end mark or at an empty line, so that a growing text changes nothing before it.
    """
    if state.is_code_block(start):
        return False
    first = _line(state, start)
    mark = _FORMULA_BLOCK.get(first[:2])
    if mark is None or first[2:3] == "$" or mark in first[2:]:
        return False
    if silent:
        return True
    last = start + 1
    while last < end and not state.isEmpty(last) and state.sCount[last] >= state.blkIndent:
        last += 1
        if mark in _line(state, last - 1):
            break
    state.line = last
    # Not a paragraph, because inside a list that would not have its own line.
    state.push("displayed_open", "p", 1).map = [start, last]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, last, state.blkIndent, False).strip()
    inline.map, inline.children = [start, last], []
    state.push("displayed_close", "p", -1)
    return True


def _line(state: Any, number: int) -> str:
    return str(state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]])


def _formula_rule(state: Any, silent: bool) -> bool:
    """Makes a token of a formula, or text if it is shown as it was written; Markdown in it is not interpreted."""
    found = _FORMULA.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "\\$" else None
    if found is None or not _is_formula(found, state.env.get(_NUM_PASSAGES)):
        return False
    if not silent:
        _push_formula(state, found)
    state.pos = found.end()
    return True


def _push_formula(state: Any, found: re.Match[str]) -> None:
    html = html_of(found[found.lastgroup or 0])
    if html is not None:
        token = state.push("formula", "", 0)
        token.content, token.meta = found[0], {"html": html}
        return
    for place, line in enumerate(found[0].split("\n")):
        if place:
            state.push("softbreak", "br", 0)
        state.push("text", "", 0).content = line.strip()


def _is_formula(found: re.Match[str], most: int | None) -> bool:
    """Returns whether it is a formula; False if in doubt: a lost backslash matters less than a lost citation."""
    kind = found.lastgroup or ""
    inner = found[kind].strip()
    if "`" in inner or "**" in inner:
        return False
    if any(_is_cited(cited[0], most) for cited in _CITATION.finditer(_FORMULA_BRACKET.sub("", inner))):
        return False
    if kind == "single" and "\\" not in inner and _PROSE_WORD.search(inner):
        return False
    is_symbol = kind == "round" and len(inner) == 1
    return kind == "displayed" or is_symbol or _FORMULA_SIGN.search(inner) is not None


def _is_cited(citation: str, most: int | None) -> bool:
    return any(_is_passage(int(number), most) for number in _NUMBER.findall(citation))


def _is_passage(number: int, most: int | None) -> bool:
    return number >= 1 and (most is None or number <= most)


def _render_citation(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return citation_html(int(tokens[index].content))


def _render_formula(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return str(tokens[index].meta["html"])


def citation_html(number: int) -> str:
    """Returns a chip for passage `number` (1-based); prose.py paints its background."""
    return f'<a class="cite" href="{CITE_SCHEME}:{number}">{_HAIR}{number}{_HAIR}</a>'


def _render_image(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    # Nothing is ever loaded: a picture is its caption.
    return f"<i>{escape(tokens[index].content)}</i>"
