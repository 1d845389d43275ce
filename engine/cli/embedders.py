"""The command `embedders`: which models can turn text into vectors, getting and deleting them, and which one does."""

from __future__ import annotations

import argparse
import sys

from engine.cli import words
from engine.cli.commanded import Commanded
from engine.cli.inputs import folder_there
from engine.cli.moving import carry_on
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import bar
from engine.errors import BadRequest
from engine.protocol import EmbedderEntry

_BUILT_IN = "built-in"


def embedders(options: argparse.Namespace, out: Output) -> None:
    """Lists them once what is wanted is done; the library is moved to what is chosen."""
    with opened() as engine:
        if options.action == "get":
            _get(engine, _named(options), out)
        elif options.action == "use":
            engine.change_settings({"embedder.model": _folder(engine, _named(options))})
        elif options.action == "delete":
            engine.delete_embedder(_source(engine, _named(options)))
        if options.action in ("get", "use"):
            carry_on(engine, out.is_json)
        entries, current = engine.embedders(), engine.settings.embedder.model
    if out.is_json:
        out.json({"embedders": [entry.model_dump() for entry in entries], "current": current or None})
        return
    for entry in entries:
        state = {"there": "is here", "part": "is here in part"}.get(entry.download.state, "")
        size = f"about {entry.num_bytes / 2**30:.1f} GB" if entry.num_bytes else ""
        mark = "*" if entry.path == current else " "
        facts = "  ".join(fact for fact in (words.typed(entry.name), size, entry.licence, state) if fact)
        out.line(f"{mark} {facts}\n    {entry.good_for or entry.source}")
    if not current:
        out.line("The one that comes with Ragdoll is in use; it knows English.")
    elif all(entry.path != current for entry in entries):
        out.line(f"In use: {current}")
    out.line("Get one with ragdoll embedders get NAME, or any other of the Hugging Face hub by its link or OWNER/NAME.")


def _get(engine: Commanded, name: str, out: Output) -> None:
    steps = engine.get_embedder(name)
    with bar("Getting", out.is_json, counts_bytes=True) as show:
        try:
            for step in steps:
                show(step.num_bytes, step.total_bytes, "" if step.is_new else "checking what is here")
        except KeyboardInterrupt:
            steps.close()
            print("ragdoll: what was fetched is kept; the same command goes on with it.", file=sys.stderr)
            raise


def _folder(engine: Commanded, name: str) -> str:
    """What the settings call a model: one that was got by its name, any other as it is named."""
    if name == _BUILT_IN:
        return ""
    entry = _here(engine, name)
    return entry.path if entry is not None else folder_there(name)


def _source(engine: Commanded, name: str) -> str:
    """What the hub calls one that was got; any other as it is named."""
    if name == _BUILT_IN:
        raise BadRequest("The embedding model that comes with Ragdoll is a part of it, and stays.")
    entry = _here(engine, name)
    return entry.source if entry is not None else name


def _here(engine: Commanded, name: str) -> EmbedderEntry | None:
    """One that was got, by what the hub calls it, its folder or its name. Raises BadRequest where several have that."""
    there = [entry for entry in engine.embedders() if entry.download.state == "there"]
    meant = [one for one in there if name in (one.source, one.path)]
    meant = meant or [one for one in there if name.casefold() == one.name.casefold()]
    if len(meant) > 1:
        sources = " and ".join(one.source for one in meant)
        raise BadRequest(f"Several are called {name}: {sources}.", "Name it as OWNER/NAME.")
    return meant[0] if meant else None


def _named(options: argparse.Namespace) -> str:
    if not options.name:
        raise BadRequest(f"'ragdoll embedders {options.action}' needs a name.", "ragdoll embedders lists some.")
    return str(options.name)
