"""Amounts of memory in the words that the user reads them in."""

from __future__ import annotations

from engine.config import GIB, MIB


def in_words(num_bytes: int) -> str:
    """Returns bytes as the window shows them: "1.5 GiB", "340 MiB"."""
    if num_bytes >= GIB:
        return f"{num_bytes / GIB:.1f} GiB"
    return f"{num_bytes / MIB:.0f} MiB"
