"""Paths as text that can be shown, whatever bytes they are made of."""

from __future__ import annotations


def printable(path: str) -> str:
    """A path with everything in it that is not UTF-8 shown as replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
