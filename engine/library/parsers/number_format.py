"""Numbers in cells as their sheet shows them: percentages, amounts with their currency, dates (always ISO).

Reads the part of Excel's format codes that changes what a number means; colours, widths and fill are ignored.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import math
import operator
import re
from collections.abc import Callable

Show = Callable[[float], str]

GENERAL = "General"
# ECMA-376, part 1, 18.8.30: codes to which a file refers by number only.
BUILT_IN = {
    0: GENERAL, 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm",
    21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 49: "@",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"), **dict.fromkeys(range(32, 36), "h:mm:ss"),
}  # fmt: skip

_TOKEN = re.compile(r"\"([^\"]*)\"|\\(.)|\[\$([^\]-]*)(?:-[^\]]*)?\]|\[(h+|m+|s+)\]|\[[^\]]*\]|_.|\*.|(.)", re.I | re.S)
_NUMBER = re.compile(r"[#0?,]*[#0][#0?,]*(?:\.([#0?]*))?,*|\.([#0?]+)")
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?\d+(?:\.\d*)?|-?\.\d+)\]")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
_DATE_SIGNS = set("ymdhs")
# What sections for negative numbers mark them with; a minus is shown instead.
_NEGATIVE_SIGNS = set("()-−△▲▼")
# Excel counts days from here, because it takes 1900 for a leap year.
_EPOCH = dt.datetime(1899, 12, 30)
_EPOCH_1904_DAYS = 1462
# The last one is 9999-12-31.
_MAX_DAYS = 2_958_466
_EXACT_BELOW = 1e15


def shown(value: float, code: str = GENERAL, *, is_1904: bool = False) -> str:
    """Writes a number by a format code."""
    if not math.isfinite(value):
        return ""
    section, is_said_in_words = _section(code, value)
    show = _show(section)
    if show is not None:
        return show(abs(value) if is_said_in_words else value)
    kind = "" if section.strip().lower() == "standard" else _date_kind(section)
    return _date(value + _EPOCH_1904_DAYS * is_1904, kind) if kind else general(value)


def general(value: float) -> str:
    """Writes a number without a format: integers as such, others with at most 12 significant digits."""
    if value == int(value) and abs(value) < _EXACT_BELOW:
        return str(int(value))
    return f"{value:.12g}"


def day(value: dt.datetime | dt.date | dt.time | dt.timedelta) -> str:
    """Writes a date or time in ISO form, without midnight and zero seconds."""
    if isinstance(value, dt.datetime):
        if value.microsecond >= 500_000:
            # The last second of the year 9999 cannot be rounded up.
            with contextlib.suppress(OverflowError):
                value += dt.timedelta(seconds=1)
        return value.replace(microsecond=0).isoformat(" ").removesuffix(":00").removesuffix(" 00:00")
    if isinstance(value, dt.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}".removesuffix(":00")
    return value.isoformat()


def _date(days: float, kind: str) -> str:
    if not 0 <= days < _MAX_DAYS:
        return general(days)
    if kind == "duration":
        return day(dt.timedelta(days=days))
    moment = day(_EPOCH + dt.timedelta(days=days))
    if kind == "time" or (days < 1 and " " in moment):
        return moment.partition(" ")[2] or "00:00"
    return moment.partition(" ")[0] if kind == "date" else moment


@functools.lru_cache(maxsize=512)
def _date_kind(code: str) -> str:
    """Returns whether a code shows a date, a time, both or a duration; "" for a number."""
    signs: set[str] = set()
    for token in _TOKEN.finditer(code.partition(";")[0]):
        if token.group(4):
            return "duration"
        signs.update((token.group(5) or "").lower())
    signs &= _DATE_SIGNS
    if not signs:
        return ""
    has_time, has_date = bool(signs & {"h", "s"}), bool(signs & {"y", "d"}) or signs == {"m"}
    return "both" if has_time and has_date else "time" if has_time else "date"


def _section(code: str, value: float) -> tuple[str, bool]:
    """Returns the section of a code that is used for this number, and whether its words say that it is negative."""
    parts = code.split(";")
    conditions = [_CONDITION.search(part) for part in parts]
    if any(conditions):
        met = (part for part, said in zip(parts, conditions, strict=True) if said and _is_met(said, value))
        others = (part for part, said in zip(parts, conditions, strict=True) if not said)
        return next(met, next(others, GENERAL)), False
    if value < 0 and len(parts) > 1 and _show(parts[1]) is not None:
        return _negative(parts[0], parts[1])
    return parts[2] if value == 0 and len(parts) > 2 and _NUMBER.search(parts[2]) else parts[0], False


@functools.lru_cache(maxsize=512)
def _negative(positive: str, section: str) -> tuple[str, bool]:
    """Returns the section for negative numbers without its signs, and whether it has words of its own instead of them.

    Without words of its own it may differ by its colour only.
    """
    unsigned = "".join(token.group() for token in _TOKEN.finditer(section) if not _is_negative_sign(token))
    words = _own_words(unsigned)
    has_words = any(map(str.isalpha, words)) and words != _own_words(positive)
    return unsigned, has_words and unsigned == section


def _is_negative_sign(token: re.Match[str]) -> bool:
    said = token.group(1) or token.group(2) or token.group(5) or ""
    return said.strip() in _NEGATIVE_SIGNS


def _own_words(section: str) -> str:
    """Returns what a section shows beside its number."""
    shape = "".join(map(_plain, _TOKEN.finditer(section)))
    number = _NUMBER.search(shape)
    beside = shape[: number.start()] + shape[number.end() :] if number else shape
    return "".join(_words(beside).split())


def _is_met(condition: re.Match[str], value: float) -> bool:
    return _COMPARED[condition[1]](value, float(condition[2]))


@functools.lru_cache(maxsize=512)
def _show(section: str) -> Show | None:
    """Returns how a section shows a number; None for General, dates, fractions and powers."""
    if section.strip().lower() in ("", "general", "standard", "@") or _date_kind(section):
        return None
    shape = "".join(_plain(token) for token in _TOKEN.finditer(section))
    number = _NUMBER.search(shape)
    if number is None or re.search(r"[eE][+-]|/\s*[?#\d]", shape):
        return None
    places = number.group(1) or number.group(2) or ""
    decimals, optional = len(places), len(places) - len(places.rstrip("#?"))
    digits = number.group().rstrip(",")
    scale = (100.0 if "%" in shape else 1.0) / 1000.0 ** (len(number.group()) - len(digits))
    grouping = "," if "," in digits else ""
    # Each zero is a digit that is always shown; text between the digits is left out.
    num_whole = number.group().partition(".")[0].count("0") + ("" if places else shape[number.end() :]).count("0")
    width = num_whole + (max(0, num_whole - 1) // 3 if grouping else 0) + (decimals + 1 if decimals else 0)
    prefix, suffix = (_words(part) for part in (shape[: number.start()], shape[number.end() :]))

    def show(value: float) -> str:
        text = f"{abs(value) * scale:0{width}{grouping}.{decimals}f}"
        if optional:
            kept = text[-optional:].rstrip("0")
            text = (text[:-optional] + kept).rstrip(".")
        return f"{'-' if value < 0 else ''}{prefix}{text}{suffix}".strip()

    return show


def _plain(token: re.Match[str]) -> str:
    """Returns what a token shows; literal text is masked by private characters, to tell it from placeholders."""
    literal = token.group(1) or token.group(2) or token.group(3)
    if literal:
        return literal.translate(_MASK)
    return token.group(5) or (" " if token.group().startswith("_") else "")


def _words(text: str) -> str:
    return re.sub(r"[()+#0?-]", "", text).translate(_UNMASK).strip("\n")


_MASKED = "#0?,.%()+-eE/"
_MASK = {ord(sign): chr(0xE000 + index) for index, sign in enumerate(_MASKED)}
_UNMASK = {0xE000 + index: sign for index, sign in enumerate(_MASKED)}
