"""Everything that can go wrong in the engine, named once; each error is a sentence and a way out.

RagdollError
├── ProtocolError            a line that is not a message of ours
├── BadRequest               a request whose arguments cannot be carried out as given
├── Cancelled                the work was stopped because its asker no longer wants it
├── EngineGone               the running engine that a command had called ended before it was done
├── LibraryError
│   ├── LibraryHeld          another Ragdoll process holds this library
│   ├── NothingThere         a path that was asked for does not exist
│   ├── CatalogBroken        the catalogue cannot be opened or is from a newer version
│   ├── HomeUnusable         our own folders, or a file in them, cannot be used
│   ├── DiskFull             no room to write what must be durable
│   ├── EmbedderUnavailable  the embedding model cannot be loaded
│   ├── EmbedderUntried      whether it can be loaded is unknown: the trial was ended, or a file could not be read
│   ├── EmbedderMismatch     the library's vectors come from another embedding model
│   └── DocumentUnreadable   one file cannot be indexed; all others are
│       ├── DocumentEmpty
│       ├── DocumentUnsupported
│       ├── DocumentEncrypted
│       ├── DocumentTooLarge
│       ├── DocumentNeedsOcr
│       └── ParserGaveUp     the parser ran out of time or memory, or crashed
├── ModelError
│   ├── ModelFileInvalid     not a GGUF file, cut short, or of an unknown architecture
│   ├── ModelUnreadable      the system did not let us read it; its content is unknown
│   ├── ModelNotFound
│   ├── DownloadFailed       it could not be downloaded; what was downloaded of it is kept
│   │   └── DownloadCut      the connection failed or the hub is busy: it may be retried automatically
│   ├── NotStreamable        its layers cannot be read one by one; it has to fit into memory
│   └── ModelLoadFailed
│       ├── NoRoomToLoad     there is not enough memory to load it as planned
│       └── LoadAbandoned    another model was chosen while this one was being loaded
└── GenerationError
    ├── PromptTooLong        question and instructions alone do not fit the context
    ├── NoCells              no KV cell is free
    ├── WeightsChanged       the file that layers are read from was replaced or is gone; the model is loaded again
    └── DecodeFailed
        ├── NoRoomToCompute  an allocation failed in the middle of it; with less it may succeed
        └── WeightsNotRead   a layer could not be read from the disk in time; the step can be repeated

A document that is *skipped* (empty, unsupported, encrypted: not a fault of ours) and one that
*failed* (broken, timed out, crashed) differ in `DocumentUnreadable.state`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import ValidationError


class RagdollError(Exception):
    """Base of all our errors.

    Args:
        sentence: What happened, complete and readable by a person who has never seen the code.
        way_out: What that person can do about it; empty when nothing needs doing.
    """

    def __init__(self, sentence: str, way_out: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.way_out = way_out

    @property
    def kind(self) -> str:
        """The class name: what the wire and scripts call this error."""
        return type(self).__name__

    def __str__(self) -> str:
        return f"{self.sentence} {self.way_out}".strip()


class ProtocolError(RagdollError):
    """A line is not a message of ours, or is of another protocol version."""


class BadRequest(RagdollError):
    """The request is well-formed, but its arguments cannot be carried out as given."""


class Cancelled(RagdollError):
    """The work was stopped because its asker no longer wants it; nothing is wrong."""


class EngineGone(RagdollError):
    """The engine of the open window ended while it carried out a command."""


class LibraryError(RagdollError):
    """Something about the user's documents or their index."""


class LibraryHeld(LibraryError):
    """Another Ragdoll process holds this data folder; there is one engine per library."""


class NothingThere(LibraryError):
    """A path that was asked for does not exist."""

    @classmethod
    def any_more(cls) -> NothingThere:
        """Makes the error for a document that has been removed."""
        return cls("The document is not in the library any more.", "The library page lists what is.")


class CatalogBroken(LibraryError):
    """The catalogue cannot be opened, or was written by a newer Ragdoll."""


class HomeUnusable(LibraryError):
    """One of our own folders cannot be made, or a file in it cannot be read or written by us."""

    @classmethod
    def by(cls, error: OSError, path: Path) -> HomeUnusable:
        """Makes the error; `path` is named if the system's error names no file."""
        return cls(
            f"Ragdoll cannot use {error.filename or path}: {error.strerror or error}.",
            "Make it writable or move it away, or set RAGDOLL_HOME to another folder.",
        )


class DiskFull(LibraryError):
    """There is no room on the disk for what must be durable."""


class EmbedderUnavailable(LibraryError):
    """The embedding model cannot be loaded, so nothing can be indexed or searched by meaning."""


class EmbedderUntried(LibraryError):
    """Whether an embedding model can be loaded is unknown: its trial was ended, or a file could not be read."""


