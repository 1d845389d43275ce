"""Dates as people write them in a question, in English, German and Spanish: "since March 2025", "letzte Woche".

Pure: today is a parameter. An ambiguous date ("03/04/2025") is not recognised.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar jänner enero", "february februar febrero", "march märz marzo", "april abril",
            "may mai mayo", "june juni junio", "july juli julio", "august agosto", "september septiembre setiembre",
            "october oktober octubre", "november noviembre", "december dezember diciembre",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_UNITS = {
    **dict.fromkeys(("day", "days", "tag", "tages", "tage", "tagen", "día", "días", "dia", "dias"), "day"),
    **dict.fromkeys(("week", "weeks", "woche", "wochen", "semana", "semanas"), "week"),
    **dict.fromkeys(("month", "months", "monat", "monate", "monaten", "monats", "mes", "meses"), "month"),
    **dict.fromkeys(("year", "years", "jahr", "jahre", "jahren", "jahres", "año", "años"), "year"),
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
# Singular only: "the last weeks" does not say how many.
_ONE_UNIT = r"(?:day|week|month|year|tag|tages|woche|monats?|jahr|jahres|d[íi]a|semana|mes|año)"
# Not in "the last year of the war" or "the last week before Christmas"; nor in "a year or two", which is vague.
_ALONE = (
    r"(?!\s+(?:of|before|after|de|del|des|der|vor|nach)\b)"
    r"(?!\s+(?:(?:or|and|oder|und|o|y)\s+)(?:two|a\s+half|more|so|zwei|ein\s+halbes|mehr|dos|medi[oa]|más)\b)"
)
_THE = r"(?:(?:the|der|dem|den|die|das|la|el|los|las)\s+)?"
_OF_YEAR = (
    r"(?:(?:of|de|del|des|vom)\s+)?"
    r"(?:(?P<last_year>last\s+year|(?:letzt|vergangen|vorig)e[mns]\s+jahr(?:e?s)?|año\s+pasado)"
    r"|this\s+year|diese[ms]\s+jahr(?:e?s)?|este\s+año)"
)

# Longer forms first: a year alone is also the beginning of an ISO day.
_FORMS: tuple[tuple[str, str], ...] = (
    ("iso", r"(?P<iso>\d{4}-\d\d-\d\d)"),
    ("german", r"(?P<day_1>\d{1,2})\.(?P<month_1>\d{1,2})\.(?P<year_1>(?:19|20)\d\d)"),
    (
        "named",
        rf"(?:(?P<day_2>\d{{1,2}})(?:\.|st|nd|rd|th)?\s+(?:de\s+|of\s+)?)?(?P<month_2>{_MONTH})"
        rf"(?:\s+(?P<day_3>\d{{1,2}})(?:st|nd|rd|th)?,)?\s+(?:de\s+|del\s+|of\s+)?(?P<year_2>{_YEAR})",
    ),
    ("of_year", rf"(?P<month_4>{_MONTH})\s+{_OF_YEAR}{_ALONE}"),
    ("month", rf"(?P<month_3>{_MONTH})"),
    ("year", rf"(?P<year_3>{_YEAR})"),
    (
        "count",
        rf"{_THE}(?:last|past|letzten|vergangenen|[úu]ltim[oa]s)\s+(?P<count>\d{{1,3}})\s+(?P<unit_1>{_UNIT}){_ALONE}",
    ),
    # "In the last week" reaches to today, as "en la última semana" does; "last week" and "in der letzten Woche" do not.
    ("latest", rf"(?:the\s+last|(?:the\s+)?past|(?:(?:la|el)\s+)?[úu]ltim[oa])\s+(?P<unit_5>{_ONE_UNIT}){_ALONE}"),
    ("last", rf"{_THE}(?:last|(?:letzt|vergangen|vorig)e[mnrs]?)\s+(?P<unit_2>{_ONE_UNIT}){_ALONE}"),
    ("pasado", rf"{_THE}(?P<unit_3>{_UNIT})\s+pasad[oa]"),
    ("this", rf"(?:this|dieser|diesem|diesen|diese|dieses|este|esta)\s+(?P<unit_4>{_UNIT})"),
    ("yesterday", r"(?P<yesterday>yesterday|gestern|ayer)"),
    ("today", r"(?P<today>today|heute|hoy)"),
)


def _either(forms: Iterable[tuple[str, str]]) -> str:
    """Combines the forms to one pattern, without the names of their groups.

    It does not match possessives: "yesterday's meeting" does not say when notes about it were saved.
    """
    either = "|".join(re.sub(r"\(\?P<\w+>", "(?:", form) for _, form in forms)
    return rf"(?:{either})(?!\w|['’]s\b|(?<=s)['’]\s+\w)"


# To be built into larger patterns; `period` reads what they match.
DATE = _either(_FORMS)
RELATIVE_DATE = _either(_FORMS[6:])
_COMPILED = [(name, re.compile(form, re.IGNORECASE)) for name, form in _FORMS]


def plain_words(text: str) -> str:
    """Folds words for the tables. Turkish "İ" and "ı" become "i", as case-insensitive patterns match them."""
    return " ".join(text.casefold().replace("i\u0307", "i").replace("ı", "i").split())


@dataclass(frozen=True, slots=True)
class Period:
    """From the first to the last day, both included."""

    first: date
    last: date


def is_bare(text: str) -> bool:
    """Returns whether a date is only a month or a year."""
    return any(re.fullmatch(form, text.strip(), re.IGNORECASE) for name, form in _FORMS if name in ("month", "year"))


def period(text: str, today: date) -> Period | None:
    """Returns the days that a date means; None for an impossible or unknown date."""
    for name, form in _COMPILED:
        match = form.fullmatch(text.strip())
        if match is not None:
            try:
                return _READERS[name](match, today)
            except (ValueError, OverflowError):
                return None
    return None


def _day(year: int, month: int, day: int | None) -> Period:
    if day is not None:
        return Period(date(year, month, day), date(year, month, day))
    return Period(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))


def _iso(match: re.Match[str], today: date) -> Period:
    day = date.fromisoformat(match["iso"])
    return Period(day, day)


def _german(match: re.Match[str], today: date) -> Period:
    return _day(int(match["year_1"]), int(match["month_1"]), int(match["day_1"]))


def _named(match: re.Match[str], today: date) -> Period:
    day = match["day_2"] or match["day_3"]
    return _day(int(match["year_2"]), _MONTHS[plain_words(match["month_2"])], int(day) if day else None)


def _of_year(match: re.Match[str], today: date) -> Period:
    return _day(today.year - 1 if match["last_year"] else today.year, _MONTHS[plain_words(match["month_4"])], None)


def _month(match: re.Match[str], today: date) -> Period:
    """Returns the latest month of that name that has begun."""
    month = _MONTHS[plain_words(match["month_3"])]
    return _day(today.year if month <= today.month else today.year - 1, month, None)


def _year(match: re.Match[str], today: date) -> Period:
    year = int(match["year_3"])
    return Period(date(year, 1, 1), date(year, 12, 31))


def _count(match: re.Match[str], today: date) -> Period:
    return _back(_UNITS[plain_words(match["unit_1"])], int(match["count"]), today)


def _latest(match: re.Match[str], today: date) -> Period:
    return _back(_unit(match), 1, today)


def _back(unit: str, count: int, today: date) -> Period:
    """Returns the last `count` units up to today."""
    if unit in ("day", "week"):
        return Period(today - timedelta(days=count * (7 if unit == "week" else 1)), today)
    months = today.year * 12 + today.month - 1 - count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return Period(date(year, month + 1, min(today.day, calendar.monthrange(year, month + 1)[1])), today)


def _last(match: re.Match[str], today: date) -> Period:
    """Returns the whole unit before the present one; a week begins on Monday."""
    begin = _this(match, today).first
    return _unit_of(begin - timedelta(days=1), _unit(match))


def _this(match: re.Match[str], today: date) -> Period:
    return _unit_of(today, _unit(match))


def _unit_of(day: date, unit: str) -> Period:
    if unit == "week":
        monday = day - timedelta(days=day.weekday())
        return Period(monday, monday + timedelta(days=6))
    if unit == "month":
        return _day(day.year, day.month, None)
    if unit == "year":
        return Period(date(day.year, 1, 1), date(day.year, 12, 31))
    return Period(day, day)


def _unit(match: re.Match[str]) -> str:
    groups = match.groupdict()
    units = (groups[name] for name in ("unit_2", "unit_3", "unit_4", "unit_5") if groups.get(name))
    return _UNITS[plain_words(next(units))]


_READERS: dict[str, Callable[[re.Match[str], date], Period]] = {
    "iso": _iso,
    "german": _german,
    "named": _named,
    "of_year": _of_year,
    "month": _month,
    "year": _year,
    "count": _count,
    "latest": _latest,
    "last": _last,
    "pasado": _last,
    "this": _this,
    "yesterday": lambda match, today: Period(today - timedelta(days=1), today - timedelta(days=1)),
    "today": lambda match, today: Period(today, today),
}
