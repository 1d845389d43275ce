"""Sentences: where the whole, quotable sentences of a passage begin and end.

Sentences are returned as spans, so that a quote can be found again, character by character, on its page. Hard-wrapped
lines are joined; headings, code, tables, markup and incomplete sentences at the start of a chunk are left out. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHARACTERS = 600

_ABBREVIATIONS = """
    mr mrs ms dr prof st sr jr gen col lt sgt rev hon gov sen rep vs etc cf al ca approx dept est fig figs eq eqs
    sec ch vol vols no nos pp p ed eds inc ltd co corp bros e.g i.e a.m p.m u.s u.k u.n jan feb mar apr jun jul aug
    sep sept oct nov dec bzw usw z.b d.h u.a bspw ggf mio mrd vgl inkl bzgl evtl sog sra dra
"""
# Abbreviations only before a number ("§ 573 Abs. 2"), otherwise words ("he studied art. The").
_NO_END_BEFORE_NUMBER = frozenset({"abs", "nr", "art", "ziff", "tel", "gem", "núm", "no"})
# Nouns after German ordinals ("am 1. April", "im 19. Jahrhundert"), whose full stop does not end a sentence.
_COUNTED = """
    Januar Jänner Februar März Mai Juni Juli Oktober Dezember Jahrhundert Jahrhunderts
    Jahrtausend Quartal Quartals Halbjahr Halbjahres Lebensjahr Lebensjahres Geburtstag Tag Tages Monat Monats Woche
    Etage Stock Stockwerk Obergeschoss Untergeschoss Auflage Kapitel Absatz Klasse Semester Platz Preis
"""

_NO_END_AFTER = frozenset(_ABBREVIATIONS.split())
_CJK_END = "。！？｡"
_CLOSING = "\"'”’»)]}」』）】*_`"
_END = re.compile(rf"(?:[.!?…]+|[{_CJK_END}]+)[{re.escape(_CLOSING)}]*")
_LAST_WORD = re.compile(r"[^\s(\[“\"'‘«]+$")
# Months that are spelled alike in English: the number is an ordinal only after these German words.
_COUNTED_BEHIND = r"(?<=\b(?:am|um|im|ab)\s)|(?<=\b(?:vom|zum|bis|der|dem|den|und)\s)"
_ORDINAL = re.compile(
    r"\d{1,2}\.[ \t\n]+(?:" + "|".join(_COUNTED.split()) + r")\b"
    rf"|(?:{_COUNTED_BEHIND})\d{{1,2}}\.[ \t\n]+(?:April|August|September|November)\b"
)
_ORDINAL_NUMBER = re.compile(r"\d{1,2}")
_ITEM = re.compile(r"[ \t>]*(?:[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+")
_MARGIN = re.compile(r"[ \t>]*")
_BLANK = re.compile(r"\n[ \t>]*\n")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"[ \t>]*#{1,6}[ \t]|.*\n[ \t]*(?:={3,}|-{3,})[ \t]*$")
_TABLE = re.compile(r"[ \t]*\|.*\||.*\t.*\t|[ \t]*[-|: ]+$")
_MARKUP_LINE = re.compile(r"[ \t]*(?:</?[A-Za-z][^>]*>|!\[[^\]]*\]\([^)]*\)|\[[^\]]+\]:\s)")
# A clause of prose may end with a semicolon as well, so something else must look like code.
_STATEMENT = r"\)\)\s*;\s*$|\]\s*;\s*$|\s=\s.*;\s*$|^\s*(?:return|let|var|const|int|import|use|using|package)\b.*;\s*$"
_CODE = re.compile(
    rf"[{{}}]\s*$|{_STATEMENT}|^\s*(?:[#@]\[|//|/\*|\$ |>>> )|\w\([^)]*\)\s*[{{;:]|(?:=>|->|:=|==|!=|&&|\|\|)",
    re.MULTILINE,
)
_LETTER = re.compile(r"[^\W\d_]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_MIN_WORDS, _MIN_CJK = 3, 6
_MIN_LETTERS = 0.5


@dataclass(frozen=True, slots=True)
class Sentence:
    """`passage.text[start:end]`; `is_complete` when it also ends like a sentence."""

    start: int
    end: int
    is_complete: bool


def quotable(text: str, *, may_be_torn: bool) -> list[Sentence]:
    """Returns the sentences of a passage that can stand alone, in order.

    `may_be_torn`: the text does not begin at the start of its page, so its first sentence may be incomplete.
    """
    found = [sentence for start, end in _paragraphs(text) for sentence in _sentences(text, start, end)]
    whole = found[1:] if may_be_torn and _begins_torn(text) else found
    return [sentence for sentence in whole if _can_stand_alone(text[sentence.start : sentence.end])]


def spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each sentence of running text, with its punctuation, without white space around it."""
    return [(sentence.start, sentence.end) for sentence in _sentences(text, 0, len(text))]


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yields paragraphs, list items and single lines of prose; skips code, headings, tables and markup."""
    for start, end in _outside_fences(text):
        for block_start, block_end in _between(_BLANK, text, start, end):
            yield from _prose(text, block_start, block_end)


def _outside_fences(text: str) -> Iterator[tuple[int, int]]:
    return _between(_FENCE, text, 0, len(text))


def _between(separator: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in separator.finditer(text, start, end):
        yield start, match.start()
        start = match.end()
    yield start, end


def _prose(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the prose in a block of lines: list items separately, wrapped lines joined."""
    begin: int | None = None
    for line_start, line_end in _between(re.compile("\n"), text, start, end):
        item = _ITEM.match(text, line_start, line_end)
        if item and begin is not None and _goes_on_with_ordinal(text, begin, line_start):
            item = None
        is_prose = not _is_debris(text[line_start:line_end])
        if begin is not None and (item or not is_prose):
            yield begin, line_start
            begin = None
        if is_prose and begin is None:
            margin = item or _MARGIN.match(text, line_start, line_end)
            begin = margin.end() if margin else line_start
    if begin is not None and not _HEADING.match(text, begin, end):
        yield begin, end


