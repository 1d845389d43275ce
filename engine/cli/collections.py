"""The command `collections`: lists collections, renames and deletes one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.cli import words
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.errors import BadRequest

# The arguments of each action.
_NAMES = {"list": (), "rename": ("OLD", "NEW"), "delete": ("NAME",)}


def collections(options: argparse.Namespace, out: Output) -> None:
    """Carries out the action, and lists the collections."""
    names = _named(options)
    removed: int | None = None
    with opened() as engine:
        if options.action == "rename":
            engine.rename_collection(*names)
        elif options.action == "delete":
            removed = engine.delete_collection(*names)
        found, folders = engine.collections(), engine.folders()
    if out.is_json:
        done = {} if removed is None else {"documents": {"removed": removed}}
        out.json({**done, "collections": [asdict(collection) for collection in found]})
        return
    if removed is not None:
        out.line(f"{words.counted(removed, 'document')} removed; the files stay where they are.")
    words.tell_collections(found, folders, out)
    if not found:
        out.line("There is no collection; ragdoll add PATH --collection NAME creates one.")


def _named(options: argparse.Namespace) -> tuple[str, ...]:
    wanted = _NAMES[options.action]
    if len(options.names) != len(wanted):
        usage = " ".join(("ragdoll collections", options.action, *wanted))
        raise BadRequest(f"Usage: {usage}", "A name with spaces is put in quotation marks.")
    return tuple(options.names)
