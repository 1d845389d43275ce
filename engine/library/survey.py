"""Survey: looks at roots and brings the catalogue up to what lies there, in one transaction, before anything is read.

A file found at a new path with the content of a document that vanished is that document: its id stays, and
nothing is embedded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from engine.catalog import Catalog, Root
from engine.core import Document, FoundFile
from engine.library.changes import absence, choose_moved, diff, is_below, judge_missing
from engine.library.scanner import Scan, ScanProblem, content_hash, scan


@dataclass(frozen=True, slots=True)
class SurveyReport:
    """The documents below the roots as they stand now; ids of those that left; what was no file to index."""

    documents: tuple[Document, ...]
    removed: frozenset[int]
    problems: tuple[ScanProblem, ...]


def survey(catalog: Catalog, roots: Sequence[Root], *, retry: bool) -> Generator[str, None, SurveyReport]:
    """Looks at all files below `roots`. Yields what it looks at: places to stop, at which nothing has changed yet.

    Args:
        catalog: Brought up to date at the end, all at once.
        roots: Where to look.
        retry: Also read again what failed or was never read, as when the user asks for a folder a second time.
    """
    excluded = catalog.exclusions()
    scans: dict[str, Scan] = {}
    for root in roots:
        if root.path not in scans:
            scans[root.path] = yield from scan(root.path, excluded)
    finding = _find(catalog, roots, scans)
    moves = yield from _moves(catalog, finding)
    with catalog.transaction():
        removed = _record(catalog, finding, moves, retry)
    problems = [problem for look in scans.values() for problem in look.problems]
    problems += [ScanProblem(root.path, reason) for root, reason in finding.absent]
    return SurveyReport(_documents_below(catalog, roots), removed, tuple(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the scans say about the roots, before anything is concluded or changed.

    `missing` are documents whose files are not where they were, though their root is.
    """

    present: tuple[tuple[Root, int | None], ...]
    absent: tuple[tuple[Root, str], ...]
    known: tuple[Document, ...]
    new: tuple[FoundFile, ...]
    changed: tuple[tuple[Document, FoundFile], ...]
    unchanged: tuple[Document, ...]
    missing: tuple[Document, ...]
    problems: tuple[ScanProblem, ...]

    @property
    def present_roots(self) -> tuple[Root, ...]:
        return tuple(root for root, _ in self.present)


def _find(catalog: Catalog, roots: Sequence[Root], scans: dict[str, Scan]) -> _Finding:
    below = {root.path: catalog.documents_under(root.path) for root in roots}
    absences = {root.root_id: absence(root, scans[root.path], below[root.path]) for root in roots}
    present = [root for root in roots if not absences[root.root_id]]
    absent = [root for root in roots if absences[root.root_id]]
    looks = [scans[path] for path in dict.fromkeys(root.path for root in present)]
    known = _once(document for root in present for document in below[root.path])
    difference = diff((file for look in looks for file in look.files), known)
    surveyed_ids = {root.root_id for root in present}
    elsewhere = [root for root in catalog.roots() if root.root_id not in surveyed_ids]
    return _Finding(
        present=tuple((root, scans[root.path].device) for root in present),
        absent=tuple((root, absences[root.root_id]) for root in absent),
        known=known,
        new=difference.new,
        changed=difference.changed,
        unchanged=difference.unchanged,
        # What another root answers for (one that is offline, or not looked at now) is not ours to miss.
        missing=tuple(d for d in difference.missing if not any(root.covers(d.path) for root in elsewhere)),
        problems=tuple(problem for look in looks for problem in look.problems),
    )


def _moves(catalog: Catalog, finding: _Finding) -> Generator[str, None, tuple[tuple[Document, FoundFile], ...]]:
    """Vanished documents and the new files that they are now; only files of a fitting size are read for it."""
    search = _MoveSearch(catalog, finding)
    for file in finding.new:
        if search.may_be_known(file):
            yield file.path
            search.look_for(file)
    return tuple(search.moves)


