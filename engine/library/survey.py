"""Survey: looks at roots, or at single places below them, and brings the catalogue up to what lies there.

All changes are made in one transaction, before anything is read. A file at a new path with the content of a vanished
document is that document: its id stays, and nothing is embedded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.catalog import GONE_AT_ONCE, KEPT, Catalog, Root
from engine.core import Document
from engine.library.changes import MissingVerdict, is_below, judge_missing, upwards
from engine.library.findings import Finding, Looks, find_in_places, find_in_roots, look_at_places, once
from engine.library.identities import is_mount
from engine.library.lately import LatelyGone
from engine.library.mounts import is_a_folder_now
from engine.library.moves import Move, find_moves, is_surely_gone, new_place, renamed_folder
from engine.library.removed import Removed
from engine.library.scanner import Scan, ScanProblem, scan


@dataclass(frozen=True, slots=True)
class SurveyReport:
    """The documents at the places looked at as they are now; ids of removed ones; what was no file to index."""

    documents: tuple[Document, ...] = ()
    removed: frozenset[int] = frozenset()
    problems: tuple[ScanProblem, ...] = ()

    def __add__(self, other: SurveyReport) -> SurveyReport:
        problems = tuple(dict.fromkeys((*self.problems, *other.problems)))
        return SurveyReport(once((*self.documents, *other.documents)), self.removed | other.removed, problems)


def survey(
    catalog: Catalog, roots: Sequence[Root], lately: LatelyGone, *, retry: bool
) -> Generator[str, None, SurveyReport]:
    """Looks at all files below `roots`. Yields what it looks at; it can be stopped there, before anything changed.

    Args:
        catalog: Brought up to date at the end, all at once.
        roots: Where to look.
        lately: What recent looks have found gone; receives what this one finds.
        retry: Also mark what failed or was never read as pending, as when the user adds a folder a second time.
    """
    removed = _removed(catalog, sees_all=True)
    scans: dict[str, Scan] = {}
    for root in roots:
        if root.path not in scans:
            scans[root.path] = yield from scan(root.path, removed)
    finding = find_in_roots(catalog, roots, scans)
    gone = yield from _enter(catalog, finding, removed, lately, retry=retry)
    problems = [problem for look in scans.values() for problem in look.problems]
    problems += [ScanProblem(root.path, reason) for root, reason in finding.absent]
    looked_at = {root.root_id for root in roots}
    paths = [root.path for root in catalog.roots() if root.root_id in looked_at]
    return SurveyReport(_documents_below(catalog, paths), gone, tuple(dict.fromkeys(problems)))


def survey_places(catalog: Catalog, paths: Sequence[str], lately: LatelyGone) -> Generator[str, None, SurveyReport]:
    """Looks at files and folders below roots, because something happened there. Yields as `survey`.

    Where a look at one place is not reliable (the root is out of reach, or links are involved), the whole root is
    looked at.
    """
    removed = _removed(catalog, sees_all=False)
    looks: Looks = yield from look_at_places(catalog, paths, removed)
    report = SurveyReport()
    if looks.scans:
        finding = find_in_places(catalog, looks)
        gone = yield from _enter(catalog, finding, removed, lately, retry=False)
        report = SurveyReport(_documents_below(catalog, list(looks.scans)), gone, finding.problems)
    if looks.whole:
        report += yield from survey(catalog, looks.whole, lately, retry=False)
    return report


def _removed(catalog: Catalog, *, sees_all: bool) -> Removed:
    """Returns what was removed so far; places that the user has added since, or that hold documents, are exempt."""

    def is_wanted(path: str) -> bool:
        above = [root for root in catalog.roots() if is_below(path, root.path)]
        return any(root.path == path or not root.is_surveyed for root in above) or catalog.has_below(path)

    return Removed(catalog.identities_removed(), is_wanted, sees_all=sees_all)


def _enter(
    catalog: Catalog, finding: Finding, removed: Removed, lately: LatelyGone, *, retry: bool
) -> Generator[str, None, frozenset[int]]:
    moves = yield from find_moves(catalog, finding.new, finding.changed, finding.known, finding.missing)
    with catalog.transaction():
        _follow(catalog, removed)
        gone, went = _record(catalog, finding, moves, lately, retry)
    lately.note(went, (file.path for file in finding.new))
    return gone


def _follow(catalog: Catalog, removed: Removed) -> None:
    """Notes removed things under their new names, so that they stay out of the library."""
    for place, renamed in removed.renamed.items():
        catalog.move_exclusion(renamed.was, place, leaves=renamed.is_gone)
    if removed.here:
        catalog.note_exclusions(removed.here)


def _record(
    catalog: Catalog, finding: Finding, moves: Sequence[Move], lately: LatelyGone, retry: bool
) -> tuple[frozenset[int], tuple[str, ...]]:
    """Writes the findings into the catalogue; returns the ids that left it, and the paths that left it unasked."""
    _move_exclusions(catalog, moves)
    _note_mounts(catalog, finding)
    wanted = _wanted(catalog)
    # Documents may have been removed during the look.
    known = catalog.paths_of(was.document_id for was, _ in moves)
    made = [(was, file) for was, file in moves if was.document_id in known and wanted(file.path)]
    moved_paths, moved_ids = _record_moves(catalog, made, replaced := _replaced(finding, made))
    verdict = _judged(catalog, finding, moved_ids, lately)
    gone = _record_missing(catalog, finding, verdict, moved_ids) | replaced
    # Asked at once: thousands of single files may be linked on a drive that is away.
    below_absent = catalog.documents_below(dict.fromkeys(root.path for root, _ in finding.absent))
    for root, reason in finding.absent:
        catalog.mark_offline(_ids(_undecided(below_absent[root.path])), reason)
        catalog.mark_absent(root, reason)
    # A file found below one root is within reach, even if another root above or below it is not.
    here = [*finding.unchanged, *(document for document, _ in finding.changed)]
    catalog.mark_present(
        [*_ids(document for document in here if document.state == "offline" or finding.absent), *moved_ids]
    )
    catalog.mark_pending(set(_ids(document for document, _ in finding.changed)) - moved_ids)
    left_behind = [file for document, file in finding.changed if document.document_id in moved_ids]
    new = (file for file in (*finding.new, *left_behind) if file.path not in moved_paths)
    catalog.add_documents(file for file in new if wanted(file.path))
    if retry:
        _retry(catalog, finding.present_roots)
    for root, device in finding.present:
        catalog.mark_surveyed(root, device)
    _relink(catalog, finding, made)
    return gone, tuple(document.path for document in verdict.gone)


def _move_exclusions(catalog: Catalog, moves: Sequence[Move]) -> None:
    """Moves exclusions along with a renamed folder, so that what was removed stays out of the library."""
    excluded = sorted(catalog.exclusions()) if moves else []
    renamed = {renamed_folder(was.path, file.path) for was, file in moves} - {None} if excluded else set()
    for path in excluded:
        places = {place + path[len(folder) :] for folder, place in filter(None, renamed) if is_below(path, folder)}
        # If several places fit, the file may be at any of them, so nothing is moved.
        there = [place for place in places if os.path.lexists(place) and not catalog.documents_under(place)]
        if len(there) == 1:
            catalog.move_exclusion(path, there[0])


def _note_mounts(catalog: Catalog, finding: Finding) -> None:
    known, here = catalog.mounts(), _paths_here(finding)
    drives = {path: os.path.realpath(path) for path in finding.mounts}
    new = {path: drive for path, drive in drives.items() if known.get(path) != drive}
    # An encrypted folder that is closed may have many documents: they are loaded only if some files are found there.
    doubtful = [path for path in known if not is_mount(path) and any(is_below(one, path) for one in here)]
    below = catalog.documents_below(doubtful)
    over = [path for path, on_it in below.items() if on_it and is_a_folder_now(path, (one.path for one in on_it), here)]
    if new or over:
        catalog.note_mounts(new, over)


def _paths_here(finding: Finding) -> set[str]:
    """Returns the paths of known documents whose files were found."""
    return {one.path for one in finding.unchanged} | {one.path for one, _ in finding.changed}


def _judged(catalog: Catalog, finding: Finding, moved_ids: set[int], lately: LatelyGone) -> MissingVerdict:
    missing = [document for document in finding.missing if document.document_id not in moved_ids]
    here = _paths_here(finding) if missing else set[str]()
    return judge_missing(
        missing,
        finding.present_roots,
        finding.problems,
        lambda root: catalog.count_under(root.path, root.is_folder),
        lambda root: lately.count_below(root.path),
        lambda root: len(set(catalog.paths_gone(root.path).values()) - here),
    )


def _record_missing(catalog: Catalog, finding: Finding, verdict: MissingVerdict, moved_ids: set[int]) -> frozenset[int]:
    gone = frozenset(_ids([*verdict.gone, *finding.left_out])) - moved_ids
    catalog.remove_documents(gone)
    by_reason: dict[str, list[int]] = {}
    for document, reason in verdict.offline:
        by_reason.setdefault(reason, []).append(document.document_id)
    for reason, document_ids in by_reason.items():
        catalog.mark_offline(document_ids, reason)
    return gone


def _wanted(catalog: Catalog) -> Callable[[str], bool]:
    """Returns a test of whether a path is still in the library: it may have been removed during the look."""
    roots, excluded = catalog.roots(), catalog.exclusions()
    # Somebody may link thousands of single files.
    linked, folders = {root.path for root in roots}, [root for root in roots if root.is_folder]

    def is_wanted(path: str) -> bool:
        return path in linked or any(root.covers(path) and not is_excluded(path, root.path) for root in folders)

    def is_excluded(path: str, root: str) -> bool:
        # Somebody may remove thousands of single files, and thousands of new ones may have been found.
        return any(at in excluded and is_below(at, root) for at in upwards(path))

    return is_wanted


def _replaced(finding: Finding, moves: Iterable[Move]) -> frozenset[int]:
    """Returns the documents whose path another document has taken, and whose own content was not found."""
    moved = {was.document_id: file.path for was, file in moves}
    paths = set(moved.values())
    return frozenset(one.document_id for one, file in finding.changed if file.path in paths) - moved.keys()


def _record_moves(catalog: Catalog, moves: Sequence[Move], replaced: frozenset[int]) -> tuple[set[str], set[int]]:
    paths, ids = set[str](), set[int]()
    catalog.remove_documents(replaced)
    # Files may have exchanged their names in a circle.
    catalog.vacate(document.document_id for document, _ in moves)
    for document, file in moves:
        catalog.relocate(document.document_id, file)
        if not document.embedder or _ending(document.path) != _ending(file.path):
            # The ending decides how a file is read, so it is read again under a new ending, or if it failed before.
            catalog.mark_pending([document.document_id], forget_content=bool(document.embedder))
        paths.add(file.path)
        ids.add(document.document_id)
    return paths, ids


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _relink(catalog: Catalog, finding: Finding, moves: Sequence[Move]) -> None:
    """Points a root that was renamed as a whole to its new path, so that it stays in its collection."""
    present = {root.root_id for root in finding.present_roots}
    for root in catalog.roots() if moves else ():
        out = [(was, file) for was, file in moves if root.root_id not in present and root.covers(was.path)]
        if out and is_surely_gone(root) and not catalog.count_under(root.path, root.is_folder):
            place = new_place(root, out)
            if place is not None:
                catalog.relink_root(root, place)


def _undecided(documents: Iterable[Document]) -> list[Document]:
    """Drops documents that went missing before their root did: the user has decided about them, or still will."""
    return [document for document in documents if document.reason not in (GONE_AT_ONCE, KEPT)]


def _retry(catalog: Catalog, roots: Sequence[Root]) -> None:
    documents = _documents_below(catalog, [root.path for root in roots])
    catalog.mark_pending(
        document.document_id
        for document in documents
        if document.state == "failed" or (document.state == "skipped" and not document.content_hash)
    )


def _documents_below(catalog: Catalog, paths: Iterable[str]) -> tuple[Document, ...]:
    return once(chain.from_iterable(catalog.documents_below(paths).values()))


def _ids(documents: Iterable[Document]) -> list[int]:
    return [document.document_id for document in documents]
