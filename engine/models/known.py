"""The user's models as the settings list them; light, since every command may look up a name here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.config import expanded
from engine.errors import BadRequest


def with_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    """Returns the list with `path` in it once, newest last."""
    return (*(other for other in known if other != str(path)), str(path))


def without_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    return tuple(other for other in known if other != str(path))


def named(known: Sequence[str], name: str) -> Path | None:
    """Returns the known model with this path or name (see `called`); None if there is none.

    Raises:
        BadRequest: Several have this name, as files of different owners often do.
    """
    wanted, files = expanded(name), [Path(one) for one in known]
    if wanted in files:
        return wanted
    meant = called(known, name)
    if len(meant) > 1:
        raise BadRequest(f"Several models are called {name}: {', '.join(meant)}.", "Give the path of one.")
    return Path(meant[0]) if meant else None


def called(known: Sequence[str], name: str) -> list[str]:
    """Returns the models with this file name or stem, which may have folders before it, as OWNER/NAME/FILE.gguf."""
    wanted = Path(name).parts
    return [one for one in known if wanted and wanted in _ends(Path(one), len(wanted))]


def _ends(file: Path, num_parts: int) -> tuple[tuple[str, ...], ...]:
    return file.parts[-num_parts:], (*file.parts[:-1], file.stem)[-num_parts:]


def names_of(known: Sequence[str]) -> list[str]:
    """Returns a unique name for each of these files: its stem, or as much of its path as necessary."""
    ways = [(Path(path).stem, _with_owner(Path(path)), path) for path in known]
    often = Counter(name for way in ways for name in set(way))
    return [next((name for name in way if often[name] == 1), way[-1]) for way in ways]


def _with_owner(path: Path) -> str:
    return "/".join((*path.relative_to(path.anchor).parts[-3:-1], path.stem))
