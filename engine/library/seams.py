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
        """Drops all cached OCR text, whatever files it is from."""


class Embedder(Protocol):
    """Turns texts into vectors (`engine.embedder.Embedder`)."""

    @property
    def identity(self) -> str: ...

    @property
    def tokenizer_file(self) -> Path | None: ...

    def lengths(self, texts: Sequence[str]) -> list[int]: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors: ...


class Table(Protocol):
    """Stores rows (`engine.partitions.table.ChunkTable`). Each call is all or nothing, and durable when it returns."""

    @property
    def set_aside(self) -> tuple[Path, ...]:
        """The paths of tables that could not be opened and were replaced by this one."""

    @property
    def went_back_to_ns(self) -> int | None:
        """The time of the newest rows if later ones were lost, as found when the table was opened; else None."""

    @property
    def lacks_room(self) -> bool:
        """Whether the last compaction failed for want of room."""

    def forget_loss(self) -> None:
        """Clears `went_back_to_ns`."""

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
        """Rewrites files without removed rows; returns whether a user waited for that, and it is done."""

    def rows_set_aside(self, wanted: Mapping[int, int]) -> Iterable[dict[int, list[ChunkRow]]]:
        """Yields whole documents that can be read from replaced tables; `wanted` has the number of rows of each."""

    def drop_set_aside(self) -> None: ...


class Stores(Protocol):
    """The embedder and the table; opening them takes seconds."""

    @property
    def embedder(self) -> Embedder: ...

    @property
    def table(self) -> Table: ...


class Moving(Protocol):
    """Opens the stores to which the library moves, and switches to them (`engine.stores.StoresOpener`)."""

    def next(self) -> Stores | None: ...

    def switch(self) -> None: ...

    def failed(self, error: EmbedderUnavailable) -> None:
        """Keeps the library at its model, for this reason, until `next` is called again."""

    def drop_removed(self) -> None:
        """Deletes documents that are no longer in the library from the table being filled, open or not."""