def _goes_on_with_ordinal(text: str, begin: int, line_start: int) -> bool:
    """Returns whether the line is not a list item but was wrapped before an ordinal ("am / 15. Januar")."""
    if not _ORDINAL.match(text, line_start):
        return False
    before = text[max(begin, line_start - 40) : line_start].split()
    return bool(before) and before[-1].isalpha() and before[-1].islower()


def _is_debris(line: str) -> bool:
    return bool(_HEADING.match(line) or _TABLE.match(line) or _MARKUP_LINE.match(line))


def _sentences(text: str, start: int, end: int) -> Iterator[Sentence]:
    begin = start
    for mark in _END.finditer(text, start, end):
        if mark.start() >= begin and _ends_here(text, mark, end):
            yield from _trimmed(text, begin, mark.end(), is_complete=True)
            begin = mark.end()
    yield from _trimmed(text, begin, end, is_complete=False)


def _ends_here(text: str, mark: re.Match[str], end: int) -> bool:
    """Returns whether a sentence ends at these marks: not after abbreviations, nor in numbers or file names."""
    if mark.end() >= end:
        return True
    if mark[0][0] in _CJK_END:
        # Speech in the middle: 他说：“你好！”然后走了。
        return mark[0][-1] in _CJK_END or text[mark.end()].isspace()
    if not text[mark.end()].isspace() and not _CJK.match(text, mark.end()):
        return False
    following = text[mark.end() : end].lstrip()[:1]
    if following.islower():
        return False
    if mark[0] != ".":
        return True
    word = match[0] if (match := _LAST_WORD.search(text[max(0, mark.start() - 40) : mark.start()])) else ""
    is_ordinal = _ORDINAL_NUMBER.fullmatch(word) and _ORDINAL.match(text, mark.start() - len(word), end)
    if following.isdigit() and word.casefold() in _NO_END_BEFORE_NUMBER:
        return False
    return not (is_ordinal or _is_abbreviation(word))


def _is_abbreviation(word: str) -> bool:
    is_initial = len(word) == 1 and word.isalpha() and word != "I"
    return is_initial or word.casefold() in _NO_END_AFTER


def _trimmed(text: str, start: int, end: int, *, is_complete: bool) -> Iterator[Sentence]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield Sentence(start, end, is_complete)


def _can_stand_alone(words: str) -> bool:
    """Returns whether a sentence can be quoted: long and short enough, and neither code nor a question."""
    is_question = words.rstrip(_CLOSING).endswith(("?", "？"))
    if is_question or len(words) > MAX_CHARACTERS or _CODE.search(words):
        return False
    is_long_enough = len(words.split()) >= _MIN_WORDS or len(_CJK.findall(words)) >= _MIN_CJK
    return is_long_enough and len(_LETTER.findall(words)) >= _MIN_LETTERS * len("".join(words.split()))


def _begins_torn(text: str) -> bool:
    return text.lstrip()[:1].islower()
