"""Searching the hub by words: the query, and the repositories with GGUF files in its reply. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from engine.errors import BadRequest
from engine.models.source import Folder, meant_by

MOST_FOUND = 20
# Names of models are shorter.
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words that are searched for, as they are sent."""

    words: str

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Parses typed text. Raises BadRequest if there is nothing to search for."""
        words = " ".join(text.split())[:_MOST_CHARACTERS]
        if not any(map(str.isalnum, words)):
            raise BadRequest("There are no words to search the hub for.", "Name a model, or a part of its name.")
        return cls(words)

    def __str__(self) -> str:
        return f"“{self.words}”"

    @property
    def query(self) -> str:
        """The query string; counts and gating are only returned on request."""
        asked = [("search", self.words), ("filter", "gguf"), ("sort", "downloads"), ("limit", str(MOST_FOUND))]
        # Lone surrogates cannot be encoded.
        return urlencode([*asked, *(("expand", one) for one in ("downloads", "likes", "gated"))], errors="replace")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as the hub describes it; None means that it does not say."""

    folder: Folder
    downloads: int | None
    likes: int | None
    is_gated: bool


def repositories_in(entries: Iterable[Mapping[str, Any]], hub: str) -> list[Repository]:
    """Returns the repositories with valid names that are not private, in the order of the hub."""
    found: list[Repository] = []
    for entry in entries:
        with suppress(BadRequest):
            folder = meant_by(str(entry.get("id") or entry.get("modelId")), hub)
            if isinstance(folder, Folder) and not entry.get("private"):
                counts = (_count(entry.get("downloads")), _count(entry.get("likes")))
                found.append(Repository(folder, *counts, is_gated=bool(entry.get("gated"))))
    return found[:MOST_FOUND]


def _count(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and told >= 0 else None
