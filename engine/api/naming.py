"""Names of models as other applications see them: who answers, and whether it reads the user's files first.

`NAME` is a model by itself, which is what an application expects that brings its own context; `NAME:files` answers
from the library, and `NAME:files/COLLECTION` from one collection of it. `ragdoll` is whichever model is chosen in the
window. Most applications let people choose from a list of names and nothing else, so all there is to choose is in it,
the embedding model as well. That one has no such name as `ragdoll`: vectors of two models cannot be compared, so nobody
is to be given another one's unawares. Models that have one name are told apart by the folders above them, which the hub
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


def file_of(model: str, known: Sequence[str]) -> str | None:
    """`Question.model` for that of a name, by what it is `called` or its path; None where it is not known.

    Other files are not looked at, whoever names them: they are none of whoever asks, and may never end.

    Raises:
        BadRequest: Several are called so, as files of different owners often are.
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
    """All names that lead to an answer, or to vectors; single collections only where there are several."""
    places = ["", FILES, *(f"{FILES}/{name}" for name in collections if len(collections) > 1)]
    answering = [f"{model}{place}" for model in dict.fromkeys((CHOSEN, *models)) for place in places]
    answering += [f"{QUOTES_ONLY}{place}" for place in places if place]
    return list(dict.fromkeys((*answering, *filter(None, [embedder]))))
