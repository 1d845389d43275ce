"""Recovery: a table that lost files in a power cut goes back to its last complete version.

LanceDB does not sync its files, so after a power cut a file may exist without its content, or a file may be missing
that a later one refers to. Versions of the last minutes are kept. Documents that are missing in the restored version
are read again; a note beside the table says so until the catalogue has recorded it.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from lancedb.db import DBConnection
from lancedb.table import Table

from engine.partitions.durable import write_durably
from engine.partitions.faults import is_the_systems

log = logging.getLogger(__name__)

# The last bytes of a complete LanceDB file.
_END = b"LANC"
_SUFFIX_ASIDE = ".cut"
# The names of manifests in newer tables count down from this number, so that the newest comes first.
_LAST_NUMBER = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A readable table; if an earlier version was restored, also the time of its rows (ns since 1970)."""

    table: Table
    went_back_to_ns: int | None = None


def whole_table(connection: DBConnection, name: str, folder: Path) -> Whole | None:
    """Opens a table at its last complete version; returns None if there is none. Raises what LanceDB raises.

    Args:
        connection: The database.
        name: The name of the table.
        folder: The folder of its files.
    """
    manifests = folder / "_versions"
    _set_cut_manifests_aside(manifests)
    lost = {_version(manifest) for manifest in manifests.glob(f"*{_SUFFIX_ASIDE}")}
    table = connection.open_table(name)
    if not lost and _is_whole(table):
        return Whole(table, _noted_loss(folder))
    newest = max([table.version, *lost])
    kept = _newest_whole(table, manifests)
    if kept is None:
        return None
    went_back_to_ns = _noted_loss(folder)
    if _version(kept) < newest:
        log.warning("The table %r is as it was at version %d; version %d is not whole", name, _version(kept), newest)
        kept_ns = kept.stat().st_mtime_ns
        went_back_to_ns = kept_ns if went_back_to_ns is None else min(kept_ns, went_back_to_ns)
        write_durably(_note(folder), [str(went_back_to_ns).encode()])
    _go_on_from(table, _version(kept), newest)
    for manifest in manifests.glob(f"*{_SUFFIX_ASIDE}"):
        manifest.unlink()
    return Whole(table, went_back_to_ns)


def forget_loss(folder: Path) -> None:
    """Deletes the note about lost rows, because the catalogue has recorded the loss. Raises OSError."""
    _note(folder).unlink(missing_ok=True)


def _noted_loss(folder: Path) -> int | None:
    """Reads the note of an earlier start about lost rows; None if there is none."""
    try:
        noted = _note(folder).read_bytes()
    except FileNotFoundError:
        return None
    # Even if the note itself is damaged, something was lost.
    return int(noted) if noted.isdigit() else 0


def _note(folder: Path) -> Path:
    return folder.with_suffix(".went-back")


def _set_cut_manifests_aside(folder: Path) -> None:
    """Renames truncated manifests: with one of them, even an old one, LanceDB can neither open nor clean up a table."""
    for manifest in folder.glob("*.manifest"):
        if _is_cut(manifest):
            log.warning("The manifest %s is cut short", manifest.name)
            manifest.rename(manifest.with_suffix(_SUFFIX_ASIDE))


def _is_cut(file: Path) -> bool:
    """Returns whether a LanceDB file is truncated. Raises OSError."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - len(_END)))
        return opened.read() != _END


def _newest_whole(table: Table, manifests: Path) -> Path | None:
    by_version = sorted(manifests.glob("*.manifest"), key=_version, reverse=True)
    return next((manifest for manifest in by_version if _is_whole(table, _version(manifest))), None)


def _go_on_from(table: Table, kept: int, newest: int) -> None:
    """Restores version `kept` as the newest, under an unused number: the partitions' note may name a lost version."""
    table.checkout_latest()  # type: ignore[no-untyped-call]
    while kept < newest and table.version <= newest:
        table.checkout(kept)
        table.restore()


def _is_whole(table: Table, version: int | None = None) -> bool:
    """Returns whether all files of rows and of deletions exist; indices can be rebuilt.

    Counts come from the manifest and are right even if the data is gone, so a column is read: 8 bytes of each row.
    `version` is checked out first.
    """
    try:
        if version is not None:
            table.checkout(version)
        for _ in table.search().select(["document_id"]).to_batches():
            pass
    except (RuntimeError, ValueError, OSError) as error:
        if is_the_systems(error):
            raise
        log.warning("A version of the table %r cannot be read: %s", table.name, error)
        return False
    return True


def _version(manifest: Path) -> int:
    number = int(manifest.stem)
    return number if number < _LAST_NUMBER // 2 else _LAST_NUMBER - number
