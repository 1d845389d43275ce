"""Model names as other applications see them: which model answers, and whether it reads the user's files first.

`NAME` is a model by itself, which is what an application expects that brings its own context; `NAME:files` answers
from the library, and `NAME:files/COLLECTION` from one collection of it. `ragdoll` is whichever model is chosen in the
window. Most applications only let users choose from a list of names, so everything that can be chosen is in it,
including the embedding model. That one has no alias like `ragdoll`: vectors of two models cannot be compared, so no
client may get those of another model unknowingly. Models of the same name are distinguished by folders, which the hub
calls owner and name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.core import QUOTES_ONLY
from engine.errors import BadRequest
from engine.models.known import called, names_of

CHOSEN = "ragdoll"
FILES = ":files"


@dataclass(frozen=True, slots=True)
class Named:
    """The meaning of a name: `model` as `Question.model`, and what is searched; `collection` None is all of them."""

    model: str
    searches: bool
    collection: str | None = None


def understood(name: str) -> Named:
    """The meaning of a name, whether there is such a model or not."""
    model, files, where = name.partition(FILES)
    if where and not where.startswith("/"):
        # A file that happens to have this name.
        model, files, where = name, "", ""
    return Named("" if model in ("", CHOSEN) else model, bool(files), where[1:] or None)


def file_of(model: str, known: Sequence[str]) -> str | None:
    """`Question.model` for a name on the list of models, or a path; None if it is unknown.

    Other files are never opened, because clients have no right to them and reading them may never end.

    Raises:
        BadRequest: Several have this name, as files of different owners often do.
    """
    if model in ("", QUOTES_ONLY) or model in known:
        return model
    meant = called(known, model)
    if len(meant) > 1:
        names = dict(zip(known, names_of(known), strict=True))
        raise BadRequest(
            f"Several models are called {model}.", f"Name one: {', '.join(map(names.__getitem__, meant))}."
        )
    return meant[0] if meant else None


def offered(models: Iterable[str], collections: Sequence[str], embedder: str = "") -> list[str]:
    """All names of models that answer or embed; single collections only if there are several."""
    places = ["", FILES, *(f"{FILES}/{name}" for name in collections if len(collections) > 1)]
    answering = [f"{model}{place}" for model in dict.fromkeys((CHOSEN, *models)) for place in places]
    answering += [f"{QUOTES_ONLY}{place}" for place in places if place]
    return list(dict.fromkeys((*answering, *filter(None, [embedder]))))
