"""The command `embedders`: lists, downloads, deletes and chooses embedding models."""

from __future__ import annotations

import argparse

from engine.cli import hub_folders
from engine.cli.commanded import Commanded
from engine.cli.moving import carry_on
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.errors import BadRequest

_BUILT_IN = "built-in"
_COMMAND = "embedders"


def embedders(options: argparse.Namespace, out: Output) -> None:
    """Carries out the action, moves the library to a chosen model, and lists the models."""
    with opened() as engine:
        if options.action == "get":
            hub_folders.fetch(engine.get_embedder(hub_folders.named(options, _COMMAND)), out)
        elif options.action == "use":
            model = _folder(engine, hub_folders.named(options, _COMMAND))
            engine.change_settings({"embedder.model": model})
        elif options.action == "delete":
            engine.delete_embedder(_source(engine, hub_folders.named(options, _COMMAND)))
        if options.action in ("get", "use"):
            carry_on(engine, out.is_json)
        entries, current = engine.embedders(), engine.settings.embedder.model
    if out.is_json:
        out.json({"embedders": [entry.model_dump() for entry in entries], "current": current or None})
        return
    hub_folders.tell(entries, current, out)
    if not current:
        out.line("The built-in model is in use; it is for English.")
    elif all(entry.path != current for entry in entries):
        out.line(f"In use: {current}")
    out.line("Get one with ragdoll embedders get NAME, or any other of the Hugging Face hub by its link or OWNER/NAME.")


def _folder(engine: Commanded, name: str) -> str:
    return "" if name == _BUILT_IN else hub_folders.folder(engine.embedders(), name)


def _source(engine: Commanded, name: str) -> str:
    if name == _BUILT_IN:
        raise BadRequest("The built-in embedding model cannot be deleted.")
    return hub_folders.source(engine.embedders(), name)
