r"""Formulas in LaTeX as HTML that Qt can show: letters, signs, scripts, fractions and roots on one line.

Models write `\(x^2 \le \frac{a}{b}\)`, which few people can read. Stacked parts are put side by side, with brackets
where needed. Anything unknown (matrices, cases, macros) is left as it was written, because a readable source is better
than a wrong formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape

from app.widgets.formula_signs import (
    ACCENTS,
    FUNCTIONS,
    GREEK,
    OPERATORS,
    RELATIONS,
    SIGNS,
    SILENT,
    SPACES,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    double_struck,
)

_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|[{}^_&~']|\s+|\d+(?:[.,]\d+)*|.", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{(?:aligned|align|equation|gather|gathered|split)\*?\}(?:\[[tbc]\])?")
_UPRIGHT = frozenset({"text", "textrm", "mathrm", "operatorname", "operatorname*", "textnormal", "mbox", "textit"})
_BOLD = frozenset({"mathbf", "boldsymbol", "bm", "textbf", "boxed"})
_FRACTIONS = frozenset({"frac", "dfrac", "tfrac", "cfrac"})
_BINARY = {"+": "+", "-": "−", "*": "∗"}
_RELATION = {"=": "=", "<": "<", ">": ">", ":": ":"}
_ESCAPED = {"\\%": "%", "\\$": "$", "\\#": "#", "\\&": "&", "\\_": "_", "\\{": "{", "\\}": "}", "\\|": "‖"}
_DISTANCE = re.compile(r"\[-?[\d.]+\s*(?:pt|em|ex|mm|cm)\]")
_THIN = "\u2009"
# What needs no brackets below a fraction bar although it has several parts: a differential, a function.
_BINDS = re.compile(r"[d∂]\w[²³]?|[fghFGP]′*\([^()]*\)")
_NUMBERS = re.compile(r"\d+/\d+")
# No real formula is nested deeper.
_MOST_DEPTH = 12
_MOST_CHARACTERS = 4_000


class _Unknown(Exception):
    """Something that is shown only as it was written."""


@dataclass(frozen=True, slots=True)
class _Part:
    """HTML, and the same as plain text; `kind` decides the spaces around it, and whether it needs brackets.

    One of "atom", "number", "words", "fraction", "root", "function", "operator", "sign", "relation", "opening",
    "closing", "comma", "large", "space", "break", and "compound" for several of them.
    """

    html: str
    plain: str
    kind: str = "atom"


@lru_cache(maxsize=256)
def html_of(source: str) -> str | None:
    """Returns the source between a formula's marks as HTML; None if it has to be shown as it was written."""
    if len(source) > _MOST_CHARACTERS:
        return None
    try:
        tokens = _TOKEN.findall(_ENVIRONMENT.sub("", source).strip())
        return _joined(_Reader(tokens).read_until("")).html or None
    except (_Unknown, RecursionError):
        return None


