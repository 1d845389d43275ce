"""The command `models`: which models can answer, and which does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.cli import hub_search, words
from engine.cli.commanded import Commanded
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import bar
from engine.errors import BadRequest, NothingThere
from engine.models.known import named, names_of
from engine.protocol import CatalogueEntry, HubFiles

_FILE = "OWNER/NAME/FILE.gguf"


def models(options: argparse.Namespace, out: Output) -> None:
    if options.action == "search":
        hub_search.search([_named_model(options, "words"), *options.words], out)
        return
    if options.words:
        raise BadRequest(f"'ragdoll models {options.action}' takes one name.", "Put quotes around a name with spaces.")
    if options.action == "get" and not options.file:
        _tell_catalogue(out)
        return
    if options.action == "find":
        _tell_elsewhere(out)
        return
    with opened() as engine:
        found = engine.look_up_model(options.file) if options.action == "get" else None
        if found is not None and found.folder:
            _tell_files(found, out)
            return
        measured = _measured(engine, out) if options.action == "measure" else ""
        if options.action == "add":
            engine.add_model(Path(_named_model(options)))
        elif options.action == "use":
            engine.choose_model(_named_model(options))
        elif options.action == "forget":
            engine.forget_model(_known(engine, _named_model(options)))
        elif options.action == "delete":
            engine.delete_model(_named_model(options))
        got = _got(engine, options.file, out) if options.action == "get" else None
        current = engine.settings.models.current
        entries = engine.models()
    if out.is_json:
        told = {name: value for name, value in (("measured", measured), ("got", got and str(got))) if value}
        out.json({"models": [entry.model_dump() for entry in entries], "current": current or None, **told})
        return
    if measured:
        out.line(measured)
    for entry, name in zip(entries, names_of([entry.path for entry in entries]), strict=True):
        mark = "*" if entry.path == current else " "
        # What it calls itself is nothing to type.
        title = name if entry.name == name else f"{name} ({entry.name})"
        out.line(f"{mark} {title}  {entry.file_bytes / 2**30:.2f} GB  {entry.problem or entry.fit}\n    {entry.path}")
        if entry.offer:
            out.line(f"    {entry.offer} Allow it: ragdoll settings memory.may_lose=true")
    if not current:
        out.line("No model is in use: answers are quotes from your files.")


def _tell_elsewhere(out: Output) -> None:
    """Models that other applications have brought to this computer."""
    with opened() as engine:
        found = engine.models_elsewhere()
    if out.is_json:
        out.json({"found": [one.model_dump() for one in found]})
        return
    for one in found:
        app = one.app or "folder of models"
        out.line(f"{one.model.name}  {one.model.file_bytes / 2**30:.2f} GB  ({app})\n    {one.model.path}")
    if found:
        out.line("Put one on the list with ragdoll models add FILE, or use it with ragdoll models use FILE.")
    else:
        out.line("No other model was found where LM Studio, GPT4All, Jan, Ollama and others keep theirs.")


def _tell_catalogue(out: Output) -> None:
    """What can be got, and how it would run here."""
    with opened() as engine:
        catalogue = engine.catalogue()
    if out.is_json:
        out.json({"catalogue": [entry.model_dump() for entry in catalogue]})
        return
    for entry in catalogue:
        size = f"about {entry.model.file_bytes / 2**30:.1f} GB"
        out.line(f"{words.typed(entry.model.name)}  {size}  {entry.licence}{_here(entry)}\n    {entry.model.fit}")
    out.line(f"Get one with ragdoll models get NAME, or any other of the Hugging Face hub by its link or {_FILE}.")
    out.line("Look for others there with ragdoll models search WORDS.")


def _tell_files(found: HubFiles, out: Output) -> None:
    """The models in a repository, of which one can be got."""
    if out.is_json:
        out.json({"folder": found.folder, "files": [entry.model_dump() for entry in found.files]})
        return
    for entry in found.files:
        out.line(f"{entry.source}  {entry.model.file_bytes / 2**30:.1f} GB{_here(entry)}")
        if entry.model.fit:
            out.line(f"    {entry.model.fit}")
    out.line(f"Get one with ragdoll models get {_FILE}.")


def _here(entry: CatalogueEntry) -> str:
    return {"there": "  is here", "part": "  is here in part"}.get(entry.download.state, "")


def _got(engine: Commanded, name: str, out: Output) -> Path:
    """Fetches a model, and says where it is; what an earlier try left is gone on with."""
    steps = engine.get_model(name)
    with bar("Getting", out.is_json, counts_bytes=True) as show:
        try:
            while True:
                step = next(steps)
                show(step.num_bytes, step.total_bytes, "" if step.is_new else "checking what is here")
        except StopIteration as end:
            path: Path = end.value
            return path
        except KeyboardInterrupt:
            steps.close()
            print("ragdoll: what was fetched is kept; the same command goes on with it.", file=sys.stderr)
            raise


def _measured(engine: Commanded, out: Output) -> str:
    """How fast the model in use is here, in words; what was measured before is not measured again."""
    with bar("Measuring", out.is_json) as show:
        for progress in engine.measure_model():
            show(progress.done, progress.total, "")
    return engine.measured()


def _known(engine: Commanded, name: str) -> Path:
    if (path := named(engine.settings.models.known, name)) is None:
        raise NothingThere(f"There is no model called {name} in the list.", "ragdoll models tells it.")
    return path


def _named_model(options: argparse.Namespace, what: str = "a file") -> str:
    if not options.file:
        raise BadRequest(f"'ragdoll models {options.action}' needs {what}.")
    return str(options.file)
