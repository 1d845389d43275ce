"""The command `serve`: the HTTP API without the window, until it is interrupted."""

from __future__ import annotations

import argparse
import threading
from contextlib import closing, suppress
from typing import Any

from engine.api.server import Server
from engine.cli.output import Output, say
from engine.config import Home
from engine.engine import Engine
from engine.errors import RagdollError
from engine.events import IndexFailed, ModelStateChanged, ProblemFound
from engine.guests import listening
from engine.host import EngineDesk
from engine.interruptible import until_set


def serve(options: argparse.Namespace, out: Output) -> None:
    """Serves, and keeps the library in step, as the window does; the setting of the window is not changed."""
    with (
        Engine(Home.find(), _tell, warm=True, watches=True) as engine,
        closing(Server(engine)) as server,
        listening(EngineDesk(engine), engine),
    ):
        given = {"enabled": True, **({} if options.port is None else {"port": options.port})}
        key = server.follow(engine.settings.server.model_copy(update=given)).key_needed
        if server.state.problem:
            raise RagdollError(server.state.problem)
        if out.is_json:
            out.json({"address": server.state.address, "key": key or None})
        else:
            out.line(f"Other applications can ask at {server.state.address}; Ctrl+C ends it.")
            out.line(f"Their key: {key}" if key else "They need no key.")
        out.flush()
        with suppress(KeyboardInterrupt):
            until_set(threading.Event())


def _tell(event: Any) -> None:
    """Reports problems; called on the engine's threads."""
    sentence = ""
    if isinstance(event, IndexFailed):
        sentence = str(event.error)
    elif isinstance(event, ProblemFound) or (isinstance(event, ModelStateChanged) and event.state == "failed"):
        sentence = event.sentence
    if sentence:
        say(sentence)
