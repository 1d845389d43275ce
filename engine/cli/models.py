"""The command `models`: which models can answer, and which does."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import bar
from engine.engine import Engine
from engine.errors import BadRequest


def models(options: argparse.Namespace, out: Output) -> None:
    with opened() as engine:
        measured = _measured(engine, out) if options.action == "measure" else ""
        if options.action == "add":
            engine.add_model(Path(_named_model(options)))
        elif options.action == "use":
            engine.choose_model(_named_model(options))
        current = engine.settings.models.current
        entries = engine.models()
    if out.is_json:
        told = {"measured": measured} if measured else {}
        out.json({"models": [entry.model_dump() for entry in entries], "current": current or None, **told})
        return
    if measured:
        out.line(measured)
    for entry in entries:
        mark = "*" if entry.path == current else " "
        out.line(
            f"{mark} {entry.name}  {entry.file_bytes / 2**30:.2f} GB  {entry.problem or entry.fit}\n    {entry.path}"
        )
        if entry.offer:
            out.line(f"    {entry.offer} Allow it: ragdoll settings memory.may_lose=true")
    if not current:
        out.line("No model is in use: answers are quotes from your files.")


def _measured(engine: Engine, out: Output) -> str:
    """How fast the model in use is here, in words; what was measured before is not measured again."""
    with bar("Measuring", out.is_json) as show:
        for progress in engine.measure_model():
            show(progress.done, progress.total, "")
    return engine.measured()


def _named_model(options: argparse.Namespace) -> str:
    if not options.file:
        raise BadRequest(f"'ragdoll models {options.action}' needs a file.")
    return str(options.file)
