"""Everything we ship that is not code, by name: icons, the theme's style sheet, prompts, translations, licences.

It lies beside this module in a checkout, a wheel and a frozen application alike; importlib.resources would say the
same, and cost the window's first paint its import of zip files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def path(name: str) -> Path:
    """The resource at `name`, slash-separated below this package (`"icons/send.svg"`).

    Raises:
        FileNotFoundError: We ship nothing of that name.
    """
    resource = _HERE.joinpath(*name.split("/"))
    if not resource.exists():
        raise FileNotFoundError(f"Ragdoll ships no resource named {name!r}.")
    return resource


@cache
def text(name: str) -> str:
    """The UTF-8 text of the resource at `name`; read once."""
    return path(name).read_text(encoding="utf-8")
