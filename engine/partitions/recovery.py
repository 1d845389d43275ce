"""Recovery: a table that lost files in a power cut goes back to its last complete version.

LanceDB leaves it to the system when files reach the disk, so that a name may be there without the content, or a file
be missing that a later one names. Versions of the last minutes are kept, and what they lack the catalogue misses, so
that those documents are read again; that it has to is noted beside the table until it does.
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

# What LanceDB's files end with, once they are whole.
_END = b"LANC"
_SUFFIX_ASIDE = ".cut"
# Newer tables count manifests down from here in their names, so that the newest comes first.
_LAST_NUMBER = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A table that can be read, and of when its rows are, where it went back (ns since 1970)."""

    table: Table
    went_back_to_ns: int | None = None


def whole_table(connection: DBConnection, name: str, folder: Path) -> Whole | None:
    """Opens a table, as it was last when it was whole; None where no version is. Raises what LanceDB raises.

    Args:
        connection: Opens it.
        name: Of the table.
        folder: Of its files.
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
    """What was lost of the table whose files are in `folder` is known elsewhere. Raises OSError."""
    _note(folder).unlink(missing_ok=True)


def _noted_loss(folder: Path) -> int | None:
    """Of when the rows are since an earlier start, if nobody made up for what is lacking since."""
    try:
        noted = _note(folder).read_bytes()
    except FileNotFoundError:
        return None
    # Whatever became of the note, something was lost.
    return int(noted) if noted.isdigit() else 0


def _note(folder: Path) -> Path:
    return folder.with_suffix(".went-back")


def _set_cut_manifests_aside(folder: Path) -> None:
    """LanceDB neither opens nor tidies up a table where one of them is, be it an old one."""
    for manifest in folder.glob("*.manifest"):
        if _is_cut(manifest):
            log.warning("The manifest %s is cut short", manifest.name)
            manifest.rename(manifest.with_suffix(_SUFFIX_ASIDE))


def _is_cut(file: Path) -> bool:
    """Whether one of LanceDB's files lacks its end. Raises OSError."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - len(_END)))
        return opened.read() != _END


def _newest_whole(table: Table, manifests: Path) -> Path | None:
    by_version = sorted(manifests.glob("*.manifest"), key=_version, reverse=True)
    return next((manifest for manifest in by_version if _is_whole(table, _version(manifest))), None)


def _go_on_from(table: Table, kept: int, newest: int) -> None:
    """The newest version is `kept` again, under a number that none had before: the partitions' note names one."""
    table.checkout_latest()  # type: ignore[no-untyped-call]
    while kept < newest and table.version <= newest:
        table.checkout(kept)
        table.restore()


def _is_whole(table: Table, version: int | None = None) -> bool:
    """Whether all files of rows are there, and those that say which are deleted; indices can be rebuilt.

    Counts come from the manifest and hold when the data is gone, so a column is read: 8 bytes of each row. `version`
    is checked out first.
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
