"""The engine's side of parsing: child processes read files, so that none can hang, bloat or crash the engine.

A call borrows a child. A child that runs out of time or memory, crashes, or whose call is cancelled is killed, and the
next call starts another one. Children are executed, never forked, so it does not matter what the engine has loaded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.core import Chunk, PageView, ReadDocument
from engine.errors import (
    Cancelled,
    DiskFull,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentNeedsOcr,
    DocumentTooLarge,
    DocumentUnreadable,
    DocumentUnsupported,
    EmbedderUnavailable,
    LibraryError,
    ParserGaveUp,
    RagdollError,
)
from engine.library.parsers.frames import Head, unpack_chunk
from engine.library.parsers.process import ParserCrashed, ParserProcess, Part
from engine.library.parsers.tesseract import Tesseract, forget_all

_TICK_SECONDS = 0.1
_HEAD_BYTES = 1024
_ERRORS: dict[str, type[RagdollError]] = {
    error.__name__: error
    for error in (
        DocumentUnreadable,
        DocumentEmpty,
        DocumentUnsupported,
        DocumentEncrypted,
        DocumentTooLarge,
        DocumentNeedsOcr,
        ParserGaveUp,
        DiskFull,
        EmbedderUnavailable,
    )
}


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of a pool: `processes` files are read at once; a child may have `memory_bytes` of address space.

    One file may take `seconds`; this time starts again with each page that is recognised.
    """

    processes: int
    seconds: float
    memory_bytes: int


