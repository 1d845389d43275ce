"""Requests about the library: what is linked and indexed, the state of each document, and a page to view."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.core import DEFAULT_COLLECTION, Collection, Document, DocumentState, PathText
from engine.protocol.message import Message, Method, Nothing


class DocumentProblem(Message):
    """A file that was not indexed, and why."""

    path: PathText
    reason: str


class AddPaths(Message):
    """Folders and files to index; folders are expanded by the engine."""

    paths: tuple[PathText, ...]
    collection: str = DEFAULT_COLLECTION


class Paths(Message):
    """Folders and files already in the library."""

    paths: tuple[PathText, ...]


class Removed(Message):
    """How many documents left the library; none of them can be cited again."""

    documents: int


class CollectionNamed(Message):
    """A collection by its present name; a name typed at a terminal that is not UTF-8 matches none."""

    name: PathText


class RenameCollection(Message):
    """Another name for a collection; its present name leads to it as well, until another collection gets that name."""

    name: PathText
    new_name: PathText


class OnlyThere(Message):
    """How many documents are in one collection and in no other: these leave the library with it."""

    documents: int


class Folder(Message):
    """A folder or file that the user linked, and its state.

    `absence` says in a sentence why it is out of reach ("" when it is not). `is_folder`: it is not a single file.
    `is_watched`: changes are noticed as they happen; otherwise at the next rescan. `num_gone` documents of it went
    missing at once and are kept until the user decides (see `SettleGone`).
    """

    path: PathText
    collection: str
    absence: str = ""
    is_folder: bool = True
    is_watched: bool = False
    num_documents: int = 0
    num_gone: int = 0


class EmbedderState(Message):
    """The embedding model in use, and in words for users how it runs ("bfloat16, batches of 8, 2 threads").

    While the library moves to another one, `next_name` is that one, and the counts say how far it is; the present one
    is used until all have moved. `problem` says why the model that the settings name cannot be used; it is at the end
    of the description as well.
    """

    name: str = ""
    identity: str = ""
    description: str = ""
    problem: str = ""
    next_name: str = ""
    documents_moved: int = 0
    documents_to_move: int = 0


class LibraryReply(Message):
    """The collections, the linked folders, and what is on disk.

    `num_documents` counts one that is in two collections once. `index_problem` says why nothing is found although
    documents were read, "" if that is not so, or not known yet. While indexing `is_paused`, what is added waits.
    """

    collections: tuple[Collection, ...]
    disk_bytes: int
    num_documents: int = 0
    folders: tuple[Folder, ...] = ()
    embedder: EmbedderState = EmbedderState()
    index_problem: str = ""
    is_paused: bool = False


class IndexReport(Message):
    """What a job did, as in `IndexFinished`, but with each file; `in_part` says what was left out of indexed files.

    Only the reply to `CHECK` omits files of each kind; `num_more` counts those of `skipped` and `failed`.
    """

    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[DocumentProblem, ...] = ()
    failed: tuple[DocumentProblem, ...] = ()
    in_part: tuple[DocumentProblem, ...] = ()
    chunks: int = 0
    seconds: float = 0.0
    was_cancelled: bool = False
    num_more: int = 0


class PathState(Message):
    """Whether what is at a path can be asked about.

    `read`: yes; for a folder, something in it. `waiting`: it is being read, or will be. `resting`: it is still to be
    read, but reading has stopped, as after a full disk. `unread`: nothing there could be read, and `reason` says why.
    `absent`: nothing there is in the library. `document_id` is that of the document there; None for a folder, and if
    there is none.
    """

    path: PathText
    state: Literal["read", "waiting", "resting", "unread", "absent"]
    reason: str = ""
    document_id: int | None = None


class PathStatesReply(Message):
    """One state for each path, in their order."""

    states: tuple[PathState, ...]


class Unlock(Message):
    """A password for documents that need one; all that it opens are read. `remember` keeps it for later starts."""

    paths: tuple[PathText, ...]
    password: str = Field(repr=False)
    remember: bool = False


class SettleGone(Message):
    """What to do with the documents of a folder that went missing at once: remove them, or keep what was indexed."""

    folder: PathText
    remove: bool


class ListDocuments(Message):
    """A page of documents, ordered by path; `states` empty means all, `document_ids` None means all.

    `name` keeps those whose path contains each of its words, in upper or lower case.
    """

    collection: str | None = None
    states: tuple[DocumentState, ...] = ()
    offset: int = 0
    limit: int = 500
    name: str = ""
    document_ids: tuple[int, ...] | None = None


class DocumentsReply(Message):
    """A page of documents; `total` counts all that match, `by_state` all that match apart from `states`."""

    documents: tuple[Document, ...]
    total: int
    by_state: dict[str, int] = Field(default_factory=dict)


class PageRequest(Message):
    """A page of a document with a span marked: `start` and `end` as in Passage; page None where there are none.

    `text` is what was cited: a file that has changed since may hold it elsewhere or no longer. "": whatever is there.
    """

    document_id: int
    page: int | None = None
    start: int = 0
    end: int = 0
    text: str = ""
    width_px: int = 900


class PageReply(Message):
    """Either a picture (PDF) with marks as fractions of its size, or text with a span marked.

    `image_png` is base64 and "" when the page is text. Long texts come as a window around the span:
    `text_start` is the offset of `text[0]` in the page. `num_pages` is 0 where there are none. `place` is what the
    document calls the page ("sheet “Budget”"), "" where that is "page N" or nothing. `is_changed`: what was cited is
    not there any more, and nothing is marked.
    """

    document: PathText
    page: int | None
    num_pages: int
    image_png: str = ""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    text: str = ""
    text_start: int = 0
    mark_start: int = 0
    mark_end: int = 0
    place: str = ""
    is_changed: bool = False


ADD = Method("library.add", AddPaths, Nothing, is_repeatable=True)
RESCAN = Method("library.rescan", Nothing, Nothing, is_repeatable=True)
PRIORITISE = Method("library.prioritise", Paths, Nothing, is_repeatable=True)
PATH_STATES = Method("library.path_states", Paths, PathStatesReply, is_repeatable=True)
UNLOCK = Method("library.unlock", Unlock, Nothing, is_repeatable=True)
SETTLE_GONE = Method("library.settle_gone", SettleGone, Removed)
REMOVE = Method("library.remove", Paths, Removed)
RENAME_COLLECTION = Method("library.rename_collection", RenameCollection, Nothing)
DELETE_COLLECTION = Method("library.delete_collection", CollectionNamed, Removed)
ONLY_IN_COLLECTION = Method("library.only_in_collection", CollectionNamed, OnlyThere)
REINDEX = Method("library.reindex", Paths, Nothing, is_repeatable=True)
PAUSE = Method("library.pause", Nothing, Nothing)
RESUME = Method("library.resume", Nothing, Nothing)
CANCEL_INDEXING = Method("library.cancel", Nothing, Nothing)
LIBRARY = Method("library.status", Nothing, LibraryReply)
DOCUMENTS = Method("library.documents", ListDocuments, DocumentsReply)
PAGE = Method("document.page", PageRequest, PageReply)
# The same, answered when the job has ended; all paths to add must exist.
ADD_AND_WAIT = Method("library.add_and_wait", AddPaths, IndexReport)
RESCAN_AND_WAIT = Method("library.rescan_and_wait", Nothing, IndexReport)
PRIORITISE_AND_WAIT = Method("library.prioritise_and_wait", Paths, IndexReport)
UNLOCK_AND_WAIT = Method("library.unlock_and_wait", Unlock, IndexReport)
# Also answered when the job has ended, but with the first files only: a window decodes it between two frames.
CHECK = Method("library.check", Nothing, IndexReport)
