"""Prompts that a model needs before its texts but that its files do not state: known by the model's name.

Without them results are worse, without any error. A model is recognised by the name in its card, otherwise by the name
of its folder or by the origin in its configuration. A model that was trained further, according to its card, is a
different one, and is used as its files say; without a card it counts as its origin.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.embedder import catalogue
from engine.embedder.card import Card

FILE = "config_sentence_transformers.json"
_CACHED = "models--"
# Other names for the prompt of questions, which libraries ignore: they only use "query" (E5 Mistral, Stella).
_QUESTIONS = ("web_search_query", "s2p_query")


def unsaid(folder: Path, card: Card, named: str) -> Mapping[str, str]:
    """Returns the prompts that the model in `folder` needs before questions ("query") and passages ("document").

    Empty for most models, and for those whose files have prompts under the names that sentence-transformers uses.

    Args:
        folder: The folder of the model.
        card: Its card.
        named: Its name in the settings.

    Raises:
        OSError, ValueError: A file of it cannot be read.
    """
    said = read_object(folder / FILE)
    if asked := _by_another_name(said):
        return {"query": asked, "document": ""}
    if card.is_derived or are_said(said):
        return {}
    names = (card.name,) if card.name else _names(folder, named)
    return next((prompts for prompts in map(catalogue.prompts_of, names) if prompts), {})


def are_said(said: Mapping[str, Any]) -> bool:
    """Returns whether the configuration has prompts; newer versions of sentence-transformers always save empty ones."""
    prompts = said.get("prompts")
    return isinstance(prompts, dict) and any(prompts.values())


def _by_another_name(said: Mapping[str, Any]) -> str:
    prompts = said.get("prompts")
    # A model that also has a prompt for passages is used as it is.
    if not isinstance(prompts, dict) or any(map(prompts.get, ("query", "document", "passage", "corpus"))):
        return ""
    return next((prompt for name in _QUESTIONS if isinstance(prompt := prompts.get(name), str)), "")


def in_words(prompts: Mapping[str, str]) -> str:
    """Describes the prompts for users."""
    wanted = (
        (prompts.get(name, "").strip(), texts) for name, texts in (("query", "questions"), ("document", "passages"))
    )
    before = " and ".join(f"“{prompt}” before {texts}" for prompt, texts in wanted if prompt)
    return f"It wants {before}, and is given that."


def _names(folder: Path, named: str) -> Iterator[str]:
    """Yields possible names of the model, the likeliest first."""
    yield named
    yield folder.name
    # The folder may be a snapshot in Hugging Face's cache.
    if (cached := folder.parent.parent.name).startswith(_CACHED):
        yield cached.removeprefix(_CACHED).replace("--", "/")
    yield str(read_object(folder / "config.json").get("_name_or_path", ""))


def read_object(file: Path) -> dict[str, Any]:
    """Reads the JSON object in a file; {} if there is none. Raises OSError, ValueError."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return content if isinstance(content, dict) else {}
