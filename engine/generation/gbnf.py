"""Parses a GBNF grammar as llama.cpp does, and refuses with a sentence what would crash llama.cpp.

llama.cpp parses by recursion, accepts an indirectly left-recursive grammar, expands repetitions in full and keeps every
way to parse the text so far: a grammar can end the process, or take all time and memory
(llama.cpp/src/llama-grammar.cpp; the syntax is in llama.cpp/grammars/README.md). So every grammar is checked first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from engine.errors import BadRequest

MAX_CHARACTERS = 200_000
MAX_NESTING = 64
# llama.cpp's own bound; a higher maximum would silently count as none.
MAX_REPETITIONS = 2000
MAX_SYMBOLS = 100_000
_WAY_OUT = "Mend the grammar, or ask without one."
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_TOKEN = re.compile(r"!?<(?:\[[0-9]{1,9}\]|[^\[>\0][^>]*)>")
_COUNT = re.compile(r"\{[ \t\r\n]*([0-9]+)[ \t\r\n]*(?:(,)[ \t\r\n]*([0-9]*)[ \t\r\n]*)?\}")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([trn\\\"\[\]-]))")
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n"}


@dataclass(frozen=True, slots=True)
class Terminal:
    """One character inside (or, if `is_negated`, outside) ranges of code points; a token if there are none."""

    ranges: tuple[tuple[int, int], ...] = ()
    is_negated: bool = False

    def accepts(self, code_point: int) -> bool:
        return any(low <= code_point <= high for low, high in self.ranges) != self.is_negated


Symbol = Terminal | int
Alternative = tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Flat rules by number: what llama.cpp makes of a text. A symbol is a terminal, or the number of a rule."""

    rules: tuple[tuple[Alternative, ...], ...]
    names: tuple[str, ...]
    root: int


