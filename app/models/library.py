"""The library as it is shown: collections, documents, the indexing job and what it could not read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.documents import DocumentsTable
from app.models.steady_progress import NOTHING_DONE, advanced
from engine import protocol
from engine.protocol import Collection, Document, EmbedderState, Folder, IndexProgress, Method, Notice, P, R
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient

# While many files arrive, `library.changed` comes many times a second; lists do not need more updates than this.
REFRESH_MS = 500
MAX_PROBLEMS = 1000


class LibraryModel(QObject):
    """`collections`, `folders`, `embedder`, `disk_bytes`, `documents` (a table), `progress`, `problems`.

    `progress` is None when no job runs; `is_held` then says that indexing is paused and new files wait. `fraction` is
    the progress of the job, from 0 to 1, and only grows. `problems` are the first documents that were skipped or
    failed, with their reason, of the collection and with the name that `documents` lists.
    """

    collections_changed = Signal()  # collections, folders, embedder or disk_bytes
    progress_changed = Signal()  # progress, is_held
    problems_changed = Signal()  # problems
    job_finished = Signal(object)  # protocol.IndexFinished
    request_failed = Signal(str, str)  # a sentence, a way out
    paths_added = Signal(object, str)  # a tuple of paths was handed to the engine, for this collection
    documents_removed = Signal(int)  # how many
    check_finished = Signal(object)  # protocol.IndexReport of the job that `rescan` began

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.collections: tuple[Collection, ...] = ()
        self.folders: tuple[Folder, ...] = ()
        self.embedder = EmbedderState()
        self.disk_bytes = self.num_documents = 0
        self._share = NOTHING_DONE
        self._is_asking = self._is_stale = False
        # Collections that something was just added to and that the engine has not reported yet.
        self._begun: set[str] = set()
        # New names of collections, until the engine reports them.
        self._renaming: dict[str, str] = {}
        # Paths that were added to a collection and that the engine has not reported yet.
        self._entering: list[tuple[str, ...]] = []
        self._num_adding = Counter[str]()
        # Why the last job failed, if one has since a check was asked for.
        self._failure = ""
        self.progress: IndexProgress | None = None
        self.problems: tuple[Document, ...] = ()
        self.num_problems = 0
        self.is_known = self.is_held = False
        self.documents = DocumentsTable(client, self)
        self.documents.fetch_failed.connect(self.request_failed)
        self.documents.range_changed.connect(self._on_range_changed)
        self._refreshing = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._refreshing.timeout.connect(self.refresh)
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_state)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be asked and nothing is being added; False while nothing is known."""
        return self.is_known and not self.num_documents and self.progress is None

    @property
    def fraction(self) -> float | None:
        """How far the job is; None while its files are being counted, and when there is none."""
        return self._share.fraction if self.progress is not None else None

    @property
    def is_paused(self) -> bool:
        """Whether the user has paused the running job, or the next one."""
        return self.is_held if self.progress is None else self.progress.is_paused

    def is_gone(self, collection: str) -> bool:
        """Whether there is no such collection; False while nothing is known."""
        return self.is_known and collection not in self._begun and collection not in self._names

    def spelled(self, collection: str) -> str:
        """The name as it is written in an existing collection: the engine ignores case."""
        return next((name for name in self._names if name.casefold() == collection.casefold()), collection)

    def name_now(self, collection: str) -> str:
        """The present name of a collection that has, or had, this name; the same name if there is none."""
        if collection in self._begun:
            return collection
        spelled = self.spelled(collection)
        had_it = (one.name for one in self.collections if collection.casefold() in map(str.casefold, one.former_names))
        return spelled if spelled in self._names else next(had_it, collection)

    @property
    def default_collection(self) -> str:
        """Where files go unless the user says otherwise, under its present name."""
        return self.name_now(protocol.DEFAULT_COLLECTION)

    def is_entering(self, path: str) -> bool:
        """Whether a path was added that the engine has not confirmed yet."""
        return any(path in paths for paths in self._entering)

    # --- wishes ---

    def add(
        self,
        paths: Sequence[str | os.PathLike[str]],
        collection: str | None = None,
        *,
        is_first: bool = False,
        on_added: Callable[[str], object] = lambda _: None,
        on_refused: Callable[[tuple[str, ...]], object] = lambda _: None,
    ) -> tuple[str, ...]:
        """Indexes folders and files, in `collection` or in the default one; the engine expands folders.

        Args:
            paths: Where they lie.
            collection: None: the default one.
            is_first: Index them before all others that wait.
            on_added: Called with the name of the collection once the engine has confirmed them.
            on_refused: Called with the paths if the engine refuses them; `request_failed` says why.

        Returns:
            The paths as the engine knows them from now on.
        """
        absolute = tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)
        name = collection or self.default_collection
        # The collection may have been renamed by the time the engine reads this.
        name = self._renaming.get(name, name)
        if absolute:
            self._begun.add(name)
            self._num_adding[name] += 1
            self._entering.append(absolute)
            self._client.request(
                protocol.ADD,
                protocol.AddPaths(paths=absolute, collection=name),
                lambda _: self._on_entered(name, absolute, is_first, on_added),
                lambda error: self._on_add_failed(name, absolute, error, on_refused),
            )
            self.paths_added.emit(absolute, name)
        return absolute

    def remove(self, paths: Sequence[str]) -> None:
        """Removes documents and folders from the library; the files stay where they are."""
        self._send(protocol.REMOVE, protocol.Paths(paths=tuple(paths)), self._on_removed)

    def reindex(self, paths: Sequence[str]) -> None:
        """Indexes these again, even if they failed or have not changed."""
        self._send(protocol.REINDEX, protocol.Paths(paths=tuple(paths)))

    def rescan(self) -> None:
        """Checks all linked folders for changes now; `check_finished` reports the result."""
        # Other jobs may end before this one begins, so its own reply is awaited.
        self._failure = ""
        self._client.request(protocol.CHECK, protocol.Nothing(), self.check_finished.emit, self._on_check_failed)

    def prioritise(self, paths: Sequence[str]) -> None:
        """Indexes these before all others that wait."""
        self._send(protocol.PRIORITISE, protocol.Paths(paths=tuple(paths)))

    def unlock(self, paths: Sequence[str], password: str, remember: bool) -> None:
        """Tries a password on documents that need one; if it is wrong, the document's reason says so."""
        wanted = protocol.Unlock(paths=tuple(paths), password=password, remember=remember)
        self._send(protocol.UNLOCK, wanted)

    def rename_collection(self, name: str, new_name: str) -> None:
        """Renames a collection; chats that ask it keep asking it."""
        self._renaming[name] = new_name.strip()
        self._client.request(
            protocol.RENAME_COLLECTION,
            protocol.RenameCollection(name=name, new_name=new_name),
            lambda _: self.refresh(),
            lambda error: self._on_rename_failed(name, error),
        )

    def count_only_in(self, name: str, on_counted: Callable[[int], None]) -> None:
        """Reports how many documents would leave the library with a collection."""
        wanted = protocol.CollectionNamed(name=name)
        self._send(protocol.ONLY_IN_COLLECTION, wanted, lambda reply: on_counted(reply.documents))

    def delete_collection(self, name: str) -> None:
        """Deletes a collection, and removes documents that are in no other; the files stay where they are."""
        self._send(protocol.DELETE_COLLECTION, protocol.CollectionNamed(name=name), self._on_removed)

    def settle_gone(self, folder: str, remove: bool) -> None:
        """Removes the documents of `folder` that went missing at once, or keeps their index."""
        self._send(protocol.SETTLE_GONE, protocol.SettleGone(folder=folder, remove=remove), self._on_settled)

    def pause(self) -> None:
        # The job may have ended in the meantime.
        self._send(protocol.PAUSE, protocol.Nothing(), lambda _: self.refresh())

    def resume(self) -> None:
        self._send(protocol.RESUME, protocol.Nothing(), lambda _: self.refresh())

    def cancel(self) -> None:
        """Stops the job; finished documents stay."""
        self._send(protocol.CANCEL_INDEXING, protocol.Nothing())

    def refresh(self) -> None:
        """Requests everything again; if a request is pending, once more after it, because it may be too early."""
        self._refreshing.stop()
        if self._is_asking:
            self._is_stale = True
            return
        self._is_asking = True
        self._client.request(protocol.LIBRARY, protocol.Nothing(), self._on_library, self._on_error)
        self._request_problems()
        self.documents.refresh()

    # --- what the engine reports ---

    def _on_notice(self, notice: Notice) -> None:
        match notice:
            case protocol.LibraryChanged():
                if not self._refreshing.isActive():
                    self._refreshing.start()
            case protocol.IndexProgress():
                self._set_progress(notice)
            case protocol.IndexFinished():
                self._end_job()
                self.job_finished.emit(notice)
            case protocol.IndexFailed(sentence=sentence, way_out=way_out):
                self._end_job()
                self._failure = sentence
                self.request_failed.emit(sentence, way_out)
            case _:
                pass

    def _on_state(self, state: str) -> None:
        if state != "ready":
            self._set_held(False)
            self._set_progress(None)

    def _on_library(self, reply: protocol.LibraryReply) -> None:
        self.is_known = True
        self.collections, self.disk_bytes = reply.collections, reply.disk_bytes
        self.num_documents = reply.num_documents
        self.folders, self.embedder = reply.folders, reply.embedder
        self._set_held(reply.is_paused)
        self._begun = {name for name in self._begun if name not in self._names and not self._has_gone_on(name)}
        self._renaming = {name: new for name, new in self._renaming.items() if name in self._names}
        self.collections_changed.emit()
        self._catch_up()

    def _on_range_changed(self) -> None:
        # Until the reply arrives, there is nothing to help: what was listed before must not be acted on.
        self._set_problems((), 0)
        self._request_problems()

    def _request_problems(self) -> None:
        collection, name = self.documents.collection, self.documents.name

        def on_problems(reply: protocol.DocumentsReply) -> None:
            if (collection, name) == (self.documents.collection, self.documents.name):
                self._set_problems(reply.documents, reply.total)

        wanted = protocol.ListDocuments(
            collection=collection, states=("failed", "skipped"), name=name, limit=MAX_PROBLEMS
        )  # fmt: skip
        self._client.request(protocol.DOCUMENTS, wanted, on_problems)

    def _set_problems(self, problems: tuple[Document, ...], number: int) -> None:
        if (problems, number) != (self.problems, self.num_problems):
            self.problems, self.num_problems = problems, number
            self.problems_changed.emit()

    def _on_removed(self, reply: protocol.Removed) -> None:
        self.documents_removed.emit(reply.documents)
        self.refresh()

    def _on_settled(self, reply: protocol.Removed) -> None:
        if reply.documents:
            self.documents_removed.emit(reply.documents)
        self.refresh()

    def _catch_up(self) -> None:
        self._is_asking = False
        if self._is_stale:
            self._is_stale = False
            self._refreshing.start()

    def _on_error(self, error: WireError) -> None:
        # A dead engine is reported elsewhere, once; requests are repeated when it is back.
        if error.kind == "EngineDied":
            self._is_asking = self._is_stale = False
        else:
            self._catch_up()
            self.request_failed.emit(error.sentence, error.way_out)

    def _on_entered(
        self, collection: str, paths: tuple[str, ...], is_first: bool, on_added: Callable[[str], object]
    ) -> None:
        self._num_adding[collection] -= 1
        self._entering.remove(paths)
        if is_first:
            # What was indexed before, or is not a file, does not have to be.
            self._client.request(protocol.PRIORITISE, protocol.Paths(paths=paths))
        on_added(collection)

    def _on_add_failed(
        self,
        collection: str,
        paths: tuple[str, ...],
        error: WireError,
        on_refused: Callable[[tuple[str, ...]], object],
    ) -> None:
        self._num_adding[collection] -= 1
        self._begun.discard(collection)
        self._entering.remove(paths)
        self._on_wish_failed(error)
        self.collections_changed.emit()
        on_refused(paths)

    def _on_rename_failed(self, name: str, error: WireError) -> None:
        self._renaming.pop(name, None)
        self._on_wish_failed(error)

    def _has_gone_on(self, name: str) -> bool:
        """Whether a collection that was started under this name has another one now."""
        had_it = any(name.casefold() in map(str.casefold, one.former_names) for one in self.collections)
        return had_it and not self._num_adding[name]

    @property
    def _names(self) -> list[str]:
        return [collection.name for collection in self.collections]

    def _on_check_failed(self, error: WireError) -> None:
        # A dead engine is reported elsewhere, once; a job that failed has been reported when it ended.
        if error.kind != "EngineDied" and error.sentence != self._failure:
            self._on_wish_failed(error)

    def _on_wish_failed(self, error: WireError) -> None:
        self.request_failed.emit(error.sentence, error.way_out)

    def _end_job(self) -> None:
        # The next reply says whether new files are held back.
        self._set_held(False)
        self._set_progress(None)
        self.refresh()

    def _set_progress(self, progress: IndexProgress | None) -> None:
        if progress != self.progress:
            self._share = advanced(self._share, progress) if progress is not None else NOTHING_DONE
            self.progress = progress
            self.progress_changed.emit()

    def _set_held(self, is_held: bool) -> None:
        if is_held != self.is_held:
            self.is_held = is_held
            self.progress_changed.emit()

    def _send(self, method: Method[P, R], params: P, on_result: Callable[[R], None] | None = None) -> None:
        self._client.request(method, params, on_result, self._on_wish_failed)
