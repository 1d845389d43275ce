"""A progress bar on a terminal while files are read, or other long work runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.cli.commanded import Commanded
from engine.events import IndexProgressed


@contextmanager
def bar(title: str, is_json: bool, *, counts_bytes: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Shows a bar on stderr, updated with done, total and the current item; nothing without a terminal."""
    if is_json or not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    figures = (DownloadColumn(binary_units=True), TransferSpeedColumn()) if counts_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn(title), BarColumn(), *figures, TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}", markup=False), console=Console(stderr=True)) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total, what: shown.update(task, completed=done, total=total, description=what)


@contextmanager
def progress(engine: Commanded, is_json: bool, title: str = "Indexing") -> Iterator[None]:
    """Shows a bar that follows the indexing."""
    with bar(title, is_json) as show:

        def hear(event: object) -> None:
            if isinstance(event, IndexProgressed):
                name = os.path.basename(event.current).encode("utf-8", "replace").decode()
                show(event.documents_done, event.documents_total, name)

        unsubscribe = engine.subscribe(hear)
        try:
            yield
        finally:
            unsubscribe()
