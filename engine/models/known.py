"""The models that the user has, as the settings list them; light, since every command may look a name up here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import BadRequest


def with_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    """The list with `path` in it once, newest last."""
    return (*(other for other in known if other != str(path)), str(path))


def without_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    return tuple(other for other in known if other != str(path))


def named(known: Sequence[str], name: str) -> Path | None:
    """The known model that a person means by `name`: its path, its file name, or its stem.

    Raises:
        BadRequest: Several are called so, as files of different owners often are.
    """
    wanted, files = Path(name).expanduser().absolute(), [Path(one) for one in known]
    if wanted in files:
        return wanted
    called = [file for file in files if name in (file.name, file.stem)]
    if len(called) > 1:
        raise BadRequest(f"Several models are called {name}: {', '.join(map(str, called))}.", "Give the path of one.")
    return called[0] if called else None