class EmbedderMismatch(LibraryError):
    """The library's vectors come from another embedding model than the settings name; the two do not compare."""


class DocumentUnreadable(LibraryError):
    """The file exists but its text cannot be read; the rest of the folder is indexed."""

    state: ClassVar[Literal["skipped", "failed"]] = "failed"
    need: ClassVar[Literal["", "password", "ocr"]] = ""


class DocumentEmpty(DocumentUnreadable):
    """The file holds no text at all."""

    state = "skipped"


class DocumentUnsupported(DocumentUnreadable):
    """The file is of a kind we do not read (judged by its content, not its name)."""

    state = "skipped"


class DocumentEncrypted(DocumentUnreadable):
    """The file needs a password that we do not have."""

    state = "skipped"
    need = "password"


class DocumentTooLarge(DocumentUnreadable):
    """The file, or the number of its chunks, is over the configured limit; the sentence names both."""

    state = "skipped"


class DocumentNeedsOcr(DocumentUnreadable):
    """The pages are pictures of text."""

    state = "skipped"
    need = "ocr"


class ParserGaveUp(DocumentUnreadable):
    """The parser process ran out of time or memory on this file, or crashed."""


class ModelError(RagdollError):
    """Something about a model file."""


class ModelFileInvalid(ModelError):
    """The file is not a GGUF model, is cut short, or is of a kind llama.cpp cannot run."""


class ModelUnreadable(ModelError):
    """The system did not let us read a model file, at least now; its content may be valid."""


class ModelNotFound(ModelError):
    """No model file is where the settings or the request say it is."""


class DownloadFailed(ModelError):
    """A model could not be downloaded from the hub."""


class DownloadCut(DownloadFailed):
    """The connection failed, or the hub is busy; it may be retried after `wait_s` seconds (None: unknown)."""

    def __init__(self, sentence: str, way_out: str = "", wait_s: float | None = None) -> None:
        super().__init__(sentence, way_out)
        self.wait_s = wait_s


class NotStreamable(ModelError):
    """The layers of a model cannot be read from the disk one by one, so all of it has to fit into memory.

    `may_pass`: the cause is a temporary state of the disk, not the model.
    """

    def __init__(
        self,
        sentence: str,
        way_out: str = "Choose a smaller model, or let it use more memory.",
        *,
        may_pass: bool = False,
    ) -> None:
        super().__init__(sentence, way_out)
        self.may_pass = may_pass


class ModelLoadFailed(ModelError):
    """llama.cpp refused the model although its header looked right."""


class NoRoomToLoad(ModelLoadFailed):
    """A device has less free memory than weights or context need; `is_in_memory`: main memory has."""

    def __init__(self, sentence: str, way_out: str = "", *, is_in_memory: bool = False) -> None:
        super().__init__(sentence, way_out)
        self.is_in_memory = is_in_memory


class LoadAbandoned(ModelLoadFailed):
    """Nothing is wrong with the model: another one was chosen while it was being loaded."""


class GenerationError(RagdollError):
    """Something went wrong while writing an answer."""


class PromptTooLong(GenerationError):
    """Question and instructions alone do not fit the model's context."""


class NoCells(GenerationError):
    """No KV cell is free for the next tokens (`llama_decode` returned 1)."""


class DecodeFailed(GenerationError):
    """`llama_decode` failed; the sequence was trimmed to its last good position."""


class WeightsChanged(GenerationError):
    """The file that layers are read from was replaced, or its drive is gone: the model has to be loaded again."""


class NoRoomToCompute(DecodeFailed):
    """An allocation failed in a pass (`llama_decode` returned -2); a smaller pass may succeed."""


class WeightsNotRead(DecodeFailed):
    """A layer was missing when it was needed; the result of the pass is invalid, and the pass may be repeated.

    `drive_failed`: if the repetition fails too, it always will with the open file, even once the drive is back.
    """

    def __init__(self, sentence: str, way_out: str = "", *, drive_failed: bool = False) -> None:
        super().__init__(sentence, way_out)
        self.drive_failed = drive_failed


def is_disk_full(error: BaseException) -> bool:
    """Returns whether an error of the system, SQLite or LanceDB means that a disk is full (or a quota used up)."""
    if isinstance(error, DiskFull):
        return True
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # SQLite says it in words; LanceDB hands Rust's io::Error through as a RuntimeError.
    text = str(error).lower()
    return any(words in text for words in ("disk is full", "os error 28", "os error 122", "no space left on device"))


def first_fault(error: ValidationError) -> str:
    """Returns which value pydantic refused first, and why, for the middle of a sentence."""
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    # What JSON calls it.
    why = "it should be a list" if fault["type"] == "tuple_type" else fault["msg"]
    return f"{place}: {why}" if place else str(why)
