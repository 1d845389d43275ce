"""Changes: what a look at the disk means for documents we know. Pure decisions, which never touch a file.

A folder that cannot be seen is not an empty folder: what is out of reach becomes offline, never a deletion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from engine.catalog import GONE_AT_ONCE, KEPT, Root
from engine.core import Document, FoundFile
from engine.library.scanner import Scan, ScanProblem

# A look that finds more than these gone, counting those of looks shortly before, and more than half of its folder,
# deletes nothing.
_MAX_REMOVED_UNASKED = 20


@dataclass(frozen=True, slots=True)
class ScanDiff:
    """Files against documents; each file and each document is in exactly one of the four."""

    new: tuple[FoundFile, ...]
    changed: tuple[tuple[Document, FoundFile], ...]
    unchanged: tuple[Document, ...]
    missing: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class MissingVerdict:
    """`gone` documents leave the library; `offline` ones stay, each with the reason."""

    gone: tuple[Document, ...]
    offline: tuple[tuple[Document, str], ...]


def diff(found: Iterable[FoundFile], known: Iterable[Document]) -> ScanDiff:
    """Compares by path, and at one path by size and time."""
    files = {file.path: file for file in found}
    changed: list[tuple[Document, FoundFile]] = []
    unchanged: list[Document] = []
    missing: list[Document] = []
    for document in known:
        file = files.pop(document.path, None)
        if file is None:
            missing.append(document)
        elif is_as_noted(document, file):
            unchanged.append(document)
        else:
            changed.append((document, file))
    return ScanDiff(tuple(files.values()), tuple(changed), tuple(unchanged), tuple(missing))


def is_as_noted(document: Document, file: FoundFile) -> bool:
    return (document.size_bytes, document.mtime_ns) == (file.size_bytes, file.mtime_ns)


def absence(root: Root, scan: Scan, known: Sequence[Document]) -> str:
    """Why the documents of a root are out of reach, in a sentence; "" when they are not."""
    if scan.absence:
        return scan.absence
    if scan.is_folder != root.is_folder:
        return f"Where a {'folder' if root.is_folder else 'file'} was, there is something else now."
    reasons = _hidden(known, scan.problems)
    # What lies on a drive of its own says nothing of the folder.
    judged = [document for document, reason in zip(known, reasons, strict=True) if not reason]
    if not scan.files and judged:
        return "The folder is empty though it had documents; perhaps its drive is not connected."
    if scan.device != root.device and not scan.files and reasons:
        return reasons[0]
    if scan.device != root.device and not _is_recognised(scan, judged):
        return "Another drive is in this folder's place."
    return ""


def _is_recognised(scan: Scan, known: Sequence[Document]) -> bool:
    """Whether most documents lie there by their names: the same drive may come back under another device number.

    Not as noted: they may have been edited elsewhere, and some drives tell other times in summer.
    """
    return 2 * len(diff(scan.files, known).missing) <= len(known)


def judge_missing(
    missing: Sequence[Document],
    roots: Sequence[Root],
    problems: Iterable[ScanProblem],
    count_below: Callable[[Root], int],
    count_left: Callable[[Root], int] = lambda _: 0,
    count_undecided: Callable[[Root], int] = lambda _: 0,
) -> MissingVerdict:
    """Which missing documents are gone for good.

    Args:
        missing: Documents below present roots whose files were not found, nor found elsewhere.
        roots: The roots below which was looked, and which are present.
        problems: What the scanner could not see into.
        count_below: How many documents a root has in all; asked only where it matters.
        count_left: How many it had besides, until looks found them gone lately: a slow deletion is one deletion.
        count_undecided: About how many of its documents the user has been asked, and has not decided.
    """
    # What was kept for the user to decide, or by the user's decision, is kept, however few it may be by now.
    offline = {
        document.document_id: (document, document.reason)
        for document in missing
        if document.reason in (GONE_AT_ONCE, KEPT)
    }
    doubted = [document for document in missing if document.document_id not in offline]
    hidden = zip(doubted, _hidden(doubted, problems), strict=True)
    offline.update((document.document_id, (document, reason)) for document, reason in hidden if reason)
    doubted = [document for document in doubted if document.document_id not in offline]
    for root in roots if doubted else ():
        below = [document for document in doubted if root.covers(document.path)] if root.is_folder else []
        num_left = count_left(root) if below else 0
        num_gone = len(below) + num_left + (count_undecided(root) if below else 0)
        if num_gone > _MAX_REMOVED_UNASKED and below and 2 * num_gone > count_below(root) + num_left:
            offline.update((document.document_id, (document, GONE_AT_ONCE)) for document in below)
    gone = tuple(document for document in doubted if document.document_id not in offline)
    return MissingVerdict(gone, tuple(offline.values()))


def _hidden(documents: Sequence[Document], problems: Iterable[ScanProblem]) -> list[str]:
    """Of each document, why it could not be seen whether it is there; "" where it could be."""
    reasons = {problem.path.rstrip(os.sep): problem.reason for problem in problems if problem.hides_files}
    return [_reason_above(document.path, reasons) if reasons else "" for document in documents]


def _reason_above(path: str, reasons: Mapping[str, str]) -> str:
    """That of the path itself, or of the nearest folder above it that has one."""
    # A folder of links that lead nowhere has as many problems as documents.
    while (reason := reasons.get(path)) is None and path:
        path = path.rpartition(os.sep)[0]
    return reason or ""


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def upwards(path: str) -> Iterator[str]:
    """The path and each folder above it: what it `is_below`, for asking a set of many folders instead of each."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def outermost(paths: Iterable[str]) -> list[str]:
    """Each of the paths once, but for those below another one."""
    once = dict.fromkeys(paths)
    return [path for path in once if not any(above in once for above in islice(upwards(path), 1, None))]


def choose_moved(file: FoundFile, candidates: Sequence[Document]) -> Document | None:
    """Which of several vanished documents with the file's content it was: rather one of the same name."""
    name = os.path.basename(file.path)
    same_name = [document for document in candidates if os.path.basename(document.path) == name]
    return next(iter([*same_name, *candidates]), None)