def parse(text: str) -> Grammar:
    """Parses the grammar in `text`, whose start is the rule `root`.

    Raises:
        BadRequest: It is not valid GBNF, or too large; the sentence says where.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the text, as deep as `MAX_NESTING`."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._numbers: dict[str, int] = {}
        self._rules: dict[int, tuple[Alternative, ...]] = {}
        self._num_symbols = 0

    def parse(self) -> Grammar:
        if len(self._text) > MAX_CHARACTERS:
            raise BadRequest(f"The grammar is longer than {MAX_CHARACTERS:,} characters.", _WAY_OUT)
        if "\0" in self._text or any("\ud800" <= character <= "\udfff" for character in self._text):
            raise BadRequest("The grammar holds characters that are no text.", _WAY_OUT)
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            self._read_rule()
        return self._whole()

    def _whole(self) -> Grammar:
        names = tuple(self._numbers)
        for name, number in self._numbers.items():
            if number not in self._rules:
                raise BadRequest(f"The grammar uses a rule {name!r} that it does not have.", _WAY_OUT)
        if "root" not in self._numbers:
            raise BadRequest("The grammar has no rule named root, where an answer would begin.", _WAY_OUT)
        return Grammar(tuple(self._rules[number] for number in range(len(names))), names, self._numbers["root"])

    def _read_rule(self) -> None:
        name = self._take(_NAME, "the name of a rule")
        self._skip(_SPACE)
        self._expect("::=")
        self._skip(_SPACE_AND_LINES)
        number = self._number(name)
        self._rules[number] = self._alternatives(name, 0)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            self._refuse("the end of the line")
        self._skip(_SPACE_AND_LINES)

    def _alternatives(self, name: str, depth: int) -> tuple[Alternative, ...]:
        if depth > MAX_NESTING:
            raise BadRequest(f"The grammar nests more than {MAX_NESTING} parentheses.", _WAY_OUT)
        found = [self._sequence(name, depth)]
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_SPACE_AND_LINES)
            found.append(self._sequence(name, depth))
        return tuple(found)

    def _sequence(self, name: str, depth: int) -> Alternative:
        symbols: list[Symbol] = []
        item: tuple[Symbol, ...] = ()
        while True:
            read = self._item(name, depth)
            if read is not None:
                item = read
                symbols += self._counted(item)
            elif (bounds := self._repetition()) is not None:
                if not item:
                    self._refuse("something to repeat")
                del symbols[len(symbols) - len(item) :]
                item = self._repeated(item, *bounds, name)
                symbols += item
            else:
                return tuple(symbols)
            self._skip(_SPACE_AND_LINES if depth else _SPACE)

    def _item(self, name: str, depth: int) -> tuple[Symbol, ...] | None:
        """Reads the next literal, set, token, reference or group; returns None if none begins here."""
        character = self._text[self._at : self._at + 1]
        if character == '"':
            return self._literal()
        if character == "[":
            return self._set()
        if character in ("<", "!"):
            self._take(_TOKEN, "a token such as <[1]>")
            return (Terminal(),)
        if character == ".":
            self._at += 1
            return (Terminal(is_negated=True),)
        if character == "(":
            return (self._group(name, depth),)
        if _NAME.match(self._text, self._at):
            return (self._number(self._take(_NAME, "")),)
        return None

    def _group(self, name: str, depth: int) -> int:
        self._at += 1
        self._skip(_SPACE_AND_LINES)
        alternatives = self._alternatives(name, depth + 1)
        self._expect(")")
        return self._new_rule(name, alternatives)

    def _literal(self) -> tuple[Symbol, ...]:
        self._at += 1
        found: list[Symbol] = []
        while not self._text.startswith('"', self._at):
            code_point = self._character('the closing "')
            found.append(Terminal(((code_point, code_point),)))
        self._at += 1
        return tuple(found)

    def _set(self) -> tuple[Symbol, ...]:
        self._at += 1
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        ranges: list[tuple[int, int]] = []
        while not self._text.startswith("]", self._at):
            low = high = self._character("the closing ]")
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._character("the closing ]")
            ranges.append((low, high))
        self._at += 1
        if not ranges:
            self._refuse("a character between [ and ]")
        return (Terminal(tuple(ranges), is_negated),)

    def _character(self, closing: str) -> int:
        if self._at >= len(self._text):
            self._refuse(closing)
        if self._text[self._at] != "\\":
            self._at += 1
            return ord(self._text[self._at - 1])
        match = _ESCAPE.match(self._text, self._at)
        if not match:
            self._refuse("a known escape")
        self._at = match.end()
        digits = match[1] or match[2] or match[3]
        return int(digits, 16) if digits else ord(_ESCAPED.get(match[4], match[4]))

    def _repetition(self) -> tuple[int, int | None] | None:
        sign = self._text[self._at : self._at + 1]
        if sign in ("*", "+", "?"):
            self._at += 1
            return int(sign == "+"), 1 if sign == "?" else None
        if sign != "{":
            return None
        match = _COUNT.match(self._text, self._at)
        if not match:
            self._refuse("a repetition such as {2} or {2,5}")
        self._at = match.end()
        least = self._times(match[1])
        if not match[2]:
            return least, least
        return self._bounds(least, self._times(match[3]) if match[3] else None)

    def _times(self, digits: str) -> int:
        digits = digits.lstrip("0") or "0"
        # Python refuses to read a number of thousands of digits.
        if len(digits) > len(str(MAX_REPETITIONS)) or int(digits) > MAX_REPETITIONS:
            raise BadRequest(f"The grammar repeats something more than {MAX_REPETITIONS:,} times.", _WAY_OUT)
        return int(digits)

    def _bounds(self, least: int, most: int | None) -> tuple[int, int | None]:
        if most is not None and most < least:
            raise BadRequest(f"The grammar repeats something at least {least} and at most {most} times.", _WAY_OUT)
        return least, most

    def _repeated(self, item: tuple[Symbol, ...], least: int, most: int | None, name: str) -> tuple[Symbol, ...]:
        """Expands a repetition as llama.cpp does: copies, then rules that each may be followed by the next, or end."""
        self._count(len(item) * least)
        symbols = [*item] * least
        if most is None:
            number = self._new_rule(name, ())
            self._rules[number] = ((*item, number), ())
            return (*symbols, number)
        last: tuple[int, ...] = ()
        for _ in range(most - least):
            last = (self._new_rule(name, (self._counted((*item, *last)), ())),)
        return (*symbols, *last)

    def _new_rule(self, name: str, alternatives: tuple[Alternative, ...]) -> int:
        number = self._number(f"{name}_{len(self._numbers)}")
        self._rules[number] = alternatives
        self._count(1)
        return number

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _counted(self, symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        self._count(len(symbols))
        return symbols

    def _count(self, num_symbols: int) -> None:
        self._num_symbols += num_symbols
        if self._num_symbols > MAX_SYMBOLS:
            raise BadRequest(f"Written out, the grammar is longer than {MAX_SYMBOLS:,} symbols.", _WAY_OUT)

    def _take(self, pattern: re.Pattern[str], wanted: str) -> str:
        match = pattern.match(self._text, self._at)
        if not match:
            self._refuse(wanted)
        self._at = match.end()
        return match[0]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _expect(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            self._refuse(text)
        self._at += len(text)

    def _refuse(self, wanted: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise BadRequest(f"The grammar is not valid GBNF: line {line}, column {column} wants {wanted}.", _WAY_OUT)


def symbols_of(alternatives: Iterable[Alternative]) -> Iterable[Symbol]:
    """Returns all symbols of a rule."""
    return (symbol for alternative in alternatives for symbol in alternative)


def leading(alternative: Sequence[Symbol], may_be_empty: Sequence[bool]) -> Iterable[Symbol]:
    """Yields the symbols that a text of this alternative can begin with."""
    for symbol in alternative:
        yield symbol
        if isinstance(symbol, Terminal) or not may_be_empty[symbol]:
            return
