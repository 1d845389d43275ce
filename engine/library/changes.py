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

# Nothing is deleted unasked when more documents than this are missing, counting those of recent looks, and they are
# more than half of their folder.
_MAX_REMOVED_UNASKED = 20


@dataclass(frozen=True, slots=True)
class ScanDiff:
    """Files compared with documents; each file and each document is in exactly one of the four."""

    new: tuple[FoundFile, ...]
    changed: tuple[tuple[Document, FoundFile], ...]
    unchanged: tuple[Document, ...]
    missing: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class MissingVerdict:
    """What to do with missing documents: `gone` ones leave the library, `offline` ones stay, each with the reason."""

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
    """Returns why the documents of a root are out of reach, as a sentence; "" when they are not."""
    if scan.absence:
        return scan.absence
    if scan.is_folder != root.is_folder:
        return f"Where a {'folder' if root.is_folder else 'file'} was, there is something else now."
    reasons = _hidden(known, scan.problems)
    # Documents on another drive mounted below say nothing about the folder itself.
    judged = [document for document, reason in zip(known, reasons, strict=True) if not reason]
    if not scan.files and judged:
        return "The folder is empty though it had documents; perhaps its drive is not connected."
    if scan.device != root.device and not scan.files and reasons:
        return reasons[0]
    if scan.device != root.device and not _is_recognised(scan, judged):
        return "Another drive is in this folder's place."
    return ""


def _is_recognised(scan: Scan, known: Sequence[Document]) -> bool:
    """Returns whether most documents are found by name: the same drive may return under another device number.

    Sizes and times are ignored: files may have been edited elsewhere, and some drives shift times in summer.
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
    """Decides which missing documents are gone, and which are only out of reach.

    Args:
        missing: Documents below present roots whose files were found neither there nor elsewhere.
        roots: The roots that were looked at and are present.
        problems: What the scanner could not look into.
        count_below: Returns how many documents a root has in all; called only where it matters.
        count_left: Returns how many more it had until recent looks: a slow deletion counts as one deletion.
        count_undecided: Returns about how many of its documents wait for the user's decision.
    """
    # What waits for the user's decision, or was kept by it, stays, however few documents it is by now.
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
    """Returns, for each document, why nobody can tell whether it is there; "" where one can."""
    reasons = {problem.path.rstrip(os.sep): problem.reason for problem in problems if problem.hides_files}
    return [_reason_above(document.path, reasons) if reasons else "" for document in documents]


def _reason_above(path: str, reasons: Mapping[str, str]) -> str:
    """Returns the reason noted for the path, or for the nearest folder above it that has one; "" if there is none."""
    # Walks up instead of comparing with every problem: a folder of broken links has as many as documents.
    while (reason := reasons.get(path)) is None and path:
        path = path.rpartition(os.sep)[0]
    return reason or ""


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def upwards(path: str) -> Iterator[str]:
    """Yields the path and each folder above it, so that it can be looked up in a set of many folders."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def outermost(paths: Iterable[str]) -> list[str]:
    """Returns each path once, without those below another one."""
    once = dict.fromkeys(paths)
    return [path for path in once if not any(above in once for above in islice(upwards(path), 1, None))]


def choose_moved(file: FoundFile, candidates: Sequence[Document]) -> Document | None:
    """Returns the vanished document that this file most likely is: one of the same name is preferred."""
    name = os.path.basename(file.path)
    same_name = [document for document in candidates if os.path.basename(document.path) == name]
    return next(iter([*same_name, *candidates]), None)
