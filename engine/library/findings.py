"""Findings: what scans say about roots or places below them, before anything is concluded or changed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.catalog import Catalog, Root
from engine.core import Document, FoundFile
from engine.library.changes import absence, diff, is_below
from engine.library.mounts import with_known
from engine.library.moves import stands
from engine.library.removed import Removed
from engine.library.scanner import Scan, ScanProblem, is_left_out, scan_below


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at roots or places found.

    `known` are all documents at the places that were looked at. `missing` are those whose files are gone while their
    root is there; `left_out` are those whose files exist but are excluded by rules now. Drives are mounted at `mounts`.
    """

    present: tuple[tuple[Root, int | None], ...]
    absent: tuple[tuple[Root, str], ...]
    known: tuple[Document, ...]
    new: tuple[FoundFile, ...]
    changed: tuple[tuple[Document, FoundFile], ...]
    unchanged: tuple[Document, ...]
    missing: tuple[Document, ...]
    left_out: tuple[Document, ...]
    problems: tuple[ScanProblem, ...]
    mounts: tuple[str, ...]

    @property
    def present_roots(self) -> tuple[Root, ...]:
        return tuple(root for root, _ in self.present)


@dataclass(frozen=True, slots=True)
class Looks:
    """What was seen at single places, the roots that cover each of them, and the roots that need a look as a whole."""

    scans: Mapping[str, tuple[Scan, ...]]
    roots: Mapping[str, tuple[Root, ...]]
    whole: tuple[Root, ...]


def find_in_roots(catalog: Catalog, roots: Sequence[Root], scans: Mapping[str, Scan]) -> Finding:
    """Compares looks at whole roots with the documents of these roots."""
    below = catalog.documents_below(dict.fromkeys(root.path for root in roots))
    seen_mounts = catalog.mounts()
    scans = {
        path: with_known(look, seen_mounts, (document.path for document in below.get(path, ())))
        for path, look in scans.items()
    }
    absences = {root.root_id: absence(root, scans[root.path], below[root.path]) for root in roots}
    present = [root for root in roots if not absences[root.root_id]]
    looks = [scans[path] for path in dict.fromkeys(root.path for root in present)]
    known = once(document for root in present for document in below[root.path])
    difference = diff((file for look in looks for file in look.files), known)
    ours = _ours_to_miss(catalog, difference.missing, present)
    missing, left_out = _told_apart(ours, present, catalog.exclusions())
    return Finding(
        present=tuple((root, scans[root.path].device) for root in present),
        absent=tuple((root, absences[root.root_id]) for root in roots if absences[root.root_id]),
        known=known,
        new=difference.new,
        changed=difference.changed,
        unchanged=difference.unchanged,
        missing=missing,
        left_out=left_out,
        problems=tuple(problem for look in looks for problem in look.problems),
        mounts=tuple(mount for look in looks for mount in look.mounts),
    )


def look_at_places(catalog: Catalog, paths: Sequence[str], removed: Removed) -> Generator[str, None, Looks]:
    """Looks at files and folders, and notes which roots need a look as a whole. Yields what it looks at."""
    all_roots = catalog.roots()
    covering = {path: tuple(root for root in all_roots if is_below(path, root.path)) for path in paths}
    whole = {root for path, roots in covering.items() for root in roots if not _can_be_told_in_part(root, path)}
    # Many changes at once are reported as one folder above all of them, which may lie above roots (debounce.py).
    above = [path for path, roots in covering.items() if not roots]
    whole.update(root for root in all_roots if any(is_below(root.path, path) for path in above))
    scans: dict[str, tuple[Scan, ...]] = {}
    for path, roots in covering.items():
        if not roots or whole.intersection(roots):
            continue
        seen: list[Scan] = []
        for root in roots:
            seen.append((yield from scan_below(root.path, path, removed)))
        # The job may pause for hours between two folders: if a drive went away meanwhile, its files are not gone.
        if any(look.has_links for look in seen) or not all(map(stands, roots)):
            whole.update(roots)
        else:
            scans[path] = tuple(seen)
    fallen = {root for root in once_by_id(chain.from_iterable(map(covering.__getitem__, scans))) if not stands(root)}
    for path in [path for path in scans if not fallen.isdisjoint(covering[path])]:
        del scans[path]
        whole.update(covering[path])
    return Looks(scans, covering, tuple(root for root in all_roots if root in whole))


def find_in_places(catalog: Catalog, looks: Looks) -> Finding:
    """Compares looks at single places with the documents there."""
    known = once(chain.from_iterable(catalog.documents_below(looks.scans).values()))
    seen_mounts = catalog.mounts()
    paths = [document.path for document in known]
    seen = [with_known(look, seen_mounts, paths) for of_path in looks.scans.values() for look in of_path]
    difference = diff({file.path: file for look in seen for file in look.files}.values(), known)
    # A change of exactly this file was reported, so it is read again even if size and time are the same: two files
    # of the same size and age may have swapped their names.
    files = {file.path: file for look in seen for file in look.files if file.path in looks.scans}
    touched = [(document, files[document.path]) for document in difference.unchanged if document.path in files]
    roots = once_by_id(root for path in looks.scans for root in looks.roots[path])
    # Below a place there may be other roots, on other drives.
    ours = _ours_to_miss(catalog, difference.missing, roots)
    missing, left_out = _told_apart(ours, roots, catalog.exclusions())
    return Finding(
        present=tuple((root, None) for root in roots),
        absent=(),
        known=known,
        new=difference.new,
        changed=(*difference.changed, *touched),
        unchanged=tuple(document for document in difference.unchanged if document.path not in files),
        missing=missing,
        left_out=left_out,
        problems=tuple(problem for look in seen for problem in look.problems),
        mounts=tuple(mount for look in seen for mount in look.mounts),
    )


def once(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Returns each document once, in the order of first appearance."""
    return tuple({document.document_id: document for document in documents}.values())


def once_by_id(roots: Iterable[Root]) -> tuple[Root, ...]:
    return tuple({root.root_id: root for root in roots}.values())


def _can_be_told_in_part(root: Root, path: str) -> bool:
    """Returns whether a look at one place sees the same there as a look at the whole root would."""
    if path == root.path or not root.is_surveyed or root.absence or not stands(root):
        return False
    folder = os.path.dirname(path)
    inner = os.path.relpath(folder, root.path)
    return os.path.realpath(folder) == os.path.normpath(os.path.join(os.path.realpath(root.path), inner))


def _ours_to_miss(catalog: Catalog, missing: Iterable[Document], roots: Sequence[Root]) -> list[Document]:
    """Drops missing documents that are also covered by a root that was not looked at now."""
    looked_at = {root.root_id for root in roots}
    elsewhere = [root for root in catalog.roots() if root.root_id not in looked_at]
    return [document for document in missing if not any(root.covers(document.path) for root in elsewhere)]


def _told_apart(
    missing: Iterable[Document], roots: Sequence[Root], excluded: frozenset[str]
) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    """Separates documents whose files are not there from those whose files are excluded from every root."""
    gone: list[Document] = []
    left_out: list[Document] = []
    for document in missing:
        is_there = os.path.lexists(document.path)
        above = [root for root in roots if is_there and root.is_folder and root.covers(document.path)]
        is_out = bool(above) and all(is_left_out(root.path, document.path, False, excluded) for root in above)
        (left_out if is_out else gone).append(document)
    return tuple(gone), tuple(left_out)
