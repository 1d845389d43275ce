"""Reading: what becomes of one file before anything is embedded or written; always one of six outcomes."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.config import LibrarySettings
from engine.core import Document, FoundFile, ReadDocument
from engine.errors import (
    Cancelled,
    DiskFull,
    DocumentEmpty,
    DocumentUnreadable,
    ParserGaveUp,
    RagdollError,
    is_disk_full,
)
from engine.library.rows import content_keys
from engine.library.scanner import content_hash, look_at
from engine.library.seams import Embedder, Parser
from engine.library.well_formed import well_formed_document, well_formed_error

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """Read and cut into chunks; `keys` are their content keys. `file` is its state before it was read."""

    document: Document
    file: FoundFile
    content_hash: str
    read: ReadDocument
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Same:
    """Unchanged content: the stored rows are still correct."""

    document: Document
    file: FoundFile


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Skipped or failed for the error's reason; `file` is None if not even its size could be read."""

    document: Document
    error: DocumentUnreadable
    file: FoundFile | None = None
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class Vanished:
    """Gone since its folder was looked at."""

    document: Document


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Not readable now through no fault of the file, as when its drive failed; the next look tries again."""

    document: Document
    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """Given up by the parser; it is tried once more after all others, alone and with more time."""

    document: Document


Outcome = Ready | Same | Unreadable | Vanished | OutOfReach | Postponed

# Errors that concern one file: no permission, a bad name, or no regular file (None and 0 are our own errors). All
# others concern a drive, a server or the machine.
_OF_THE_FILE = frozenset(
    {None, 0, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO, errno.EFBIG}
)

# Shares of the time that a file may take: a file that hangs must not hold up the others for long, so it gets all of
# its time only when it is tried again at the end.
FIRST_PATIENCE, LAST_PATIENCE = 0.25, 1.0


class FileReader:
    """Reads documents through the parser; usable from several threads."""

    def __init__(
        self,
        parser: Parser,
        settings: LibrarySettings,
        embedder: Embedder,
        cancelled: threading.Event,
        passwords_of: Callable[[int], Sequence[str]] = lambda document_id: (),
        *,
        is_last_try: bool = True,
    ) -> None:
        """Takes what to read with. `is_last_try`: a file that the parser gives up on has failed, instead of waiting."""
        self._parser, self._settings, self._embedder, self._cancelled = parser, settings, embedder, cancelled
        self._passwords_of = passwords_of
        self._is_last_try = is_last_try

    def __call__(self, document: Document) -> Outcome:
        """Reads a document's file and returns the outcome.

        Raises:
            Cancelled: Reading was cancelled.
            RagdollError: A failure that concerns all files, as a full disk.
        """
        file: FoundFile | None = None
        digest = ""
        try:
            file = look_at(document.path)
            digest = self._hash(file)
            if digest and digest == document.content_hash and document.embedder == self._embedder.identity:
                return Same(document, file)
            read = self._read(document)
        except DocumentUnreadable as error:
            if isinstance(error, ParserGaveUp) and not self._is_last_try:
                return Postponed(document)
            return self._unless_lost(document, error) or Unreadable(document, well_formed_error(error), file, digest)
        except DiskFull as error:
            # The folder for unpacking is full. Smaller files may still fit, and the library's own disk may have room.
            return OutOfReach(document, str(error))
        except OSError as error:
            return _lost(document, error) or Unreadable(document, _told(error), file, digest)
        return Ready(document, file, digest, read, content_keys(read, self._embedder.identity))

    def _unless_lost(self, document: Document, error: DocumentUnreadable) -> Vanished | OutOfReach | None:
        """Returns an outcome if the file cannot be read any more: to a parser, a failing drive looks like damage."""
        try:
            file = look_at(document.path)
            if error.state == "failed":
                self._hash(file)
        except OSError as lost:
            return _lost(document, lost)
        return None

    def _hash(self, file: FoundFile) -> str:
        # A file that is too large is refused anyway, so it is not read here.
        return content_hash(file.path) if file.size_bytes <= self._settings.max_file_bytes else ""

    def _read(self, document: Document) -> ReadDocument:
        settings = self._settings
        try:
            read = self._parser.read(
                document.path,
                self._embedder.tokenizer_file,
                settings.chunk_tokens,
                settings.chunk_overlap_tokens,
                settings.max_file_bytes,
                settings.max_chunks_per_document,
                self._cancelled,
                self._passwords_of(document.document_id),
                settings.ocr_languages,
                LAST_PATIENCE if self._is_last_try else FIRST_PATIENCE,
            )
        except (RagdollError, OSError):
            raise
        except Exception as error:  # A bug that one file triggers must not stop the others.
            if self._cancelled.is_set():
                raise Cancelled("Reading was cancelled.") from error
            log.exception("reading %r met a fault of ours", document.path)
            raise DocumentUnreadable(f"Reading it met an unexpected error: {error}.", "Please report it.") from error
        if not read.chunks:
            raise DocumentEmpty("There is no text in it.")
        return well_formed_document(read)


def _lost(document: Document, error: OSError) -> Vanished | OutOfReach | None:
    """Returns the outcome of a document that is out of reach; None if the error concerns only this file."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Vanished(document)
    if is_disk_full(error):
        raise DiskFull("The disk is full; files could not be read.", "Free some space and start again.") from error
    if error.errno in _OF_THE_FILE:
        return None
    return OutOfReach(document, f"It could not be reached while it was read: {error.strerror or error}.")


def _told(error: OSError) -> DocumentUnreadable:
    way_out = "Give yourself permission to read it, then add it again." if isinstance(error, PermissionError) else ""
    return DocumentUnreadable(f"It cannot be opened: {error.strerror or error}.", way_out)
