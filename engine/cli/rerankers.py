"""The command `rerankers`: lists, downloads, deletes and chooses rerankers."""

from __future__ import annotations

import argparse

from engine.cli import hub_folders
from engine.cli.commanded import Commanded
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.errors import BadRequest

_NONE = "none"
_COMMAND = "rerankers"


def rerankers(options: argparse.Namespace, out: Output) -> None:
    """Carries out the action, and lists the rerankers; the next search uses a chosen one."""
    with opened() as engine:
        if options.action == "get":
            hub_folders.fetch(engine.get_reranker(hub_folders.named(options, _COMMAND)), out)
        elif options.action == "use":
            model = _folder(engine, hub_folders.named(options, _COMMAND))
            engine.change_settings({"retrieval.reranker": model})
        elif options.action == "delete":
            engine.delete_reranker(_source(engine, hub_folders.named(options, _COMMAND)))
        entries, current = engine.rerankers(), engine.settings.retrieval.reranker
    if out.is_json:
        out.json({"rerankers": [entry.model_dump() for entry in entries], "current": current or None})
        return
    hub_folders.tell(entries, current, out)
    if not current:
        out.line("None is in use: passages come in the order in which they were found.")
    elif all(entry.path != current for entry in entries):
        out.line(f"In use: {current}")
    out.line("Get one with ragdoll rerankers get NAME, or any other of the Hugging Face hub by its link or OWNER/NAME.")


def _folder(engine: Commanded, name: str) -> str:
    return "" if name == _NONE else hub_folders.folder(engine.rerankers(), name)


def _source(engine: Commanded, name: str) -> str:
    if name == _NONE:
        raise BadRequest(
            "“none” is not a reranker, and cannot be deleted.", "ragdoll rerankers lists those that are here."
        )
    return hub_folders.source(engine.rerankers(), name)
