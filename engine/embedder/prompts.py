"""Prompts that a model needs before its texts but that its files do not state: known by the model's name.

What is embedded without them is found worse, and nothing tells of it. A model is recognised by the name that its card
gives it, or else by that of its folder, or by what its configuration was made from. One that was trained further, as
its card says, is another model, and left as its files have it; without a card it counts as what it was made from.
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
# Under these, some have what they want before questions; libraries look for "query" alone (E5 Mistral, Stella).
_QUESTIONS = ("web_search_query", "s2p_query")


def unsaid(folder: Path, card: Card, named: str) -> Mapping[str, str]:
    """What the model in `folder` wants before questions ("query") and passages ("document").

    Empty for nearly all, and for those that say it themselves by the names that sentence-transformers knows.

    Args:
        folder: Where it lies.
        card: What its card says.
        named: How the settings name it.

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
    """Whether what sentence-transformers saved beside a model has prompts; newer versions save empty ones with all."""
    prompts = said.get("prompts")
    return isinstance(prompts, dict) and any(prompts.values())


def _by_another_name(said: Mapping[str, Any]) -> str:
    prompts = said.get("prompts")
    # Of one that says what passages want, too, all is left as it is said.
    if not isinstance(prompts, dict) or any(map(prompts.get, ("query", "document", "passage", "corpus"))):
        return ""
    return next((prompt for name in _QUESTIONS if isinstance(prompt := prompts.get(name), str)), "")


def in_words(prompts: Mapping[str, str]) -> str:
    """For people, of prompts that it wants."""
    wanted = (
        (prompts.get(name, "").strip(), texts) for name, texts in (("query", "questions"), ("document", "passages"))
    )
    before = " and ".join(f"“{prompt}” before {texts}" for prompt, texts in wanted if prompt)
    return f"It wants {before}, and is given that."


def _names(folder: Path, named: str) -> Iterator[str]:
    """What may be its name, the likeliest first."""
    yield named
    yield folder.name
    # Of its snapshot in Hugging Face's cache.
    if (cached := folder.parent.parent.name).startswith(_CACHED):
        yield cached.removeprefix(_CACHED).replace("--", "/")
    yield str(read_object(folder / "config.json").get("_name_or_path", ""))


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; {} where there is none. Raises OSError, ValueError."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return content if isinstance(content, dict) else {}
