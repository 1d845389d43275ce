"""Files of a hub repository by their paths: small ones that describe a model, and weights.

Most repositories have the same weights several times, in formats for other libraries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CARD = "README.md"
# Large models have several files, and an index of them.
SAFETENSORS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")
PICKLED = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin")
_SMALL = frozenset({".json", ".txt", ".model"})


@dataclass(frozen=True, slots=True)
class Needed:
    """Files of a repository by their paths: small ones that describe the model, and weights."""

    small: tuple[str, ...]
    weights: tuple[str, ...]


def small_in(folders: Iterable[str], files: Iterable[str]) -> list[str]:
    """Returns the small files in some folders of it, "" for the top one, and its card."""
    folders = frozenset(folders)
    files = sorted(files)
    small = [file for file in files if folder_of(file) in folders and Path(file).suffix in _SMALL]
    return [*small, *(file for file in files if file == CARD)]


def weights_in(folder: str, files: Iterable[str], formats: Sequence[re.Pattern[str]]) -> list[str]:
    """Returns the weights in a folder, in the first of the formats that it has."""
    names = [file for file in sorted(files) if folder_of(file) == folder]
    found = ([name for name in names if form.fullmatch(Path(name).name)] for form in formats)
    return next((one for one in found if one), [])


def folder_of(file: str) -> str:
    return file.rpartition("/")[0]


def parsed(file: Path) -> Any:
    """Parses a JSON file. Raises OSError and ValueError."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{file.name} is nested too deeply") from error