class _Reader:
    """Reads tokens once, from the first to the last."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0
        # The column marks (&) of the present row.
        self._num_marks = 0

    def read_until(self, end: str) -> list[_Part]:
        """Returns the parts up to `end`, which is consumed; "" for the end of the source."""
        self._go_deeper()
        parts = list[_Part]()
        scripts = set[str]()
        while (token := self._next()) != end:
            if token == "":
                raise _Unknown
            if token in ("^", "_", "'"):
                # Two scripts of the same kind in one place are ambiguous.
                if token in scripts:
                    raise _Unknown
                scripts |= {token} - {"'"}
                self._put_script(parts, token)
            elif new := self._parts(token):
                parts += new
                scripts.clear()
        self._depth -= 1
        return parts

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise _Unknown

    def _next(self) -> str:
        """Returns the next token; "" at the end."""
        if self._place >= len(self._tokens):
            return ""
        self._place += 1
        return self._tokens[self._place - 1]

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _argument(self) -> list[_Part]:
        """Returns the parts in braces, or the next part."""
        token = self._next()
        while token.isspace():
            token = self._next()
        if token == "{":
            return self.read_until("}")
        # In "x^10" LaTeX takes only the 1, but the writer meant both.
        if token in ("", "}", "^", "_", "&", "'") or (token.isdecimal() and len(token) > 1):
            raise _Unknown
        self._go_deeper()
        parts = self._parts(token)
        self._depth -= 1
        return parts

    def _split_digits(self) -> None:
        """Splits a number into two arguments: "frac12" is a half."""
        token = self._peek()
        if token.isdecimal() and len(token) > 1:
            self._tokens[self._place : self._place + 1] = [token[0], token[1:]]

    def _skip_distance(self) -> None:
        """Skips the distance to the next line, which may follow a line's end in square brackets."""
        found = _DISTANCE.match("".join(self._tokens[self._place : self._place + 8]))
        while found is not None and self._next() != "]":
            pass

    def _words(self) -> str:
        """Returns an argument that is text, with its spaces."""
        if self._next() != "{":
            raise _Unknown
        words = list[str]()
        while (token := self._next()) != "}":
            if token in ("", "{", "^", "_") or (token.startswith("\\") and token not in _ESCAPED and token != "\\ "):
                raise _Unknown
            words.append(_ESCAPED.get(token, {"\\ ": " ", "~": "\u00a0"}.get(token, token)))
        return "".join(words)

    def _put_script(self, parts: list[_Part], token: str) -> None:
        # A prime, or a script of nothing, as in "{}^{14}C".
        before = parts.pop() if parts and parts[-1].kind in _CARRIES else _Part("", "")
        if before.kind in ("fraction", "root", "compound"):
            before = _in_brackets(before)
        if token == "'":
            parts.append(_Part(f"{before.html}′", f"{before.plain}′", before.kind))
            return
        script = _joined(self._argument(), is_tight=True)
        if not script.plain or "<sup>" in script.html or "<sub>" in script.html:
            # Qt would show a script of a script like a simple one.
            raise _Unknown
        small = script.plain.translate(SUPERSCRIPTS if token == "^" else SUBSCRIPTS)
        mark = "sup" if token == "^" else "sub"
        # Unicode scripts survive being copied.
        has_signs = not any(sign in small for sign in script.plain) and "<b>" not in script.html
        html = escape(small) if has_signs else f"<{mark}>{script.html}</{mark}>"
        plain = small if has_signs else f"{token}({script.plain})"
        if script.plain in ("∘", "°") and token == "^":
            html = plain = "°"
        parts.append(_Part(before.html + html, before.plain + plain, before.kind))

    def _parts(self, token: str) -> list[_Part]:
        """Returns a token with its arguments, or the content of a group, because braces show nothing."""
        if token == "{":
            parts = self.read_until("}")
            # A single sign in braces has no spaces around it: "1{,}024".
            return [replace(parts[0], kind="atom")] if len(parts) == 1 and parts[0].kind in _SPACED else parts
        if token == "}":
            raise _Unknown
        if token == "&":
            # Every other mark aligns lines, the others separate columns.
            self._num_marks += 1
            return [] if self._num_marks % 2 else [_Part(SPACES["quad"], SPACES["quad"], "space")]
        if token == "~":
            return [_Part(SPACES["~"], SPACES["~"], "space")]
        if token.isspace():
            return []
        part = self._command(token) if token.startswith("\\") else _character(token)
        return [] if part is None else [part]

    def _command(self, token: str) -> _Part | None:
        name = token[1:]
        if token in _ESCAPED:
            return _delimiter(_ESCAPED[token])
        if token == "\\\\":
            self._skip_distance()
            self._num_marks = 0
            return _Part("<br />", "\n", "break")
        if name in SPACES:
            return _Part(SPACES[name], SPACES[name], "space") if SPACES[name] else None
        if name in SILENT:
            if self._peek() == ".":
                self._next()
            return None
        if name in GREEK:
            return _letter(GREEK[name])
        if name in OPERATORS:
            return _Part(escape(OPERATORS[name]), OPERATORS[name], "operator")
        if name in RELATIONS:
            return _Part(escape(RELATIONS[name]), RELATIONS[name], "relation")
        if name in SIGNS:
            return _delimiter(SIGNS[name])
        if name in FUNCTIONS:
            return _Part(name, name, "function")
        return self._with_arguments(name)

    def _with_arguments(self, name: str) -> _Part:
        if name in _FRACTIONS:
            self._split_digits()
            return _fraction(self._argument(), self._argument())
        if name == "sqrt":
            return self._root()
        if name in _UPRIGHT:
            words = self._words()
            return _Part(escape(words), words, "function" if name.startswith("operatorname") else "words")
        if name in _BOLD:
            inner = _plain(self._words()) if name == "textbf" else _joined(self._argument())
            return _Part(f"<b>{inner.html}</b>", inner.plain, inner.kind)
        if name == "mathbb":
            return _only(double_struck(self._words()))
        if name in ("mathcal", "mathscr", "mathit", "mathsf"):
            return _letters(self._words())
        if name in ACCENTS:
            inner = _joined(self._argument())
            if len(inner.plain) != 1 or not inner.plain.isalnum():
                raise _Unknown
            return _letter(inner.plain + ACCENTS[name])
        if name in ("pmod", "bmod"):
            return self._modulo(name)
        raise _Unknown

    def _root(self) -> _Part:
        degree = _Part("", "")
        if self._peek() == "[":
            self._next()
            degree = _joined(self.read_until("]"), is_tight=True)
            small = degree.plain.translate(SUPERSCRIPTS)
            if any(sign in small for sign in degree.plain):
                raise _Unknown
            degree = _plain(small)
        inner = _joined(self._argument())
        whole = inner if len(inner.plain) == 1 or inner.plain.isdecimal() else _in_brackets(inner)
        return _both(degree, "√", whole, "root")

    def _modulo(self, name: str) -> _Part:
        if name == "bmod":
            return _Part("mod", "mod", "operator")
        inner = _joined(self._argument())
        return _Part(f" (mod {inner.html})", f" (mod {inner.plain})")


