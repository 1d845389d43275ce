"""Names of models as other applications see them: who answers, and whether it reads the user's files first.

`NAME` is a model by itself, which is what an application expects that brings its own context; `NAME:files` answers
from the library, and `NAME:files/COLLECTION` from one collection of it. `ragdoll` is whichever model is chosen in the
window. Most applications let people choose from a list of names and nothing else, so all there is to choose is in it,
the embedding model as well. That one has no such name as `ragdoll`: vectors of two models cannot be compared, so nobody
is to be given another one's unawares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core import QUOTES_ONLY

CHOSEN = "ragdoll"
FILES = ":files"


@dataclass(frozen=True, slots=True)
class Named:
    """What a name means: `model` as `Question.model`, and what is searched; `collection` None is all of them."""

    model: str
    searches: bool
    collection: str | None = None


def understood(name: str) -> Named:
    """What a name means, whether there is such a model or not."""
    model, files, where = name.partition(FILES)
    if where and not where.startswith("/"):
        # A file that happens to be called so.
        model, files, where = name, "", ""
    return Named("" if model in ("", CHOSEN) else model, bool(files), where[1:] or None)


def file_of(model: str, known: Iterable[str]) -> str | None:
    """`Question.model` for that of a name, by its stem, its file's name or its path; None where it is not known.

    Other files are not looked at, whoever names them: they are none of whoever asks, and may never end.
    """
    if model in ("", QUOTES_ONLY):
        return model
    return next((path for path in known if model in (path, Path(path).name, Path(path).stem)), None)


def offered(models: Iterable[str], collections: Sequence[str], embedder: str = "") -> list[str]:
    """All names that lead to an answer, or to vectors; single collections only where there are several."""
    places = ["", FILES, *(f"{FILES}/{name}" for name in collections if len(collections) > 1)]
    answering = [f"{model}{place}" for model in dict.fromkeys((CHOSEN, *models)) for place in places]
    return list(dict.fromkeys((*answering, *filter(None, [embedder]))))
