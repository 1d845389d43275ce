"""The command `watch`: keeps the library in step with its folders without the window, until it is interrupted."""

from __future__ import annotations

import argparse
import threading
from contextlib import suppress

from engine.cli.library import tell_index
from engine.cli.output import Output, say
from engine.config import Home
from engine.engine import Engine
from engine.errors import RagdollError
from engine.events import IndexFailed, IndexFinished, ProblemFound
from engine.guests import listening
from engine.host import EngineDesk
from engine.interruptible import until_set


def watch(options: argparse.Namespace, out: Output) -> None:
    """Runs until it is interrupted, or its output is closed; prints each change of the library."""
    unheard, is_unheard = list[Exception](), threading.Event()

    def tell(event: object) -> None:
        if isinstance(event, IndexFinished):
            try:
                tell_index(event, out)
                out.flush()
            except (OSError, RagdollError) as error:
                # This runs on a thread of the engine, which must not fail for it.
                unheard.append(error)
                is_unheard.set()
        elif isinstance(event, IndexFailed):
            say(str(event.error))
        elif isinstance(event, ProblemFound):
            say(event.sentence)

    with (
        Engine(Home.find(), tell, watches=True) as engine,
        listening(EngineDesk(engine), engine),
        suppress(KeyboardInterrupt),
    ):
        engine.start_moving()
        if not out.is_json:
            out.line("Keeping the library in step with its folders; Ctrl+C ends it.")
            out.flush()
        until_set(is_unheard)
        raise unheard[0]
