"""The command `settings`: shows and changes every setting of the engine by its dotted name."""

from __future__ import annotations

import argparse
import json
from typing import Any

from engine.cli.inputs import folder_there, read_pair
from engine.cli.opening import reached
from engine.cli.output import Output
from engine.config import Settings
from engine.errors import BadRequest
from engine.library.typed_paths import absolute

# Settings that name a folder, and those that name a model, which may be a folder.
_FOLDERS = ("models.folder",)
_MODELS = ("embedder.model", "retrieval.reranker")


def settings(options: argparse.Namespace, out: Output) -> None:
    """Changes the settings given as NAME=VALUE, all or none; then prints the named ones, or all.

    Settings that take effect only after a restart of a running Ragdoll are reported as well.
    """
    all_names = list(by_name(Settings()))
    names = [text.partition("=")[0] for text in options.names] or all_names
    if unknown := [name for name in names if name not in all_names]:
        raise BadRequest(f"There is no setting named {unknown[0]!r}.", "ragdoll settings lists them all.")
    changes = dict(_here(*read_pair(text)) for text in options.names if "=" in text)
    with reached() as engine:
        if changes:
            engine.change_settings(changes)
        known, problem, pending = by_name(engine.settings), engine.settings_problem, engine.settings_pending
    told = {name: known[name] for name in names}
    if out.is_json:
        out.json({"settings": told, "problem": problem, "pending": pending})
        return
    for sentence in filter(None, (problem, pending)):
        out.line(sentence)
    for name, value in told.items():
        out.line(f"{name}={json.dumps(value, ensure_ascii=False)}")


def _here(name: str, value: Any) -> tuple[str, Any]:
    """Resolves a folder relative to the command's working directory, not the engine's."""
    if isinstance(value, str) and value and name in _FOLDERS:
        return name, absolute(value)
    return name, folder_there(value) if isinstance(value, str) and name in _MODELS else value


def by_name(tables: Settings) -> dict[str, Any]:
    """Returns all settings that this engine knows; those of a newer one are kept in the file, but not listed."""
    return {
        f"{table}.{key}": getattr(getattr(tables, table), key)
        for table in Settings.model_fields
        for key in type(getattr(tables, table)).model_fields
    }
