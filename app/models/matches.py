"""The matches of a search in a text: case and accents do not count, and any white space is a space; pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

Span = tuple[int, int]

_ACCENTS = re.compile("[\N{COMBINING GRAVE ACCENT}-\N{COMBINING LATIN SMALL LETTER X}]")


def bare(text: str) -> str:
    """Returns a text for comparing; a letter may become none, or two."""
    return text.lower() if text.isascii() else "".join(map(_bare_letter, text))


def spans_of(text: str, sought: str) -> list[Span]:
    """Returns the start and end of each match of `sought`, in the order of the text; matches do not overlap."""
    wanted = bare(unicodedata.normalize("NFC", sought))
    if not wanted.strip():
        return []
    if text.isascii():
        return _found(text.lower(), wanted)
    letters = [_bare_letter(letter) for letter in text]
    # The place in the text of each letter of the bare text.
    places = [place for place, made in enumerate(letters) for _ in made]
    return [(places[first], _end(letters, places[last - 1])) for first, last in _found("".join(letters), wanted)]


def count_of(bare_text: str, sought: str) -> int:
    """Returns the number of matches in a text that is `bare` already."""
    wanted = bare(unicodedata.normalize("NFC", sought))
    return bare_text.count(wanted) if wanted.strip() else 0


def in_units(text: str, spans: list[Span]) -> list[Span]:
    """Returns the same spans in Qt's units (UTF-16): a letter beyond the first 65,536 is two."""
    if text.isascii() or max(text) <= "\uffff":
        return spans
    return [(_num_units(text[:first]), _num_units(text[:last])) for first, last in spans]


@lru_cache(maxsize=4096)
def _bare_letter(letter: str) -> str:
    if letter.isspace() and letter not in "\n\u2028\u2029":
        return " "
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", letter.casefold())))


def _found(text: str, wanted: str) -> list[Span]:
    return [found.span() for found in re.finditer(re.escape(wanted), text)]


def _end(letters: list[str], last: int) -> int:
    """Returns the end of the letter at `last`, including the separate accents that follow it."""
    end = last + 1
    while end < len(letters) and not letters[end]:
        end += 1
    return end


def _num_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
