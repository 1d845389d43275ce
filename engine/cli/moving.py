"""Carrying on a move to another embedding model, which the window does in the background and a command at its end.

What is told of it goes to stderr, for stdout has what was asked for. The command's own work is done by then: a move
that stops is no failure of it, and goes on the next time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast

from engine.cli import words
from engine.cli.commanded import Commanded
from engine.cli.progress import progress
from engine.cli.running import RunningEngine
from engine.errors import EmbedderUnavailable
from engine.events import IndexFailed, IndexProgressed

if TYPE_CHECKING:
    from engine.engine import Engine


def carry_on(engine: Commanded, is_json: bool) -> None:
    """Moves the library to the embedding model that the settings name, and waits for it; at once where it has it.

    An open window moves its library by itself.
    """
    before = engine.embedder()
    if not isinstance(engine, RunningEngine):
        # What the command was for is done: leaving is no failure of it.
        with _told(engine), progress(engine, is_json, "Moving"), suppress(KeyboardInterrupt):
            cast("Engine", engine).start_moving().wait()
    after = engine.embedder()
    if after.problem:
        _say(after.problem)
    if before.identity and after.identity != before.identity:
        _say(f"The library has moved to the embedding model {after.name}.")
    elif after.next_name:
        _say(words.of_move(after))


@contextmanager
def _told(engine: Commanded) -> Iterator[None]:
    """Says that a move has begun once it is known to be one, and why it stopped."""
    is_told = False

    def hear(event: object) -> None:
        nonlocal is_told
        if isinstance(event, IndexFailed):
            # Of a model that does not load the state of the embedder tells.
            if not isinstance(event.error, EmbedderUnavailable):
                _say(str(event.error))
        elif isinstance(event, IndexProgressed) and not is_told:
            is_told = True
            _say(f"{words.of_move(engine.embedder())} Ctrl+C leaves it for the next time.")

    unsubscribe = engine.subscribe(hear)
    try:
        yield
    finally:
        unsubscribe()


def _say(sentence: str) -> None:
    print(f"ragdoll: {sentence}", file=sys.stderr)
