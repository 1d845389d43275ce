"""Continuing a move to another embedding model, which the window does in the background and a command at its end.

Messages about it go to stderr, because stdout has the command's result. The command's own work is done by then: a move
that stops does not fail the command, and continues the next time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast

from engine.cli import words
from engine.cli.commanded import Commanded
from engine.cli.output import say
from engine.cli.progress import progress
from engine.cli.running import RunningEngine
from engine.errors import EmbedderUnavailable
from engine.events import IndexFailed, IndexProgressed

if TYPE_CHECKING:
    from engine.engine import Engine


def carry_on(engine: Commanded, is_json: bool) -> None:
    """Moves the library to the embedding model that the settings name, and waits for it; returns at once if it has it.

    An open window moves its library by itself.
    """
    before = engine.embedder()
    if not isinstance(engine, RunningEngine):
        # The command's own work is done: Ctrl+C does not fail it.
        with _told(engine), progress(engine, is_json, "Moving"), suppress(KeyboardInterrupt):
            cast("Engine", engine).start_moving().wait()
    after = engine.embedder()
    if after.problem:
        say(after.problem)
    if before.identity and after.identity != before.identity:
        say(f"The library has moved to the embedding model {after.name}.")
    elif after.next_name:
        say(words.of_move(after))


@contextmanager
def _told(engine: Commanded) -> Iterator[None]:
    """Reports that a move has begun, and why it stopped."""
    is_told = False

    def hear(event: object) -> None:
        nonlocal is_told
        if isinstance(event, IndexFailed):
            # A model that does not load is reported by the state of the embedder.
            if not isinstance(event.error, EmbedderUnavailable):
                say(str(event.error))
        elif isinstance(event, IndexProgressed) and not is_told:
            is_told = True
            say(f"{words.of_move(engine.embedder())} Ctrl+C leaves it for the next time.")

    unsubscribe = engine.subscribe(hear)
    try:
        yield
    finally:
        unsubscribe()
