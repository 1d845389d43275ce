"""The user's models as the settings list them; light, since every command may look up a name here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.errors import BadRequest


def with_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    """The list with `path` in it once, newest last."""
    return (*(other for other in known if other != str(path)), str(path))


def without_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    return tuple(other for other in known if other != str(path))


def named(known: Sequence[str], name: str) -> Path | None:
    """The known model that a person means by `name`: its path, or what it is `called`.

    Raises:
        BadRequest: Several are called so, as files of different owners often are.
    """
    wanted, files = Path(name).expanduser().absolute(), [Path(one) for one in known]
    if wanted in files:
        return wanted
    meant = called(known, name)
    if len(meant) > 1:
        raise BadRequest(f"Several models are called {name}: {', '.join(meant)}.", "Give the path of one.")
    return Path(meant[0]) if meant else None


def called(known: Sequence[str], name: str) -> list[str]:
    """The models that `name` may mean: a file's name or stem, also with folders before it, as OWNER/NAME/FILE.gguf."""
    wanted = Path(name).parts
    return [one for one in known if wanted and wanted in _ends(Path(one), len(wanted))]


def _ends(file: Path, num_parts: int) -> tuple[tuple[str, ...], ...]:
    return file.parts[-num_parts:], (*file.parts[:-1], file.stem)[-num_parts:]


def names_of(known: Sequence[str]) -> list[str]:
    """What each of these files is called: by its stem, or as much of its path as no other has."""
    ways = [(Path(path).stem, _with_owner(Path(path)), path) for path in known]
    often = Counter(name for way in ways for name in set(way))
    return [next((name for name in way if often[name] == 1), way[-1]) for way in ways]


def _with_owner(path: Path) -> str:
    return "/".join((*path.relative_to(path.anchor).parts[-3:-1], path.stem))
