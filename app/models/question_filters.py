"""Filters of a question as people choose them: kinds of files, folders, periods; each can be removed again.

Pure functions from filters to filters, and their names, because chips and answers show them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from engine.protocol import Filters

# The formats (as in Document.format) that people mean by a kind of file.
KINDS: dict[str, tuple[str, ...]] = {
    str(QT_TRANSLATE_NOOP("filters", "PDF files")): ("pdf",),
    str(QT_TRANSLATE_NOOP("filters", "Word documents")): ("docx", "doc", "odt", "rtf"),
    str(QT_TRANSLATE_NOOP("filters", "Spreadsheets and tables")): ("xlsx", "xls", "ods", "table"),
    str(QT_TRANSLATE_NOOP("filters", "Presentations")): ("pptx", "ppt", "odp"),
    str(QT_TRANSLATE_NOOP("filters", "E-mails")): ("mail", "mailbox", "msg"),
    str(QT_TRANSLATE_NOOP("filters", "E-books")): ("epub",),
    str(QT_TRANSLATE_NOOP("filters", "Web pages")): ("html",),
    str(QT_TRANSLATE_NOOP("filters", "Notes and plain text")): ("markdown", "text", "rst", "org", "tex"),
    str(QT_TRANSLATE_NOOP("filters", "Code and data")): ("code", "lines", "notebook", "json", "yaml", "xml"),
    str(QT_TRANSLATE_NOOP("filters", "Pictures and scans")): ("picture",),
    str(QT_TRANSLATE_NOOP("filters", "Archives")): ("archive",),
}
# The most chips for paths; the rest share one chip, whose detail names so many.
_MOST_PATHS, _MOST_NAMED = 12, 20


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in words, in full in `detail`, and the filters that remain without it."""

    text: str
    detail: str
    without: Filters


def chips(filters: Filters) -> tuple[Chip, ...]:
    """Returns a chip for each single filter."""
    return (*_path_chips(filters), *_kind_chips(filters), *_period_chips(filters))


def has_kind(filters: Filters, kind: str) -> bool:
    return set(KINDS[kind]) <= set(filters.formats)


def with_kind(filters: Filters, kind: str, is_wanted: bool) -> Filters:
    """Adds or removes a kind of files; several kinds are searched together."""
    kept = tuple(name for name in filters.formats if name not in KINDS[kind])
    return replace(filters, formats=(*kept, *KINDS[kind]) if is_wanted else kept)


def with_path(filters: Filters, path: str, is_wanted: bool) -> Filters:
    """Adds or removes a folder or file; several are searched together."""
    kept = tuple(known for known in filters.paths if known != path)
    return replace(filters, paths=(*kept, path) if is_wanted else kept)


def with_attached(filters: Filters, paths: Iterable[str]) -> Filters:
    """Adds attached paths and removes kinds and periods, so that attached files are searched in any case."""
    return Filters(paths=tuple(dict.fromkeys((*filters.paths, *paths))), reads_question=filters.reads_question)


def without_paths(filters: Filters, paths: Collection[str]) -> Filters:
    return replace(filters, paths=tuple(path for path in filters.paths if path not in paths))


def with_period(filters: Filters, since: date | None, until: date | None) -> Filters:
    """Confines to files changed from the first to the last day; None leaves an end open."""
    return replace(
        filters,
        changed_since=since.isoformat() if since else "",
        changed_until=until.isoformat() if until else "",
    )


def periods(today: date) -> tuple[tuple[str, date | None, date | None], ...]:
    """Returns common periods, with their first and last day."""
    return (
        (_tr("Last 7 days"), today - timedelta(days=6), None),
        (_tr("Last 30 days"), today - timedelta(days=29), None),
        (_tr("This year"), date(today.year, 1, 1), None),
        (_tr("Last year"), date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
    )


def kind_name(kind: str) -> str:
    return _tr(kind)


def _path_chips(filters: Filters) -> Iterator[Chip]:
    # Somebody may attach hundreds of files at once.
    num_single = len(filters.paths) if len(filters.paths) <= _MOST_PATHS else _MOST_PATHS - 1
    for path in filters.paths[:num_single]:
        shown = _shown(path)
        name = shown.rstrip("/").rpartition("/")[2] or shown
        yield Chip(_tr("in %1").replace("%1", name), shown, with_path(filters, path, is_wanted=False))
    if others := filters.paths[num_single:]:
        words = _tr("in %1 others").replace("%1", str(len(others)))
        detail = "\n".join(map(_shown, others[:_MOST_NAMED])) + ("\n…" if len(others) > _MOST_NAMED else "")
        yield Chip(words, detail, without_paths(filters, others))


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _kind_chips(filters: Filters) -> Iterator[Chip]:
    whole = [kind for kind in KINDS if has_kind(filters, kind)]
    for kind in whole:
        yield Chip(kind_name(kind), ", ".join(KINDS[kind]), with_kind(filters, kind, is_wanted=False))
    for name in filters.formats:
        if not any(name in KINDS[kind] for kind in whole):
            left = tuple(other for other in filters.formats if other != name)
            yield Chip(_tr("%1 files").replace("%1", name), name, replace(filters, formats=left))


def _period_chips(filters: Filters) -> Iterator[Chip]:
    since, until = filters.changed_since, filters.changed_until
    if since and until:
        words = _tr("changed %1 to %2").replace("%1", since).replace("%2", until)
    elif since:
        words = _tr("changed since %1").replace("%1", since)
    elif until:
        words = _tr("changed until %1").replace("%1", until)
    else:
        return
    yield Chip(words, words, with_period(filters, None, None))


def _tr(text: str) -> str:
    return QCoreApplication.translate("filters", text)