def _character(character: str) -> _Part:
    if character[0].isdecimal():
        return _Part(character, character, "number")
    if character in _BINARY:
        return _Part(_BINARY[character], _BINARY[character], "operator")
    if character in _RELATION:
        return _Part(escape(_RELATION[character]), _RELATION[character], "relation")
    if character in ",;":
        return _Part(character, character, "comma")
    if len(character) == 1 and character.isalpha() and character.isascii():
        return _letter(character)
    if character in "%#$":
        # These mean something else in LaTeX.
        raise _Unknown
    return _delimiter(character)


def _delimiter(sign: str) -> _Part:
    kind = "opening" if sign in "([{⟨⌈⌊" else "closing" if sign in ")]}⟩⌉⌋" else "atom"
    return _Part(escape(sign), sign, "large" if sign in "∑∏∐∫∬∭∮⋃⋂⨁⨂⋁⋀" else kind)


def _letter(letter: str) -> _Part:
    return _Part(f"<i>{letter}</i>", letter)


def _letters(words: str) -> _Part:
    return _Part(f"<i>{escape(words)}</i>", words)


def _plain(words: str) -> _Part:
    return _Part(escape(words), words)


def _only(sign: str | None) -> _Part:
    if sign is None:
        raise _Unknown
    return _plain(sign)


def _both(first: _Part, between: str, second: _Part, kind: str) -> _Part:
    return _Part(first.html + between + second.html, first.plain + between + second.plain, kind)


def _in_brackets(part: _Part) -> _Part:
    return _Part(f"({part.html})", f"({part.plain})")


def _fraction(above: list[_Part], below: list[_Part]) -> _Part:
    over, under = _joined(above), _joined(below)
    if not over.plain or not under.plain:
        raise _Unknown
    if not _is_product(over.plain):
        over = _in_brackets(over)
    is_one = under.kind in ("atom", "number", "words", "root") and _is_product(under.plain)
    if not is_one and not _BINDS.fullmatch(under.plain):
        under = _in_brackets(under)
    return _both(over, "/", under, "fraction")


def _is_product(plain: str) -> bool:
    """Returns whether a division applies to all of it without brackets."""
    return not any(sign in plain for sign in f" {_THIN}/")


def _joined(parts: list[_Part], *, is_tight: bool = False) -> _Part:
    """Joins parts with their spaces; an "atom" cannot be mistaken for parts of its neighbours."""
    shown = _told_apart([part for part in parts if part.html])
    html, plain = list[str](), list[str]()
    for before, part in _pairs(shown):
        gap = "" if is_tight else _gap(before, part)
        html.append(gap + part.html)
        plain.append(gap + part.plain)
    kind = shown[0].kind if len(shown) == 1 and shown[0].kind in _ONE else "compound"
    return _Part("".join(html).strip(), "".join(plain).strip(), kind)


