"""Everything we ship that is not code, by name: icons, the theme's style sheet, prompts, licences.

Read through importlib.resources, so that it works the same from a checkout, a wheel and a frozen application.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


def path(name: str) -> Traversable:
    """The resource at `name`, slash-separated below this package (`"icons/send.svg"`).

    Raises:
        FileNotFoundError: We ship nothing of that name.
    """
    resource = files(__package__).joinpath(*name.split("/"))
    if not (resource.is_file() or resource.is_dir()):
        raise FileNotFoundError(f"Ragdoll ships no resource named {name!r}.")
    return resource


@cache
def text(name: str) -> str:
    """The UTF-8 text of the resource at `name`; read once."""
    return path(name).read_text(encoding="utf-8")
