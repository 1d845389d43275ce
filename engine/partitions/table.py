"""The table `chunks`: the durable record of every chunk, written per document in one commit, searched at once.

This package alone knows LanceDB and Arrow; they are imported when a table is opened, not before.

Threads: one writer at a time (by a lock), any number of readers (`TableReader`); all share one handle. Versions are
kept for a while, so that a read that began before a clean-up can finish on its version.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.config import MemorySettings
from engine.errors import DiskFull, LibraryError
from engine.memory.ledger import Ledger
from engine.partitions.durable import NewFiles, write_durably
from engine.partitions.faults import is_of_an_index, reported
from engine.partitions.reader import TableReader, in_documents
from engine.partitions.row_files import MOST_ROWS_OF_SMALL_FILES, RowFiles
from engine.partitions.rows import ChunkRow, Hit

if TYPE_CHECKING:
    from lancedb.table import Table

    from engine.partitions.opening import OpenedTable

__all__ = ["ChunkRow", "ChunkTable", "Hit"]

log = logging.getLogger(__name__)

# Each unindexed row costs a question about 0.1 ms, each commit costs the next commit about 0.05 ms. Tidying up rewrites
# all rows (3 KB and 45 µs each), so in a large table up to a fiftieth may be unindexed, with an upper limit.
UNINDEXED_ROWS_LIMIT, MOST_UNINDEXED_ROWS, UNINDEXED_SHARE = 1000, 5000, 1 / 50
COMMITS_LIMIT = 200
# During a long indexing run, a table that grows to a million rows would be rewritten hundreds of times; so up to a
# tenth may be unindexed then, with an upper limit that costs a question seconds, and more commits are allowed.
MOST_UNINDEXED_ROWS_MEANWHILE, UNINDEXED_SHARE_MEANWHILE, LEAST_ROWS_OF_COMMITS = 20_000, 1 / 10, 20

# Short, because each version may be a copy of all rows; a query whose version was dropped is repeated.
_KEEP_VERSIONS = timedelta(minutes=1)
_KEEP_ALL_VERSIONS = timedelta(days=3650)
# Files are rewritten without removed rows, and old versions dropped some minutes later. After that it is not due again
# for an hour, or for a day in a large table, where it writes gigabytes.
_SECONDS_UNTIL_LET_GO = 600.0
_SECONDS_BETWEEN_FORGETTING, _SECONDS_BETWEEN_FORGETTING_MANY, _MANY_ROWS = 3600.0, 24 * 3600.0, 200_000
# A marker file beside the table while a user waits for removed text to leave the disk, so that a kill does not lose it.
_SUFFIX_HURRIED = ".hurried"
# The folders of LanceDB that a version consists of.
_FOLDERS = ("data", "_deletions", "_indices", "_versions")
# Below this, scanning all rows is as fast as using an index.
_MIN_ROWS_TO_INDEX = 10_000


T = TypeVar("T")


class Follower(Protocol):
    """Receives every change once it is durable, on the thread that wrote it, in order; must not raise."""

    def put(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        """The rows of these documents were replaced by the given ones."""
        ...

    def delete(self, document_ids: Collection[int]) -> None:
        """These documents have no rows any more."""
        ...

    def optimized(self) -> None:
        """The table was tidied up; its rows are the same."""
        ...


class ChunkTable(TableReader):
    """Chunks with their vectors and their word index. Created by `open`; `close` releases the memory."""

    def __init__(self, opened: OpenedTable, folder: Path, ledger: Ledger) -> None:
        cache_lease = ledger.take("index", "LanceDB's caches", "ram", 0)
        super().__init__(opened.table, opened.session, folder, cache_lease)
        self.set_aside, self.went_back_to_ns = opened.set_aside, opened.went_back_to_ns
        self._files = folder / f"{self._table.name}.lance"
        self._new_files = NewFiles([self._files / name for name in _FOLDERS])
        self._new_files.sync()
        self._rows_to_index = _unindexed_rows(self._table)
        self._commits = 0
        # Whether there was no disk space to tidy up; the unindexed and dead rows at that time, and the space that would
        # have been enough, if known.
        self.lacks_room = False
        self._num_put_off, self._wanted_bytes = (0, 0), math.inf
        # Removed or replaced rows that are still in files; and the time since which only old versions have such files.
        self._dead_rows = max(_dead_rows(self._table), int(self._has_files_of_before()))
        self._let_go_at: float | None = None
        self._clock, self._forgets_at = time.monotonic, -math.inf
        # The steps that a user waits for after a removal: rewriting files, and dropping old versions.
        self._hurried = self._files.with_suffix(_SUFFIX_HURRIED)
        self._steps_hurried = 2 if self._hurried.exists() else 0
        # The number of rows at the last tidying up.
        self._num_rows = self._table.count_rows()
        self._followers: list[Follower] = []
        self._disk_lease = ledger.take("index", "chunks, vectors and word index", "disk", self.num_bytes())

    @classmethod
    def open(cls, folder: Path, dimensions: int, identity: str, settings: MemorySettings, ledger: Ledger) -> ChunkTable:
        """Opens the table in `folder`, which is created if it is missing.

        If some of its newest files are lost, an earlier version is restored; `went_back_to_ns` is its time. A table
        that cannot be opened at all is renamed, not deleted; `set_aside` lists it.

        Raises:
            EmbedderMismatch: Its vectors come from another embedding model.
            DiskFull: There is no room to make it.
            LibraryError: It cannot be opened for a reason that renaming would not mend.
        """
        with ledger.growing("runtime", "LanceDB"):
            from engine.partitions.opening import open_table

        with reported("The index cannot be opened"):
            return cls(open_table(folder, dimensions, identity, settings), folder, ledger)

    def close(self) -> None:
        """Closes the table and releases its caches. A second call does nothing."""
        super().close()
        with self._noting:
            self._disk_lease.release()

    def follow(self, follower: Follower) -> None:
        """Passes every change to `follower` from now on."""
        with self._writing:
            self._followers.append(follower)

    def is_empty(self) -> bool:
        return not self._table.count_rows()

    # --- writing ---------------------------------------------------------------------------------

    def put_document(self, document_id: int, rows: Sequence[ChunkRow]) -> None:
        """Replaces the rows of a document in one commit, so that no reader sees half of it. Raises as below."""
        self.put_documents({document_id: rows})

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        """Replaces the rows of several documents in one commit.

        Raises:
            DiskFull: Nothing was written.
            LibraryError: Nothing was written, for the reason in the sentence.
        """
        from engine.partitions.schema import to_arrow

        rows = [row for of_document in documents.values() for row in of_document]
        if stray := [row.row_id for id_, of_one in documents.items() for row in of_one if row.document_id != id_]:
            raise ValueError(f"row {stray[0]} belongs to another document")
        if not rows:
            self.delete_documents(documents)
            return
        new = to_arrow(rows, self._table.schema)
        with self._writing, reported("The index could not be written"):
            self._dead_rows += self._change(lambda: self._committed(new, in_documents(documents)))
            self._rows_to_index += len(rows)
            self._commits += 1
            try:
                self._new_files.sync()
            finally:
                for follower in self._followers:
                    follower.put(documents)

    def _committed(self, new: Any, of_documents: str) -> int:
        """Replaces the rows of these documents; returns how many rows became dead.

        Replacing reads every row of the table, so documents without rows are added instead. This is checked at each
        try, because a try that reported an error may have committed, and no row may be there twice.
        """
        if not self._table.count_rows(of_documents):
            self._table.add(new)
            return 0
        result = (
            self._table.merge_insert("row_id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete(of_documents)
            .execute(new)
        )
        return int(result.num_deleted_rows + result.num_updated_rows)

    def delete_documents(self, document_ids: Collection[int]) -> None:
        """Removes all rows of these documents, and checks that none is left.

        Raises:
            DiskFull: Nothing was removed.
            LibraryError: Rows are left, or the table cannot be written.
        """
        if not document_ids:
            return
        with self._writing, reported("The index could not be written"):
            # WORKAROUND LanceDB 0.40.0: its stubs lack the number.
            result: Any = self._change(lambda: self._table.delete(in_documents(document_ids)))
            self._dead_rows += result.num_deleted_rows
            self._commits += 1
            try:
                self._new_files.sync()
                left = self._table.count_rows(in_documents(document_ids))
            finally:
                for follower in self._followers:
                    follower.delete(document_ids)
        if left:
            raise LibraryError(
                f"{left} passages of removed documents are still in the index.",
                "Remove the documents again; if it happens again, restart Ragdoll.",
            )

    def _change(self, change: Callable[[], T]) -> T:
        """Commits a change; retries once if it failed because a file of an index was missing."""
        try:
            return change()
        except (RuntimeError, ValueError, OSError) as error:
            if not is_of_an_index(error):
                raise
            self._mend_indices()
            return change()

    def is_optimize_due(self, *, more_comes: bool = False) -> bool:
        """Returns whether so much was written since `optimize` that questions and commits have become slower.

        While `more_comes`, only when they have become much slower. After a try that lacked disk space, the same amount
        must be written again first, unless there is enough space now.
        """
        most, share, commits = MOST_UNINDEXED_ROWS, UNINDEXED_SHARE, COMMITS_LIMIT
        if more_comes:
            most, share = MOST_UNINDEXED_ROWS_MEANWHILE, UNINDEXED_SHARE_MEANWHILE
        limit = min(most, max(UNINDEXED_ROWS_LIMIT, int(share * self._num_rows)))
        if more_comes:
            commits = max(commits, limit // LEAST_ROWS_OF_COMMITS)
        to_index, dead = (0, 0) if self._has_room(self._wanted_bytes) else self._num_put_off
        return max(self._rows_to_index - to_index, self._dead_rows - dead) >= limit or self._commits >= commits

    def optimize(self) -> None:
        """Brings new rows into the indices, joins small files, drops old versions.

        It does nothing once the table is closed: the next opening determines what is left to do.

        Raises:
            DiskFull: Nothing is lost; it can be repeated when there is space. The space is checked before writing.
            LibraryError: Nothing is lost either; the sentence has the reason.
        """
        self._tidy_up(is_thorough=False)

    def is_forgetting_due(self, can_spare: Callable[[], bool] = lambda: True) -> bool:
        """Returns whether it is time to rewrite files with removed rows, or to drop old versions.

        Unless a user waits for it, it is due only if `can_spare` says that the machine has power to spare.
        """
        now = self._clock()
        is_due = now >= self._forgets_at and (self._dead_rows > 0 or self._are_versions_old(now))
        return is_due and (self._steps_hurried > 0 or can_spare())

    def forget_soon(self) -> None:
        """Has removed rows deleted from the disk as soon as possible, at any cost, because a user removed them."""
        self._steps_hurried, self._forgets_at = 2, -math.inf
        try:
            write_durably(self._hurried, ())
        except OSError as error:
            log.info("that what is removed leaves the disk soon holds for this run only: %s", error)

    def forget_removed(self) -> bool:
        """Tidies up, so that removed rows are in no file once the versions of the last minutes are dropped as well.

        That needs another call when it is due. Files of a million rows may keep up to a tenth of removed rows. Raises
        as `optimize`.

        Returns:
            Whether a user waited for it, and all steps for that are done.
        """
        has_let_go, is_awaited = self._let_go_at is not None, self._steps_hurried > 0
        self._forgets_at = self._clock() + _SECONDS_UNTIL_LET_GO
        self._tidy_up(is_thorough=True)
        if self._is_closed:
            return False
        self._hurry(max(0, self._steps_hurried - 1))
        if has_let_go and not self._steps_hurried:
            is_many = self._num_rows >= _MANY_ROWS
            seconds = _SECONDS_BETWEEN_FORGETTING_MANY if is_many else _SECONDS_BETWEEN_FORGETTING
            self._forgets_at = self._clock() + seconds
        return is_awaited and not self._steps_hurried

    def _hurry(self, num_steps: int) -> None:
        """Sets how many steps are left; at none, deletes the marker file, so that the next start does not continue."""
        self._steps_hurried = num_steps
        if not num_steps:
            with suppress(OSError):
                self._hurried.unlink(missing_ok=True)

    def _has_files_of_before(self) -> bool:
        """Returns whether the disk may have rows that only old versions contain."""
        statistics: Any = self._table.stats()
        num_files = sum(1 for _ in self._files.glob("data/*"))
        return num_files > statistics["fragment_stats"]["num_fragments"] or any(self._files.glob("_deletions/*"))

    def _are_versions_old(self, now: float) -> bool:
        """Returns whether the versions with removed rows are old enough to be dropped."""
        return self._let_go_at is not None and now - self._let_go_at >= _KEEP_VERSIONS.total_seconds()

    def _tidy_up(self, *, is_thorough: bool) -> None:
        with self._writing:
            if self._is_closed:
                return
            try:
                with reported("The index could not be tidied up"):
                    self._join_files(is_thorough=is_thorough)
            except DiskFull:
                self._commits, self._num_put_off = 0, (self._rows_to_index, self._dead_rows)
                self.lacks_room = True
                raise
            for follower in self._followers:
                follower.optimized()
        num_bytes = self.num_bytes()
        with self._noting:
            if not self._is_closed:
                self._disk_lease.resize(num_bytes)
        self._note_caches()

    def _join_files(self, *, is_thorough: bool) -> None:
        self._make_room_to_join()
        self._table.optimize(cleanup_older_than=_KEEP_ALL_VERSIONS)
        if is_thorough and _dead_rows(self._table):
            self._write_anew()
        # The new version must be safe on the disk before files of old ones are deleted.
        self._new_files.sync()
        self._table.optimize(cleanup_older_than=_KEEP_VERSIONS)
        # This may have joined files again.
        self._new_files.sync()
        self._rows_to_index, self._commits, self._num_put_off = 0, 0, (0, 0)
        self.lacks_room, self._wanted_bytes = False, math.inf
        now = self._clock()
        if self._dead_rows:
            self._let_go_at = now
        elif self._are_versions_old(now):
            self._let_go_at = None
        self._num_rows, self._dead_rows = self._table.count_rows(), _dead_rows(self._table)
        if not self._dead_rows and self._let_go_at is None:
            # An ordinary clean-up may have done the last step that a user waits for.
            self._hurry(0)

    def _make_room_to_join(self) -> None:
        """Drops old versions if that is cheap, and checks that there is disk space to join all files.

        Joining writes the rows again, and if that fails, LanceDB keeps the incomplete files for a week.

        Raises:
            OSError: There is not enough space (ENOSPC); new rows have been indexed if that was possible.
        """
        files, num_unindexed = RowFiles.of(self._table), _unindexed_rows(self._table)
        self._wanted_bytes = math.inf
        has_room = self._has_room(files.bytes_to_join)
        if files.are_apart(num_unindexed) or (not has_room and self._set_apart(files, num_unindexed)):
            self._index_new_rows()
            files = RowFiles.of(self._table)
            has_room = self._has_room(files.bytes_to_join)
        if not has_room:
            self._wanted_bytes = files.bytes_to_join
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _set_apart(self, files: RowFiles, num_unindexed: int) -> bool:
        """Moves new rows to separate files, so that indexing them rewrites few others; returns whether it worked."""
        is_worth_it = num_unindexed >= UNINDEXED_ROWS_LIMIT and files.can_be_apart(num_unindexed)
        if not is_worth_it or not self._has_room(files.bytes_to_set_apart):
            return False
        files.set_apart(self._table)
        return RowFiles.of(self._table).are_apart(_unindexed_rows(self._table))

    def _has_room(self, num_bytes: float) -> bool:
        return num_bytes < math.inf and shutil.disk_usage(self._files).free >= num_bytes

    def _index_new_rows(self) -> None:
        """Brings new rows into the indices and drops old versions, which needs little space: no other row is written.

        Joining all files needs space for a copy of all rows, which dropping old versions may provide.

        WORKAROUND LanceDB 0.40.0: nothing but `optimize` drops versions, and it joins files first.
        """
        # Creates a new version, which is synced before any older one is dropped.
        self._table.delete("false")
        self._new_files.sync()
        self._table.optimize(cleanup_older_than=_KEEP_VERSIONS)
        self._new_files.sync()
        self._rows_to_index = _unindexed_rows(self._table)

    def _write_anew(self) -> None:
        """Rewrites also files with fewer than a tenth of removed rows, which LanceDB would leave unchanged.

        LanceDB joins small files that are in the same indices, so updating one row, which becomes a new file, makes it
        rewrite the others as well.
        """
        if 0 < self._table.count_rows() < MOST_ROWS_OF_SMALL_FILES:
            row = self._table.search().limit(1).to_arrow().select(self._table.schema.names)
            self._table.merge_insert("row_id").when_matched_update_all().execute(row)
            for _ in ("into the indices", "into one file"):
                self._table.optimize(cleanup_older_than=_KEEP_ALL_VERSIONS)

    def forget_loss(self) -> None:
        """Records that the catalogue knows about lost rows; until then each start reports them. Raises LibraryError."""
        from engine.partitions.recovery import forget_loss

        if self.went_back_to_ns is not None:
            with reported("The index could not be written"):
                forget_loss(self._files)
            self.went_back_to_ns = None

    def rows_set_aside(self, wanted: Mapping[int, int]) -> Iterator[dict[int, list[ChunkRow]]]:
        """Yields complete documents from tables that were set aside, some at a time, to be put here again.

        `wanted` are the documents to look for, and how many rows each has.
        """
        from engine.partitions.salvage import salvaged
        from engine.partitions.schema import IDENTITY_KEY, VECTOR_COLUMN

        schema, left = self._table.schema, dict(wanted)
        identity, dimensions = schema.metadata[IDENTITY_KEY].decode(), schema.field(VECTOR_COLUMN).type.list_size
        # The newest first.
        for folder in sorted(self._set_aside_folders(), key=lambda folder: folder.name, reverse=True):
            for documents in salvaged(folder, dimensions, identity, left) if left else ():
                for document_id in documents:
                    del left[document_id]
                yield documents

    def _set_aside_folders(self) -> list[Path]:
        return [*self._folder.glob(f"{self._table.name}.broken-*")]

    def drop_set_aside(self) -> None:
        """Deletes tables that were set aside, because their content has been written again."""
        for folder in self._set_aside_folders():
            shutil.rmtree(folder, ignore_errors=True)

    def index_vectors(self) -> None:
        """Creates the vector index, unless it exists or there are so few rows that scanning all is as fast.

        Writing continues meanwhile, because this takes about a minute for a million rows. Later `optimize` maintains
        it.

        Raises:
            LibraryError: It cannot be made.
        """
        from engine.partitions.schema import VECTOR_COLUMN, VECTOR_INDEX

        if self._has_vector_index() or self.count_rows() < _MIN_ROWS_TO_INDEX:
            return
        with reported("The index of the vectors could not be made"):
            try:
                self._table.create_index(VECTOR_COLUMN, config=VECTOR_INDEX)
            except RuntimeError as error:
                if "conflict" not in str(error).lower():
                    raise
                with self._writing:
                    self._table.create_index(VECTOR_COLUMN, config=VECTOR_INDEX)
            with self._writing:
                self._new_files.sync()

    def drop_vector_index(self) -> None:
        """Removes the vector index if there is one, so that it need not be maintained. Raises LibraryError."""
        from engine.partitions.schema import VECTOR_COLUMN

        with self._writing, reported("The index of the vectors could not be removed"):
            for index in self._table.list_indices():
                if VECTOR_COLUMN in index.columns:
                    self._table.drop_index(index.name)
            self._new_files.sync()


def _unindexed_rows(table: Table) -> int:
    from engine.partitions.schema import TEXT_COLUMN

    statistics = table.index_stats(f"{TEXT_COLUMN}_idx")
    return statistics.num_unindexed_rows if statistics else 0


def _dead_rows(table: Table) -> int:
    """Returns the number of removed rows in files; rounding may lose up to one for each file."""
    # WORKAROUND LanceDB 0.40.0: it declares objects here, and gives dictionaries.
    statistics: Any = table.stats()
    files = statistics["fragment_stats"]
    return max(0, int(files["num_fragments"] * files["lengths"]["mean"] - statistics["num_rows"]))