class ParserPool:
    """Parser children, each started when it is first needed; safe to use from any thread.

    Args:
        limits: Returns the current limits; each call uses those at its time.
        ocr_cache: The folder in which recognised pages are kept; None keeps none.
    """

    def __init__(self, limits: Callable[[], PoolLimits], ocr_cache: Path | None = None) -> None:
        self._limits = limits
        self._ocr_cache = ocr_cache
        # Idle children, the one used last at the end; the number of running calls.
        self._idle: list[ParserProcess] = []
        self._num_calls = 0
        self._place_freed = threading.Condition()
        self._lock = threading.Lock()
        self._children: set[ParserProcess] = set()
        self._closed = threading.Event()
        # PDEATHSIG fires when the thread that started the process ends, so one lasting thread starts all children.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parser-start")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
    ) -> ReadDocument:
        """Reads a file and returns its chunks.

        Args:
            path: The file; surrogate escapes stand for bytes that are not UTF-8.
            tokenizer_file: The embedder's `tokenizer.json`; None counts by rule of thumb.
            max_tokens: The most that a chunk may cost with its heading.
            overlap_tokens: What neighbouring chunks of a section share.
            max_file_bytes: Larger files are refused unread.
            max_chunks: Files with more chunks are refused.
            cancelled: Stops the work when set.
            passwords: Tried on what is encrypted.
            ocr_languages: What to read pictures in, by Tesseract's names; empty chooses by the system's language.
            patience: Its share of the time that a file may take.

        Raises:
            DocumentUnreadable: The file has no text for us; the sentence says why.
            DiskFull: There is no room to unpack what lies in it.
            EmbedderUnavailable: The tokenizer cannot be read.
            Cancelled: `cancelled` was set, or the pool was closed.
        """
        parts = self._ask(
            {
                "do": "read",
                "path": os.path.abspath(path),
                "tokenizer": os.path.abspath(tokenizer_file) if tokenizer_file else None,
                "max_tokens": max_tokens,
                "overlap_tokens": overlap_tokens,
                "max_file_bytes": max_file_bytes,
                "max_chunks": max_chunks,
                **self._means(passwords, ocr_languages),
            },
            cancelled,
            patience,
        )
        chunks: tuple[Chunk, ...] = tuple(
            unpack_chunk(fields) for head, _ in parts for fields in head.get("chunks", ())
        )
        result = parts[-1][0]["result"]
        return ReadDocument(
            result["format"], result["title"], result["num_pages"], chunks, result["remark"], result["needs"]
        )

    def can_ocr(self, languages: Sequence[str]) -> bool:
        """Returns whether pictures can be read in one of these languages (in any, if none is given)."""
        return Tesseract(languages).is_ready

    def page(
        self,
        path: str,
        page: int | None,
        start: int,
        end: int,
        width_px: int,
        passwords: Sequence[str] = (),
        ocr_languages: Sequence[str] = (),
        text: str = "",
    ) -> PageView:
        """Shows a page with `start..end` of its text marked: a picture of a PDF page, else the text around the span.

        If `text` is given, it is marked where it is now, even on another page.

        Raises:
            DocumentUnreadable: The file cannot be read any more, or has no such page.
            Cancelled: The pool was closed.
        """
        parts = self._ask(
            {
                "do": "page",
                "path": os.path.abspath(path),
                "page": page,
                "start": start,
                "end": end,
                "text": text,
                "width_px": width_px,
                "max_file_bytes": sys.maxsize,
                **self._means(passwords, ocr_languages),
            }
        )
        head, image = parts[-1]
        fields: dict[str, Any] = dict(head["result"])
        marks = tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in fields.pop("marks"))
        return PageView(**fields, marks=marks, image_png=image)

    def memory_bytes(self) -> int:
        """Returns the private memory of all children, for the ledger."""
        with self._lock:
            children = list(self._children)
        return sum(child.own_bytes() for child in children)

    def forget_recognised(self) -> None:
        """Drops the cache of recognised pages, which may have text of files that were removed."""
        if self._ocr_cache is not None:
            forget_all(self._ocr_cache)

    def close(self) -> None:
        """Ends all children; calls under way raise `Cancelled`. Closing twice is harmless."""
        with self._lock:
            self._closed.set()
            children, self._children = self._children, set()
        for child in children:
            child.kill()
        self._starter.shutdown(wait=True)

    def _means(self, passwords: Sequence[str], ocr_languages: Sequence[str]) -> Head:
        cache = os.path.abspath(self._ocr_cache) if self._ocr_cache else None
        means = {"passwords": list(passwords), "ocr_languages": list(ocr_languages), "ocr_cache": cache}
        return {**means, "avoids_pdfium": False}

    def _ask(self, command: Head, cancelled: threading.Event | None = None, patience: float = 1.0) -> list[Part]:
        def is_unwanted() -> bool:
            return self._closed.is_set() or (cancelled is not None and cancelled.is_set())

        try:
            with self._place(is_unwanted) as child:
                parts = child.ask(command, self._limits().seconds * patience, is_unwanted)
        except ParserCrashed:
            # PDFium is native code; pypdf may be able to read a file that crashes it.
            if command["avoids_pdfium"] or not _may_be_pdf(command["path"]):
                raise
            return self._ask({**command, "avoids_pdfium": True}, cancelled, patience)
        for head, _ in parts:
            if "error" in head:
                raise _refusal(head["error"])
        return parts

    @contextmanager
    def _place(self, is_unwanted: Callable[[], bool]) -> Iterator[ParserProcess]:
        """Yields a child for one call, starting it if necessary."""
        child = self._take(is_unwanted)
        try:
            if child is None or not self._is_fit(child):
                self._forget(child)
                child = None
                child = self._start()
            yield child
        finally:
            self._give_back(child)

    def _take(self, is_unwanted: Callable[[], bool]) -> ParserProcess | None:
        """Waits for a place; returns an idle child, or None if one must be started."""
        with self._place_freed:
            while not is_unwanted():
                if self._num_calls < self._limits().processes:
                    self._num_calls += 1
                    return self._idle.pop() if self._idle else None
                self._place_freed.wait(_TICK_SECONDS)
        raise Cancelled("Reading the file was cancelled.")

    def _give_back(self, child: ParserProcess | None) -> None:
        """Ends a call; its child is kept for the next call if there is a place for it."""
        if child is not None and not self._is_fit(child):
            self._forget(child)
            child = None
        with self._place_freed:
            self._num_calls -= 1
            if child is not None:
                self._idle.append(child)
            num_too_many = max(0, self._num_calls + len(self._idle) - self._limits().processes)
            gone, self._idle = self._idle[:num_too_many], self._idle[num_too_many:]
            self._place_freed.notify()
        for one in gone:
            self._forget(one)

    def _is_fit(self, child: ParserProcess) -> bool:
        """Returns whether the child is alive and has the current memory limit."""
        return child.is_alive and child.memory_bytes == self._limits().memory_bytes

    def _start(self) -> ParserProcess:
        with self._lock:
            if self._closed.is_set():
                raise Cancelled("Reading the file was cancelled.")
            try:
                child = self._starter.submit(ParserProcess, self._limits().memory_bytes).result()
            except OSError as error:
                # This failure is not about the file that was to be read.
                raise LibraryError(
                    f"The program that reads files cannot be started: {error.strerror or error}.",
                    "Restart Ragdoll; if it happens again, reinstall it.",
                ) from error
            self._children.add(child)
            return child

    def _forget(self, child: ParserProcess | None) -> None:
        if child is not None:
            child.kill()
            with self._lock:
                self._children.discard(child)


def _may_be_pdf(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return b"%PDF-" in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def _refusal(error: dict[str, str]) -> RagdollError:
    return _ERRORS.get(error["kind"], DocumentUnreadable)(error["sentence"], error["way_out"])
