"""Which files of a hub repository make an embedding model, whether they do, and its prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.embedder.prompts import FILE as PROMPTS_FILE
from engine.embedder.prompts import are_said
from engine.embedder.repository_files import PICKLED, SAFETENSORS, Needed, parsed, small_in, weights_in
from engine.errors import EmbedderUnavailable

MODULES = "modules.json"
# In the order of preference: safetensors are mapped, pickles have to be unpacked.
_WEIGHTS = (SAFETENSORS, PICKLED)
_LIBRARY = "sentence_transformers."
# Modules of the same library that do not make one vector per text.
_OTHER_KINDS = ("sparse_encoder", "cross_encoder", "multi_vector_encoder")
_WAY_OUT = "Choose one from the list, or look on the hub for one that is tagged sentence-transformers."


def require_modules(repo: str, files: Iterable[str]) -> None:
    """Raises EmbedderUnavailable if the list of files shows that it is another kind of model."""
    if MODULES not in files:
        raise _is_none(repo, f"it has no {MODULES}")


def needed(repo: str, files: Iterable[str], modules: Path) -> Needed:
    """Returns which of `files` are needed, according to the `modules` file of the repository.

    Raises:
        EmbedderUnavailable: It is not an embedding model, or cannot be run here.
    """
    files = sorted(files)
    folders = _folders(repo, modules)
    weights = [file for folder in folders for file in weights_in(folder, files, _WEIGHTS)]
    if not weights:
        raise _is_none(repo, "its weights are in no format that is read here")
    return Needed(tuple(small_in(folders, files)), tuple(weights))


def require_plain(repo: str, folder: Path) -> None:
    """Raises EmbedderUnavailable if the small files in `folder` require something that is not supported."""
    for part in _folders(repo, folder / MODULES):
        said = _read(repo, folder / part / "config.json")
        if "auto_map" in said:
            raise _is_none(repo, "it comes with a program of its own, and no program that was fetched is run here")


def say_prompts(folder: Path, prompts: Mapping[str, str]) -> None:
    """Writes prompts to where sentence-transformers reads them, unless the model has prompts of its own.

    They become part of its identity then, so that vectors made with other prompts are not compared. A prompt for
    questions alone must not change the identity, so it is not written, but found by the model's name.
    """
    file = folder / PROMPTS_FILE
    said = _read(folder.name, file)
    if prompts.get("document") and not are_said(said):
        file.write_text(json.dumps({**said, "prompts": dict(prompts)}, indent=2), encoding="utf-8")


def _folders(repo: str, modules: Path) -> list[str]:
    """Returns the folders of its modules, "" for the folder of the model itself."""
    said = _parsed(repo, modules)
    is_list = isinstance(said, list) and said and all(isinstance(module, dict) for module in said)
    types = [str(module.get("type")) for module in said] if is_list else []
    if not types or any(not type_.startswith(_LIBRARY) or _is_other(type_) for type_ in types):
        raise _is_none(repo, f"its {MODULES} tells of another kind")
    return [str(module.get("path", "")).strip("/") for module in said]


def _is_other(type_: str) -> bool:
    return any(f".{kind}." in type_ for kind in _OTHER_KINDS)


def _read(repo: str, file: Path) -> dict[str, Any]:
    said = _parsed(repo, file) if file.is_file() else {}
    return said if isinstance(said, dict) else {}


def _parsed(repo: str, file: Path) -> Any:
    try:
        return parsed(file)
    except (OSError, ValueError) as error:
        raise _is_none(repo, f"its {file.name} cannot be read") from error


def _is_none(repo: str, why: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{repo} is not an embedding model that Ragdoll can use: {why}.", _WAY_OUT)