def _told_apart(parts: list[_Part]) -> list[_Part]:
    """Puts fractions and roots with a neighbouring factor into brackets: "1/2mv" reads as a division by all of it."""
    return [_in_brackets(part) if _is_open(parts, place) else part for place, part in enumerate(parts)]


def _is_open(parts: list[_Part], place: int) -> bool:
    part = parts[place]
    before = parts[place - 1] if place else None
    behind = parts[place + 1] if place + 1 < len(parts) else None
    if part.kind == "fraction" and before is not None and before.kind == "number" and _NUMBERS.fullmatch(part.plain):
        # Ambiguous: one and a half, or one times a half.
        raise _Unknown
    has_factor = behind is not None and behind.kind in _FACTORS_BEHIND and not behind.plain[0].isspace()
    if part.kind == "root":
        return has_factor
    is_factor = before is not None and before.kind in _FACTORS_BEFORE and not before.plain[-1].isspace()
    return part.kind == "fraction" and (has_factor or is_factor)


def _pairs(parts: list[_Part]) -> Iterator[tuple[_Part | None, _Part]]:
    """Yields each part with the one before it."""
    before: _Part | None = None
    for part in parts:
        # The sign of a number follows it without a space.
        if part.kind == "operator" and (before is None or before.kind in _LEADS):
            part = _Part(part.html, part.plain, "sign")
        yield before, part
        before = part


_CARRIES = frozenset({"atom", "number", "words", "large", "closing", "function", "fraction", "root", "compound"})
_SPACED = frozenset({"comma", "operator", "relation"})
_ONE = frozenset({"atom", "number", "words", "fraction", "root"})
_FACTORS_BEFORE = frozenset({"atom", "number", "words", "closing", "function", "fraction", "root", "compound"})
_FACTORS_BEHIND = frozenset({"atom", "number", "words", "opening", "function", "fraction", "root", "large", "compound"})
_LEADS = frozenset({"operator", "relation", "opening", "comma", "break", "sign"})


_Kinds = frozenset[str] | None  # None stands for every kind


def _kinds(words: str) -> frozenset[str]:
    return frozenset(words.split())


# The gap between two parts, by the kinds of both; the first line that fits counts, and no line means no gap. None as a
# gap: it depends on the letters, see `_gap_of_words`.
_GAPS: tuple[tuple[_Kinds, _Kinds, str | None], ...] = (
    (_kinds("break space"), None, ""),
    (None, _kinds("break space"), ""),
    (_kinds("relation"), _kinds("relation"), ""),
    (_kinds("relation"), None, " "),
    (None, _kinds("relation"), " "),
    (_kinds("sign"), None, ""),
    (_kinds("operator"), None, _THIN),
    (None, _kinds("operator"), _THIN),
    (_kinds("comma"), None, " "),
    (_kinds("function"), _kinds("opening closing comma"), ""),
    (_kinds("function"), None, _THIN),
    (_FACTORS_BEFORE, _kinds("function"), _THIN),
    (None, _kinds("function"), ""),
    (_kinds("words"), _kinds("words"), ""),
    (_kinds("words"), None, None),
    (None, _kinds("words"), None),
    (_kinds("number"), _kinds("number"), _THIN),
    (_kinds("large"), None, _THIN),
)


def _gap(before: _Part | None, part: _Part) -> str:
    if before is None:
        return ""
    for kinds_before, kinds, gap in _GAPS:
        if _is_among(before.kind, kinds_before) and _is_among(part.kind, kinds):
            return _gap_of_words(before, part) if gap is None else gap
    return ""


def _is_among(kind: str, kinds: _Kinds) -> bool:
    return kinds is None or kind in kinds


def _gap_of_words(before: _Part, part: _Part) -> str:
    """Returns the gap of units and names; a single letter, such as that of a differential, needs none."""
    words = before if before.kind == "words" else part
    is_apart = before.plain[-1].isalnum() and part.plain[0] not in ".,;:!?)-′" and not part.plain[0].isspace()
    return " " if len(words.plain) > 1 and is_apart else ""
