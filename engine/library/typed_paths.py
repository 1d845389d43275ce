"""Typed paths: what a user types or drops, as the name by which the library knows a file or folder."""

from __future__ import annotations

import os

from engine.errors import BadRequest


def absolute(path: str) -> str:
    """Turns a typed path into the form that the library uses. Raises BadRequest if it is empty."""
    if not path:
        raise BadRequest("A path is empty.")
    return os.path.abspath(os.path.expanduser(path))
