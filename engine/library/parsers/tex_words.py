"""TeX's commands taken off a text: what would be printed, on the same lines; formulas stay as they are written.

No macro is expanded: formatting commands are replaced by their content, commands for programs are removed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

# Commands whose arguments are not printed.
_DROPPED = re.compile(
    r"\\(?:label|ref|eqref|pageref|autoref|[cC]ref|cite\w*|nocite|vspace|hspace|includegraphics|input|include"
    r"|bibliography|bibliographystyle|usepackage|documentclass|setlength|addtolength|setcounter|pagestyle|thispagestyle"
    r"|newcommand|renewcommand|providecommand|definecolor|hypersetup|index|graphicspath|geometry|phantom|color|fontsize"
    r"|selectfont|newtheorem|addcontentsline|markboth)\b\*?\s*(?:\[[^\[\]]*\]|\{[^{}]*\}|\s(?=[\[{]))*"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\[[^\[\]]*\])?(?:\{[lcrp|@!<>*\d.\s{}\\a-z]*?\}(?=\s*\n))?")
_LINKED = re.compile(r"\\href\s*\{[^{}]*\}\s*\{([^{}]*)\}|\\textcolor\s*\{[^{}]*\}\s*\{([^{}]*)\}")
_HOLDING = re.compile(r"\\[a-zA-Z]++\*?+\s*+(?:\[[^\[\]\n]*+\]\s*+)?+\{([^{}]*+)\}")
_ITEM = re.compile(r"\\item\b[ \t]*(?:\[([^\]]*)\])?")
_BARE = re.compile(r"\\(?:[a-zA-Z]+\*?[ \t]*|[,;:!/ ]|\\(?:\[[^\]\n]*\])?)")
_ESCAPED = re.compile(r"\\([#$%&_{}])")
_ACCENT = re.compile(
    r"\\([\"'`^~=.])\s*(?:\{\\?([a-zA-Z])\}|\\?([a-zA-Z]))|\\([cHuvr])(?:\s*\{([a-zA-Z])\}|\s+([a-zA-Z])\b)"
)
_COMBINING = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "H": "\u030b", "u": "\u0306", "v": "\u030c", "r": "\u030a",
}  # fmt: skip
_LETTERS = {r"\ss": "ß", r"\ae": "æ", r"\AE": "Æ", r"\oe": "œ", r"\OE": "Œ", r"\o": "ø", r"\O": "Ø", r"\l": "ł",
            r"\L": "Ł", r"\aa": "å", r"\AA": "Å", r"\ldots": "…", r"\dots": "…", r"\LaTeX": "LaTeX", r"\TeX": "TeX",
            r"\textendash": "–", r"\textemdash": "—", r"\S": "§", r"\euro": "€", r"\copyright": "©"}  # fmt: skip
_LETTER = re.compile(
    rf"(?:{'|'.join(re.escape(name) for name in sorted(_LETTERS, key=len, reverse=True))})(?![a-zA-Z])(?:\{{\}}|[ \t])?"
)
_MATH = re.compile(r"\$\$.*?\$\$|(?<!\\)\$[^$]*?(?<!\\)\$|\\\[.*?\\\]|\\\(.*?\\\)|"
                   r"\\begin\{(equation|align|gather|multline|eqnarray)\*?\}.*?\\end\{\1\*?\}", re.S)  # fmt: skip
_MATH_BEGIN = re.compile(r"\$|\\\[|\\\(|\\begin\{(equation|align|gather|multline|eqnarray)\*?\}")
_ENDS = {r"\[": (r"\]",), r"\(": (r"\)",)}
# Nested braces are removed from the inside, one layer each time.
_MAX_LAYERS = 12
_PRINTED = {"{": "", "}": "", "~": " ", "``": "“", "''": "”", "---": "—", "--": "–", "&": "|"}
# Escaped signs are moved to this private range meanwhile.
_ASIDE = 0xE100
_SET_ASIDE = re.compile("[\ue100-\ue17f]")
_FORMULA = re.compile("\ue000(\\d+)\ue001")


def readable(text: str) -> str:
    """Returns the text as it would be printed, on the same lines; formulas stay as they are."""
    formulas: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        formulas.append(match[0])
        return f"\ue000{len(formulas) - 1}\ue001"

    text = _replaced(text, closed(_MATH, _MATH_BEGIN, text), put_aside)
    # Protects escaped signs (\\%) while commands and braces are removed.
    text = _ESCAPED.sub(lambda match: chr(_ASIDE + ord(match[1])), text)
    text = _LETTER.sub(lambda match: _LETTERS[match[0].rstrip("{} \t")], text)
    text = _ACCENT.sub(_accented, text)
    for _ in range(_MAX_LAYERS):
        before = text
        text = _DROPPED.sub(_line_ends, text)
        text = _LINKED.sub(lambda match: match[1] or match[2] or "", text)
        text = _ENVIRONMENT.sub(_line_ends, text)
        text = _HOLDING.sub(lambda match: match[1] + "\n" * (match[0].count("\n") - match[1].count("\n")), text)
        if text == before:
            break
    text = _ITEM.sub(lambda match: f"- {match[1]}: " if match[1] else "- ", text)
    text = _BARE.sub(lambda match: " " if match[0].startswith("\\\\") else "", text)
    for written, printed in _PRINTED.items():
        text = text.replace(written, printed)
    text = _SET_ASIDE.sub(lambda match: chr(ord(match[0]) - _ASIDE), text)
    text = _FORMULA.sub(lambda match: formulas[int(match[1])], text)
    return re.sub(r"[ \t]+", " ", text)


def closed(whole: re.Pattern[str], begin: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    r"""Yields what `whole` finds at each match of `begin`, whose first group is the name of an environment.

    If no end follows in the whole text, it is not searched for again: `\\[2pt]` ends a line and begins no formula.
    """
    last: dict[str, int] = {}
    at = 0
    while (begun := begin.search(text, at)) is not None:
        sign = begun[1] or begun[0]
        if sign not in last:
            ends = _ENDS.get(sign, (f"\\end{{{sign}}}", f"\\end{{{sign}*}}") if begun[1] else ())
            last[sign] = max(map(text.rfind, ends), default=len(text))
        match = whole.match(text, begun.start()) if begun.end() <= last[sign] else None
        if match is not None:
            yield match
        at = match.end() if match is not None else begun.start() + 1


def _replaced(text: str, matches: Iterable[re.Match[str]], by: Callable[[re.Match[str]], str]) -> str:
    pieces, at = list[str](), 0
    for match in matches:
        pieces += [text[at : match.start()], by(match)]
        at = match.end()
    return "".join((*pieces, text[at:]))


def _line_ends(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _accented(match: re.Match[str]) -> str:
    accent, letter = match[1] or match[4], match[2] or match[3] or match[5] or match[6]
    return unicodedata.normalize("NFC", letter + _COMBINING[accent])
