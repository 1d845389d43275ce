"""Model files that are on this computer already, from other applications or in our folder.

A file of several gigabytes that is already here need not be downloaded again. The search runs only on request, and only
in known folders of models; the files stay where they are.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"GGUF"
# Smaller files are vocabularies, or are just being downloaded.
_LEAST_BYTES = 2**20
# Folders of models contain little else; in a folder with many other files the search is limited.
_MOST_ENTRIES = 20_000
_LATER_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_FIRST_PART = re.compile(r"-00001-of-\d{5}\.gguf$")
# Ollama names files by the hash of their content.
_BLOB = "sha256-"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which an application keeps models, at most `depth` folders deep; `app` is "" for ours."""

    app: str
    folder: Path
    depth: int = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A GGUF file, or the first of several, in a folder of `app`."""

    app: str
    path: Path


def places(home: Path, environ: Mapping[str, str], ours: Iterable[Path]) -> tuple[Place, ...]:
    """Returns where models may be for the user with the folder `home`; `ours` are our own folders of models.

    Covers applications on Linux, macOS and Windows, and folders that environment variables name.
    """
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    support, local = home / "Library/Application Support", Path(environ.get("LOCALAPPDATA") or home / "AppData/Local")
    roaming = Path(environ.get("APPDATA") or home / "AppData/Roaming")
    hub = environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or cache / "huggingface") / "hub"
    known = (
        ("", ours),
        ("LM Studio", (home / ".lmstudio/models", cache / "lm-studio/models")),
        ("GPT4All", (parent / "nomic.ai/GPT4All" for parent in (data, support, local))),
        ("Jan", (parent / "Jan/data" for parent in (config, data, support, roaming))),
        ("Jan", (home / "jan/models",)),
        ("Ollama", (environ.get("OLLAMA_MODELS") or home / ".ollama/models", "/usr/share/ollama/.ollama/models")),
        ("Hugging Face", (hub,)),
        ("llama.cpp", (environ.get("LLAMA_CACHE") or cache / "llama.cpp",)),
        ("AnythingLLM", (config / "anythingllm-desktop/storage/models",)),
    )
    found = [Place(app, Path(folder)) for app, folders in known for folder in folders]
    return (*found, Place("Downloads", home / "Downloads", depth=0))


def candidates(among: Collection[Place], known: Collection[str]) -> Iterator[Candidate]:
    """Yields GGUF files in these places that are not `known` yet, each once; unreadable files are skipped."""
    passed = {stamp for path in known if (stamp := _stamp(Path(path))) is not None}
    for place in among:
        for path in _files(place):
            stamp = _stamp(path)
            if stamp is None or stamp in passed or not _is_model(path):
                continue
            passed.add(stamp)
            yield Candidate(place.app, path)


def _files(place: Place) -> Iterator[Path]:
    """Yields files that may be models by their names; links to folders are not followed."""
    num_entries = 0
    for folder, folders, files in os.walk(place.folder):
        # Sorted, so that the result is the same if the limit is reached.
        folders[:] = sorted(folders) if len(Path(folder).relative_to(place.folder).parts) < place.depth else []
        for name in sorted(files):
            is_first = _FIRST_PART.search(name) or not _LATER_PART.search(name)
            if (name.lower().endswith(".gguf") and is_first) or name.startswith(_BLOB):
                yield Path(folder, name)
        num_entries += len(folders) + len(files)
        if num_entries > _MOST_ENTRIES:
            return


def _is_model(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _stamp(path: Path) -> tuple[int, int] | None:
    """Returns what identifies a file under any name: the hub's cache has links to its files.

    None for other things than files, such as pipes that would block, and for files that are too small.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    is_file = stat.S_ISREG(status.st_mode) and status.st_size >= _LEAST_BYTES
    return (status.st_dev, status.st_ino) if is_file else None
