"""The shortest name that tells a file from others: its name, preceded by as many folders as needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath


def told_apart(path: str, others: Iterable[str]) -> str:
    """Returns `m.gguf`, or `A/m.gguf` if one of `others` has the same name in another folder."""
    parts = PurePath(path).parts
    unlike = [PurePath(other).parts for other in others if other != path]
    for num_parts in range(1, len(parts)):
        tail = parts[-num_parts:]
        if not any(other[-num_parts:] == tail for other in unlike):
            return str(PurePath(*tail))
    return path
