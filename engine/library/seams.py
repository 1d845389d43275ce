"""What the indexer needs of its neighbours: narrow interfaces, for which tests provide fakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from engine.core import ReadDocument
from engine.errors import EmbedderUnavailable
from engine.partitions.rows import ChunkRow, Vectors


class Parser(Protocol):
    """Reads files in child processes (`engine.library.parsers.pool.ParserPool`)."""

    def read(
        self,
        path: str,
        tokenizer_file: Path | None,
        max_tokens: int,
        overlap_tokens: int,
        max_file_bytes: int,
        max_chunks: int,
        cancelled: threading.Event | None = None,
        passwords: Sequence[str] = (),
        ocr_languages: Sequence[str] = (),
        patience: float = 1.0,
    ) -> ReadDocument: ...

    def can_ocr(self, languages: Sequence[str]) -> bool: ...

    def forget_recognised(self) -> None:
        """Drops the text that is kept of pictures, whatever files these are in."""


class Embedder(Protocol):
    """Turns texts into vectors (`engine.embedder.Embedder`)."""

    @property
    def identity(self) -> str: ...

    @property
    def tokenizer_file(self) -> Path | None: ...

    def lengths(self, texts: Sequence[str]) -> list[int]: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors: ...


class Table(Protocol):
    """Keeps rows (`engine.partitions.table.ChunkTable`). Each call is all or nothing, and durable when it returns."""

    @property
    def set_aside(self) -> tuple[Path, ...]:
        """Where the table is that could not be opened, so that this one was made."""

    @property
    def went_back_to_ns(self) -> int | None:
        """Of when its rows are, where later ones were found to be lost when it was opened, now or before."""

    @property
    def lacks_room(self) -> bool:
        """Whether there was no room for tidying up when it was tried last."""

    def forget_loss(self) -> None:
        """It need not tell of that any more."""

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None: ...

    def delete_documents(self, document_ids: Collection[int]) -> None: ...

    def vectors_by_content_key(self, keys: Collection[str]) -> dict[str, Vectors]: ...

    def rows_of(self, document_id: int) -> list[ChunkRow]: ...

    def document_ids(self) -> set[int]: ...

    def is_optimize_due(self, *, more_comes: bool = False) -> bool: ...

    def optimize(self) -> None: ...

    def is_forgetting_due(self, can_spare: Callable[[], bool] = ...) -> bool: ...

    def forget_soon(self) -> None: ...

    def forget_removed(self) -> bool:
        """Returns whether a person waited for it, and it is done."""

    def rows_set_aside(self, wanted: Mapping[int, int]) -> Iterable[dict[int, list[ChunkRow]]]:
        """Whole documents that can be read of tables that were set aside; `wanted` says how many rows each has."""

    def drop_set_aside(self) -> None: ...


class Stores(Protocol):
    """The heavy pair; making it takes seconds."""

    @property
    def embedder(self) -> Embedder: ...

    @property
    def table(self) -> Table: ...


class Moving(Protocol):
    """Opens what the library is to be moved to, and makes it the one that answers (`engine.stores.StoresOpener`)."""

    def next(self) -> Stores | None: ...

    def switch(self) -> None: ...

    def failed(self, error: EmbedderUnavailable) -> None:
        """The library stays where it is, for this reason, until `next` is asked again."""

    def drop_removed(self) -> None:
        """Deletes from the table that is being filled, open or not, what is not in the library any more."""
