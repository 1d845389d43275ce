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
# The best first: what is loaded as it lies, and what is unpacked.
_WEIGHTS = (SAFETENSORS, PICKLED)
_LIBRARY = "sentence_transformers."
# Of the same library, and none that makes one vector of a text.
_OTHER_KINDS = ("sparse_encoder", "cross_encoder", "multi_vector_encoder")
_WAY_OUT = "Choose one from the list, or look on the hub for one that is tagged sentence-transformers."


def require_modules(repo: str, files: Iterable[str]) -> None:
    """Raises EmbedderUnavailable where the names of its files tell already that it is another kind of model."""
    if MODULES not in files:
        raise _is_none(repo, f"it has no {MODULES}")


def needed(repo: str, files: Iterable[str], modules: Path) -> Needed:
    """What has to be fetched of `files`, as the `modules` file of the repository has it.

    Raises:
        EmbedderUnavailable: It is no embedding model, or one that cannot be run here.
    """
    files = sorted(files)
    folders = _folders(repo, modules)
    weights = [file for folder in folders for file in weights_in(folder, files, _WEIGHTS)]
    if not weights:
        raise _is_none(repo, "its weights are in no format that is read here")
    return Needed(tuple(small_in(folders, files)), tuple(weights))


def require_plain(repo: str, folder: Path) -> None:
    """Raises EmbedderUnavailable where what the small files in `folder` say cannot be done here."""
    for part in _folders(repo, folder / MODULES):
        said = _read(repo, folder / part / "config.json")
        if "auto_map" in said:
            raise _is_none(repo, "it comes with a program of its own, and no program that was fetched is run here")


def say_prompts(folder: Path, prompts: Mapping[str, str]) -> None:
    """Writes them to where sentence-transformers looks for them, unless the model has prompts of its own.

    They are of the files that make its identity then: vectors that were made with others are not compared. Of what is
    wanted before questions alone that would be wrong, so it is left to whoever knows the model by its name.
    """
    file = folder / PROMPTS_FILE
    said = _read(folder.name, file)
    if prompts.get("document") and not are_said(said):
        file.write_text(json.dumps({**said, "prompts": dict(prompts)}, indent=2), encoding="utf-8")


def _folders(repo: str, modules: Path) -> list[str]:
    """The folders of its modules within it, "" for itself."""
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
