"""What of a repository of the hub makes a reranker here: which files, and whether they do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.embedder.repository_files import PICKLED, SAFETENSORS, Needed, parsed, small_in, weights_in
from engine.embedder.reranker_spec import CONFIG, MODULES, lack_of, lack_of_parts
from engine.errors import EmbedderUnavailable

# A tokenizer is in one of these.
_TOKENIZERS = frozenset(
    {"tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model"}
)
_WAY_OUT = "Choose one of the list, or look on the hub for one that is tagged cross-encoder or text-ranking."


def require_listed(repo: str, files: Iterable[str]) -> None:
    """Raises EmbedderUnavailable if the list of files shows that it cannot be used here."""
    files = frozenset(files)
    if CONFIG not in files:
        raise _is_none(repo, f"it has no {CONFIG}")
    if not weights_in("", files, (SAFETENSORS,)):
        if weights_in("", files, (PICKLED,)):
            raise _is_none(
                repo,
                "its weights are only in a format (.bin) that may hold a program, and none that was fetched is run",
            )
        raise _is_none(repo, "its weights are in no format that is read here")
    if not files & _TOKENIZERS:
        raise _is_none(repo, "it has no tokenizer")


def needed(repo: str, files: Iterable[str], config: Path) -> Needed:
    """Returns which of `files` are needed, if the `config` file says that it is a cross-encoder.

    Raises:
        EmbedderUnavailable: It is not a cross-encoder, or cannot be run here.
    """
    said = _parsed(repo, config)
    if lack := lack_of(said if isinstance(said, dict) else {}):
        raise _is_none(repo, lack)
    files = sorted(files)
    return Needed(tuple(small_in(("",), files)), tuple(weights_in("", files, (SAFETENSORS,))))


def require_plain(repo: str, folder: Path) -> None:
    """Raises EmbedderUnavailable if the small files in `folder` require something that is not supported."""
    modules = folder / MODULES
    if modules.is_file() and (lack := lack_of_parts(_parsed(repo, modules))):
        raise _is_none(repo, lack)


def _parsed(repo: str, file: Path) -> Any:
    try:
        return parsed(file)
    except (OSError, ValueError) as error:
        raise _is_none(repo, f"its {file.name} cannot be read") from error


def _is_none(repo: str, why: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{repo} is no reranker that Ragdoll can use: {why}.", _WAY_OUT)