class _MoveSearch:
    """Finds what a new file was before; each document is found at most once."""

    def __init__(self, catalog: Catalog, finding: _Finding) -> None:
        self._catalog = catalog
        self._sizes = catalog.sizes_read()
        self._missing = {document.document_id for document in finding.missing}
        self._known = {document.document_id for document in finding.known}
        ours = {root.root_id for root in finding.present_roots}
        self._other_roots = [root for root in catalog.roots() if root.root_id not in ours]
        self._reachable: dict[int, bool] = {}
        self._taken: set[int] = set()
        self.moves: list[tuple[Document, FoundFile]] = []

    def may_be_known(self, file: FoundFile) -> bool:
        return file.size_bytes in self._sizes

    def look_for(self, file: FoundFile) -> None:
        candidates = [
            document for document in self._catalog.documents_of_size(file.size_bytes) if self._is_gone(document)
        ]
        if not candidates:
            return
        try:
            found = content_hash(file.path)
        except OSError:
            return  # Whoever reads it for indexing will say why it cannot be read.
        moved = choose_moved(file, [document for document in candidates if document.content_hash == found])
        if moved is not None:
            self._taken.add(moved.document_id)
            self.moves.append((moved, file))

    def _is_gone(self, document: Document) -> bool:
        if document.document_id in self._taken:
            return False
        if document.document_id in self._known:
            return document.document_id in self._missing
        # It lies below a root that is not looked at now: gone only if that can be told without doubt.
        return not os.path.lexists(document.path) and any(
            root.covers(document.path) and self._is_reachable(root) for root in self._other_roots
        )

    def _is_reachable(self, root: Root) -> bool:
        if root.root_id not in self._reachable:
            self._reachable[root.root_id] = root.is_folder and _holds_something(root.path, root.device)
        return self._reachable[root.root_id]


def _holds_something(folder: str, device: int) -> bool:
    try:
        with os.scandir(folder) as entries:
            return os.stat(folder).st_dev == device and any(True for _ in entries)
    except OSError:
        return False


def _record(
    catalog: Catalog, finding: _Finding, moves: Iterable[tuple[Document, FoundFile]], retry: bool
) -> frozenset[int]:
    """Writes all that was found into the catalogue; returns the ids that left it."""
    wanted = _wanted(catalog)
    moved_paths, moved_ids = _record_moves(catalog, [(was, file) for was, file in moves if wanted(file.path)])
    missing = [document for document in finding.missing if document.document_id not in moved_ids]
    verdict = judge_missing(missing, finding.known, finding.present_roots, finding.problems)
    gone = frozenset(document.document_id for document in verdict.gone)
    catalog.remove_documents(gone)
    for document, reason in verdict.offline:
        catalog.mark_offline([document.document_id], reason)
    for root, reason in finding.absent:
        catalog.mark_offline(_ids(_documents_below(catalog, [root])), reason)
    # What was found below another root is within reach, though a root below or above it may not be.
    here = [*finding.unchanged, *(document for document, _ in finding.changed)]
    catalog.mark_present(
        [*_ids(document for document in here if document.state == "offline" or finding.absent), *moved_ids]
    )
    catalog.mark_pending(_ids(document for document, _ in finding.changed))
    catalog.add_documents(file for file in finding.new if file.path not in moved_paths and wanted(file.path))
    if retry:
        _retry(catalog, finding.present_roots)
    for root, device in finding.present:
        catalog.mark_surveyed(root, device)
    for root, _ in finding.absent:
        catalog.mark_surveyed(root)
    return gone


def _wanted(catalog: Catalog) -> Callable[[str], bool]:
    """Whether a path still belongs to the library: it, or a folder above it, may have been removed while we looked."""
    roots, excluded = catalog.roots(), catalog.exclusions()

    def is_wanted(path: str) -> bool:
        return any(root.covers(path) and (root.path == path or not is_excluded(path, root.path)) for root in roots)

    def is_excluded(path: str, root: str) -> bool:
        return any(is_below(path, out) and is_below(out, root) for out in excluded)

    return is_wanted


def _record_moves(catalog: Catalog, moves: Iterable[tuple[Document, FoundFile]]) -> tuple[set[str], set[int]]:
    paths, ids = set[str](), set[int]()
    for document, file in moves:
        catalog.relocate(document.document_id, file)
        if not document.embedder:
            # It could not be read under its old name; the new one may tell more.
            catalog.mark_pending([document.document_id])
        paths.add(file.path)
        ids.add(document.document_id)
    return paths, ids


def _retry(catalog: Catalog, roots: Sequence[Root]) -> None:
    documents = _documents_below(catalog, roots)
    catalog.mark_pending(
        document.document_id
        for document in documents
        if document.state == "failed" or (document.state == "skipped" and not document.content_hash)
    )


def _documents_below(catalog: Catalog, roots: Sequence[Root]) -> tuple[Document, ...]:
    return _once(document for root in roots for document in catalog.documents_under(root.path))


def _once(documents: Iterable[Document]) -> tuple[Document, ...]:
    return tuple({document.document_id: document for document in documents}.values())


def _ids(documents: Iterable[Document]) -> list[int]:
    return [document.document_id for document in documents]
