"""Word's automatic numbers, which stand nowhere in its text: counted, and written where Word shows them.

A contract may refer to "section 1.2"; without the numbers nobody finds that section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from engine.library.parsers.archive import Package
from engine.library.parsers.docx_styles import Style
from engine.library.parsers.elements import attribute, child, children, descendants, whole_number

_PLACE = re.compile(r"%([1-9])")
_LAST_LEVEL = 8
_UNSHOWN = ("none", "bullet")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
          (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
# Larger values are not written as letters.
_MAX_LETTERS = 26 * 9


@dataclass(frozen=True, slots=True)
class _Level:
    """How one level of a list is numbered: a pattern such as "%1.%2", each number in its level's form.

    Its numbers restart after an item of one of the first `num_above` levels.
    """

    pattern: str
    form: str
    start: int
    num_above: int
    style: str
    is_legal: bool


@dataclass(frozen=True, slots=True)
class _List:
    """A list of the document: several lists may share one `count`; `starts` are the numbers at which it restarts."""

    count: str
    levels: Mapping[int, _Level]
    starts: Mapping[int, int]


def write_numbers(package: Package, text: etree._Element | None, styles: Mapping[str, Style]) -> None:
    """Inserts its number before each numbered paragraph of a text."""
    lists = _lists(package.part("numbering+xml", "word/numbering.xml"))
    counts: dict[str, dict[int, int]] = {}
    begun: set[tuple[str, int]] = set()
    for paragraph in descendants(text, "p") if lists else ():
        number_id, level = _place(paragraph, styles, lists)
        # A fallback repeats the paragraphs of its alternative.
        if number_id not in lists or next(paragraph.iterancestors("{*}Fallback"), None) is not None:
            continue
        numbering = lists[number_id]
        count = counts.setdefault(numbering.count, {})
        if level in numbering.starts and (number_id, level) not in begun:
            count.pop(level, None)
        begun.add((number_id, level))
        _advance(count, level, numbering)
        shown = _shown(count, level, numbering.levels)
        if shown and next(descendants(paragraph, "t"), None) is not None:
            number = etree.Element(paragraph.tag[:-1] + "t")
            number.text = f"{shown} "
            paragraph.insert(0, number)


def _place(paragraph: etree._Element, styles: Mapping[str, Style], lists: Mapping[str, _List]) -> tuple[str, int]:
    """Returns a paragraph's list, its own or its style's, and its level there; "" for none, or if it is deleted."""
    properties = child(paragraph, "pPr")
    if child(properties, "rPr", "del") is not None:
        return "", 0
    own = child(properties, "numPr")
    style_id = attribute(child(properties, "pStyle"))
    style = styles.get(style_id, Style())
    number_id = attribute(child(own, "numId")) or style.number_id
    level = attribute(child(own, "ilvl"))
    levels = lists[number_id].levels if number_id in lists else {}
    of_style = next((at for at, of in levels.items() if of.style == style_id != ""), style.number_level)
    return number_id, min(_LAST_LEVEL, whole_number(level, of_style))


def _advance(count: dict[int, int], level: int, numbering: _List) -> None:
    """Counts one level up; begins the levels above it if need be, and restarts those below it as they define."""
    for above in range(level):
        count.setdefault(above, _start(above, numbering))
    count[level] = count[level] + 1 if level in count else _start(level, numbering)
    for below in [at for at in count if level < (numbering.levels[at].num_above if at in numbering.levels else at)]:
        del count[below]


def _start(level: int, numbering: _List) -> int:
    of = numbering.levels.get(level)
    return numbering.starts.get(level, of.start if of else 1)


def _shown(count: Mapping[int, int], level: int, levels: Mapping[int, _Level]) -> str:
    of = levels.get(level)
    if of is None or of.form in _UNSHOWN:
        return ""

    def number(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        form = levels[at].form if at in levels else ""
        return _number(count.get(at, 1), "" if of.is_legal else form)

    return _PLACE.sub(number, of.pattern).strip()


def _number(value: int, form: str) -> str:
    """Writes a number in one of Word's forms; unknown forms become digits."""
    if form.endswith("Letter") and 0 < value <= _MAX_LETTERS:
        letters = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
        return letters.upper() if form.startswith("upper") else letters
    if form.endswith("Roman") and 0 < value < 4000:
        return _roman(value).upper() if form.startswith("upper") else _roman(value)
    return "" if form == "none" else f"{value:02}" if form == "decimalZero" else str(value)


def _roman(value: int) -> str:
    said = ""
    for worth, sign in _ROMAN:
        said += sign * (value // worth)
        value %= worth
    return said


def _lists(root: etree._Element | None) -> dict[str, _List]:
    """Returns the lists by their number."""
    abstract = {attribute(one, "abstractNumId"): one for one in children(root, "abstractNum")}
    by_style = {attribute(child(one, "styleLink")): number for number, one in abstract.items()}
    lists: dict[str, _List] = {}
    for one in children(root, "num"):
        number = attribute(child(one, "abstractNumId"))
        linked = attribute(child(abstract.get(number), "numStyleLink"))
        number = by_style.get(linked, number) if linked else number
        overrides = {attribute(of, "ilvl"): of for of in children(one, "lvlOverride")}
        changed = [level for of in overrides.values() for level in children(of, "lvl")]
        levels = dict(map(_level, (*children(abstract.get(number), "lvl"), *changed)))
        starts = {
            whole_number(level, 0): start
            for level, of in overrides.items()
            if level and (start := whole_number(attribute(child(of, "startOverride")), -1)) >= 0
        }
        lists[attribute(one, "numId")] = _List(number, levels, starts)
    return lists


def _level(element: etree._Element) -> tuple[int, _Level]:
    at = min(_LAST_LEVEL, whole_number(attribute(element, "ilvl"), 0))
    return at, _Level(
        attribute(child(element, "lvlText")),
        attribute(child(element, "numFmt")) or "decimal",
        whole_number(attribute(child(element, "start")), 1),
        min(at, whole_number(attribute(child(element, "lvlRestart")), at)),
        attribute(child(element, "pStyle")),
        child(element, "isLgl") is not None,
    )
