"""Figures as people read them: bytes, durations, counts and names of files, the same everywhere in the window."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QDateTime, QLocale

from app.printable import printable


def _locale() -> QLocale:
    # The "C" locale of minimal systems groups no digits; the texts are English there, so digits are grouped as well.
    locale = QLocale()
    return QLocale(QLocale.Language.English) if locale.language() == QLocale.Language.C else locale


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# The text of this number of bytes is the widest, in common fonts.
WIDEST_BYTES = 88.8 * 2**20


def bytes_text(num_bytes: float) -> str:
    """Returns 1536 as "1.5 KiB"; three significant digits at most."""
    unit = 0
    while num_bytes >= 1000 and unit < len(_UNITS) - 1:
        num_bytes /= 1024
        unit += 1
    digits = 1 if unit and num_bytes < 99.95 else 0
    return f"{_locale().toString(float(num_bytes), 'f', digits)} {_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """Returns 0.042 as "42 ms", 7.25 as "7.3 s", 95 as "1 min 35 s", 7300 as "2 h 1 min"."""
    if seconds < 1:
        return _tr("%1 ms").replace("%1", count_text(round(seconds * 1000)))
    if seconds < 60:
        return _tr("%1 s").replace("%1", _locale().toString(float(seconds), "f", 1 if seconds < 10 else 0))
    if seconds < 3600:
        return _tr("%1 min %2 s").replace("%1", str(int(seconds // 60))).replace("%2", str(int(seconds % 60)))
    return _tr("%1 h %2 min").replace("%1", str(int(seconds // 3600))).replace("%2", str(int(seconds % 3600 // 60)))


def clock_text(at: float) -> str:
    """Returns seconds since 1970 as the local time: 14:05."""
    return _locale().toString(QDateTime.fromSecsSinceEpoch(int(at)).time(), "HH:mm")


def count_text(count: float) -> str:
    """Returns a whole number with the locale's grouping: 12,345."""
    return _locale().toString(round(count))


def file_name(path: str) -> str:
    """Returns the last part of a path as text, whatever its bytes."""
    return printable(path.rstrip("/").rpartition("/")[2] or path)


def folder_name(path: str) -> str:
    """Returns the folder of a file as text; "" for a name alone."""
    return printable(path.rstrip("/").rpartition("/")[0])


def spot_text(place: str, page: int | None) -> str:
    """Returns the place in a document: `slide 4`, `sheet “Budget”, rows 12–18`, `p. 7`; "" if there is none.

    `place` is the document's own word for it; a page number is translated.
    """
    if page is not None and place in ("", f"page {page}"):
        return _tr("p. %1").replace("%1", str(page))
    return place


def place_text(document: str, page: int | None, place: str = "") -> str:
    """Returns `lease.pdf · p. 7`, or the name alone if there is no place."""
    return " · ".join(part for part in (file_name(document), spot_text(place, page)) if part)


def _tr(text: str) -> str:
    return QCoreApplication.translate("figures", text)
