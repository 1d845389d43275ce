"""The command `models`: lists, downloads, deletes, chooses and measures the models that write answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.cli import hub_folders, hub_search, words
from engine.cli.commanded import Commanded
from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.progress import bar
from engine.errors import BadRequest, NothingThere
from engine.models.known import named, names_of
from engine.protocol import CatalogueEntry, HubFiles, ModelEntry

_FILE = "OWNER/NAME/FILE.gguf"


def models(options: argparse.Namespace, out: Output) -> None:
    if options.action == "search":
        hub_search.search([_named_model(options, "words"), *options.words], out)
        return
    if options.words:
        raise BadRequest(f"'ragdoll models {options.action}' takes one name.", "Put quotes around a name with spaces.")
    if options.action == "get" and not options.file:
        _tell_catalogue(out)
    elif options.action == "find":
        _tell_elsewhere(out)
    else:
        _change_and_tell(options, out)


def _change_and_tell(options: argparse.Namespace, out: Output) -> None:
    """Carries out the action, if there is one, and lists the models as they are then."""
    with opened() as engine:
        if options.action == "get" and (found := engine.look_up_model(options.file)).folder:
            _tell_files(found, out)
            return
        act = _ACTIONS.get(options.action)
        result = act(engine, options, out) if act is not None else {}
        current = engine.settings.models.current
        entries = engine.models()
    _tell_models(entries, current, result, out)


def _tell_models(entries: Sequence[ModelEntry], current: str, result: Mapping[str, str], out: Output) -> None:
    if out.is_json:
        out.json({"models": [entry.model_dump() for entry in entries], "current": current or None, **result})
        return
    if "measured" in result:
        out.line(result["measured"])
    for entry, name in zip(entries, names_of([entry.path for entry in entries]), strict=True):
        mark = "*" if entry.path == current else " "
        # The name that a model gives itself cannot be typed in a command.
        title = name if entry.name == name else f"{name} ({entry.name})"
        out.line(f"{mark} {title}  {entry.file_bytes / 2**30:.2f} GB  {entry.problem or entry.fit}\n    {entry.path}")
        if entry.offer:
            out.line(f"    {entry.offer} Allow it: ragdoll settings memory.may_lose=true")
    if not current:
        out.line("No model is in use: answers are quotes from your files.")


def _tell_elsewhere(out: Output) -> None:
    """Lists models of other applications on this computer."""
    with opened() as engine:
        found = engine.models_elsewhere()
    if out.is_json:
        out.json({"found": [one.model_dump() for one in found]})
        return
    for one in found:
        app = one.app or "folder of models"
        out.line(f"{one.model.name}  {one.model.file_bytes / 2**30:.2f} GB  ({app})\n    {one.model.path}")
    if found:
        out.line("Add one to the list with ragdoll models add FILE, or use it with ragdoll models use FILE.")
    else:
        out.line("No other model was found where LM Studio, GPT4All, Jan, Ollama and others keep theirs.")


def _tell_catalogue(out: Output) -> None:
    """Lists models that can be downloaded, and how they would run here."""
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
    """Lists the models of a repository, each of which can be downloaded."""
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


def _add(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    engine.add_model(Path(_named_model(options)))
    return {}


def _use(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    engine.choose_model(_named_model(options))
    return {}


def _forget(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    engine.forget_model(_known(engine, _named_model(options)))
    return {}


def _delete(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    engine.delete_model(_named_model(options))
    return {}


def _get(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    """Downloads a model, and says where it is; a download that was interrupted is continued."""
    return {"got": str(hub_folders.fetch(engine.get_model(options.file), out))}


def _measure(engine: Commanded, options: argparse.Namespace, out: Output) -> dict[str, str]:
    """Measures the speed of the model in use; what was measured before is not measured again."""
    with bar("Measuring", out.is_json) as show:
        for progress in engine.measure_model():
            show(progress.done, progress.total, "")
    measured = engine.measured()
    return {"measured": measured} if measured else {}


# Each action returns fields that are shown with the list of models, if any.
_ACTIONS: dict[str, Callable[[Commanded, argparse.Namespace, Output], dict[str, str]]] = {
    "add": _add,
    "use": _use,
    "forget": _forget,
    "delete": _delete,
    "get": _get,
    "measure": _measure,
}


def _known(engine: Commanded, name: str) -> Path:
    if (path := named(engine.settings.models.known, name)) is None:
        raise NothingThere(f"There is no model called {name} in the list.", "ragdoll models lists all.")
    return path


def _named_model(options: argparse.Namespace, what: str = "a file") -> str:
    if not options.file:
        raise BadRequest(f"'ragdoll models {options.action}' needs {what}.")
    return str(options.file)
