"""A bar on a terminal while files are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from engine.engine import Engine
from engine.events import IndexProgressed


@contextmanager
def progress(engine: Engine, is_json: bool, title: str = "Indexing") -> Iterator[None]:
    """A bar on a terminal's stderr; nothing where no person is watching."""
    if is_json or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def show(event: object) -> None:
            if isinstance(event, IndexProgressed):
                name = os.path.basename(event.current).encode("utf-8", "replace").decode()
                bar.update(task, completed=event.documents_done, total=event.documents_total, description=name)

        unsubscribe = engine.subscribe(show)
        try:
            yield
        finally:
            unsubscribe()
