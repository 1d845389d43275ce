"""Calls about the library: indexing, its state, and what is shown of it.

A call whose name begins with `start_` only queues a job, whose progress and end come as events; the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from engine.config import bytes_below
from engine.core import DEFAULT_COLLECTION, Collection, Document, DocumentState, PageView
from engine.embedder import resolve
from engine.embedder.catalogue import CATALOGUE
from engine.embedding import Embedded, EmbeddingModel
from engine.errors import EmbedderUnavailable, NothingThere
from engine.events import IndexFinished, ProblemFound
from engine.library.typed_paths import absolute
from engine.library.well_formed import well_formed
from engine.library.worker import IndexJob, not_added
from engine.life_cycle import LifeCycle
from engine.protocol import EmbedderState, Folder, LanguageReply, PathState
from engine.retrieval.languages import foreign_language
from engine.retrieval.text_sample import sample


class LibraryCalls(LifeCycle):
    """The engine's calls about the library. Safe from any thread."""

    # --- indexing ---

    def add(self, paths: Sequence[str | Path], collection: str = DEFAULT_COLLECTION) -> IndexFinished:
        """Indexes folders and files and waits for it.

        Raises:
            BadRequest: A path is empty.
            NothingThere: A path does not exist.
            LibraryError: Something that concerns all files (disk full, embedder missing); what is indexed so far stays.
        """
        return self.start_adding_all([str(path) for path in paths], collection).wait()

    def start_adding_all(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Queues the same, for all paths or none. Raises as it does."""
        return self._add([absolute(path) for path in paths], collection)

    def start_adding(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Queues those paths that exist; progress and end come as events, and so do the missing paths.

        Raises:
            NothingThere: No path exists.
        """
        wanted = [absolute(path) for path in paths]
        there = [path for path in wanted if os.path.exists(path)]
        if 0 < len(there) < len(wanted):
            # Of three hundred dropped files one may have vanished: the others are still wanted.
            self._listeners.publish(ProblemFound(not_added([path for path in wanted if path not in there])))
        return self._add(there or wanted, collection)

    def _add(self, paths: Sequence[str], collection: str) -> IndexJob:
        job = self._parts.indexer.add(paths, collection)
        self._parts.watcher.wake()
        return job

    def rescan(self) -> IndexFinished:
        """Looks at all linked folders for what is new, changed or gone, and waits for it. Raises LibraryError."""
        return self.start_rescan().wait()

    def start_rescan(self) -> IndexJob:
        """Queues the same."""
        return self._parts.indexer.rescan()

    def start_reindexing(self, paths: Sequence[str]) -> IndexJob:
        """Reads these documents again, including failed ones."""
        return self._parts.indexer.reindex([absolute(path) for path in paths])

    def unlock(self, paths: Sequence[str | Path], password: str, *, remember: bool = False) -> IndexFinished:
        """Reads, with the password, documents at or below these paths that need one, and waits for it.

        Raises:
            BadRequest: The password is empty.
            NothingThere: No document there needs a password.
            LibraryError: As `add`.
        """
        return self.start_unlocking([str(path) for path in paths], password, remember=remember).wait()

    def start_unlocking(self, paths: Sequence[str], password: str, *, remember: bool = False) -> IndexJob:
        """Queues the same. Unless remembered, the password is kept in memory until the engine closes."""
        return self._parts.indexer.unlock([absolute(path) for path in paths], password, remember=remember)

    def prioritise(self, paths: Sequence[str | Path]) -> IndexFinished | None:
        """Reads pending documents at or below these paths before all others, and waits for it.

        None when there is nothing to wait for: nothing is pending there, or the running job reads it next.

        Raises:
            NothingThere: One of the paths has no documents of the library.
            LibraryError: As `add`.
        """
        job = self.start_prioritising([str(path) for path in paths])
        return job.wait() if job is not None else None

    def start_prioritising(self, paths: Sequence[str]) -> IndexJob | None:
        """Queues the same; returns the job, or None as above. Raises NothingThere as above."""
        return self._parts.indexer.prioritise([absolute(path) for path in paths])

    def pause_indexing(self) -> None:
        self._parts.indexer.pause()

    def resume_indexing(self) -> None:
        self._parts.indexer.resume()

    @property
    def is_paused(self) -> bool:
        """Whether indexing is paused, and what is added waits."""
        return self._parts.indexer.is_paused

    def cancel_indexing(self) -> None:
        self._parts.indexer.cancel()

    # --- missing documents, and removing ---

    def settle_gone(self, folder: str, *, remove: bool) -> int:
        """Decides about documents of a folder that went missing at once: removes them, or keeps what was read.

        Returns:
            How many were removed.

        Raises:
            NothingThere: No document of the folder waits for a decision.
        """
        return self._parts.indexer.settle_gone(absolute(folder), remove=remove)

    def remove(self, paths: Sequence[str | Path]) -> int:
        """Removes documents from the library; returns how many. Raises NothingThere for a path that is not in it."""
        removed = self._parts.indexer.remove([absolute(str(path)) for path in paths])
        self._parts.watcher.wake()
        return removed

    # --- collections ---

    def rename_collection(self, name: str, new_name: str) -> None:
        """Renames a collection; requests with its former name keep working.

        Raises:
            NothingThere: There is no collection named `name`.
            BadRequest: The new name is blank, invalid, or another collection's.
        """
        self._parts.indexer.rename_collection(name, new_name)

    def delete_collection(self, name: str) -> int:
        """Deletes a collection and its documents that are in no other; returns how many were removed.

        Raises:
            NothingThere: There is no such collection.
            LibraryError: The index could not be written.
        """
        removed = self._parts.indexer.remove_collection(name)
        self._parts.watcher.wake()
        return removed

    def only_in_collection(self, name: str) -> int:
        """Returns how many documents are in no other collection. Raises NothingThere as above."""
        return len(self._catalog.ids_only_in(name))

    # --- the embedding model ---

    def embedder(self) -> EmbedderState:
        """Returns the embedding model in use, and how far the library has moved to another one."""
        return self._parts.stores.state()

    def start_moving(self) -> IndexJob:
        """Moves the library to the embedding model that the settings name, when nothing else waits.

        An engine that is not `warm` does so only on request. The job ends at once if there is nothing to move, or the
        model is not on this computer; `embedder` reports its progress, an `IndexFailed` why it stopped.
        """
        return self._parts.indexer.consider_move()

    def embedding_model(self) -> EmbeddingModel | None:
        """Returns the model that `embed` uses now; None if neither the library's nor that of the settings is here."""
        if (table := self._catalog.active_table()) is not None:
            return EmbeddingModel(table.name, table.dimensions)
        try:
            spec = resolve(self.settings.embedder)
        except EmbedderUnavailable:
            return None
        return EmbeddingModel(spec.name, spec.dimensions)

    def embed(self, texts: Sequence[str]) -> Future[Embedded]:
        """Returns vectors of texts by the library's embedding model, as a future; questions and searches go first.

        Texts are embedded as documents: a model with separate prompts for questions and documents gets the prompt for
        documents, also for queries about these texts, as other local servers without prompts do it.

        Raises:
            RagdollError: The engine is closing.
        """
        return self._parts.embedding.embed(list(map(well_formed, texts)))

    def language(self) -> LanguageReply:
        """Returns whether the embedding model in use knows the language of the library, judged by a sample of texts.

        Raises:
            LibraryError: The table cannot be opened or read.
        """
        if not self._catalog.num_chunks() or self._catalog.next_table() is not None:
            return LanguageReply()
        try:
            stores = self._parts.stores()
        except EmbedderUnavailable:
            return LanguageReply()
        if not stores.embedder.is_english_only:
            return LanguageReply()
        language = foreign_language(sample(self._catalog, stores.table))
        offered_bytes = next((one.num_bytes for one in CATALOGUE if one.is_multilingual), 0)
        return LanguageReply(language=language, knows_english_only=True, offered_bytes=offered_bytes)

    # --- state ---

    def folders(self) -> tuple[Folder, ...]:
        """Returns the linked folders and files, and the state of each."""
        return tuple(
            Folder(
                path=linked.root.path,
                collection=linked.root.collection,
                absence=linked.root.absence,
                is_folder=linked.root.is_folder,
                is_watched=self._parts.watcher.is_watched(linked.root),
                num_documents=linked.num_documents,
                num_gone=linked.num_gone,
            )
            for linked in self._catalog.linked_folders()
        )

    def path_states(self, paths: Sequence[str | Path]) -> tuple[PathState, ...]:
        """Returns whether each path can be asked about, is still to be read, or is unavailable."""
        return self._parts.indexer.path_states([absolute(str(path)) for path in paths])

    @property
    def index_problem(self) -> str:
        """Why nothing is found although documents were indexed, in a sentence; "" if all is well or not opened yet."""
        return self._parts.stores.index_problem()

    def disk_bytes(self) -> int:
        """Returns the size of the library on disk."""
        return bytes_below(self.home.library)

    # --- collections, documents and pages ---

    def collections(self) -> tuple[Collection, ...]:
        return self._catalog.collections()

    def documents(
        self,
        collection: str | None = None,
        states: Sequence[DocumentState] = (),
        offset: int = 0,
        limit: int = 500,
        name: str = "",
        document_ids: Sequence[int] | None = None,
    ) -> tuple[tuple[Document, ...], int]:
        """Returns one page of documents ordered by path, and their total; `name` is searched for in their paths."""
        return self._catalog.documents(collection, states, offset, limit, name, document_ids)

    def documents_by_state(
        self, collection: str | None = None, name: str = "", document_ids: Sequence[int] | None = None
    ) -> dict[str, int]:
        """Returns how many of the documents that `documents` would return are in each state."""
        return self._catalog.documents_by_state(collection, name, document_ids)

    def document(self, document_id: int) -> Document:
        """Raises NothingThere when it has been removed."""
        document = self._catalog.document(document_id)
        if document is None:
            raise NothingThere("This document is no longer in the library.")
        return document

    def page(
        self, document_id: int, page: int | None, start: int, end: int, width_px: int = 900, text: str = ""
    ) -> PageView:
        """Returns a page with a passage marked, for the viewer; it is read from the file each time.

        `text` is what was cited: if the file has changed since, that text is searched for, and nothing else is marked.
        """
        path = self.document(document_id).path
        passwords = self._catalog.passwords_of(document_id)
        languages = self.settings.library.ocr_languages
        return self._parts.viewer.page(path, page, start, end, width_px, passwords, languages, text)
