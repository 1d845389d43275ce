"""What a chat's file may be called: its title, as far as every file system takes it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

# Of a name's 255 bytes at most; the rest is for a number, the ending, and what an unfinished file is called.
_MOST_BYTES = 180
_KEPT = " -_,()"
# Of no use as names on Windows, whatever follows the full stop.
_TAKEN_BY_WINDOWS = frozenset(
    ("con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(1, 10)))
)


def file_stem(title: str, taken: Collection[str] = ()) -> str:
    """A file's name without its ending, by `title`; none of those `taken`, which are as `compared` has them."""
    words = " ".join(title.split())
    stem = _cut("".join(letter if letter.isalnum() or letter in _KEPT or _is_mark(letter) else "-" for letter in words))
    if compared(stem) in _TAKEN_BY_WINDOWS:
        stem = f"{stem}-"
    number, made = 1, stem
    while compared(made) in taken:
        number += 1
        made = f"{stem} ({number})"
    return made


def compared(stem: str) -> str:
    """The same for two names that some file system takes for one."""
    return unicodedata.normalize("NFC", stem).casefold()


def _is_mark(letter: str) -> bool:
    # Vowels of Indic scripts, and accents that are letters of their own.
    return unicodedata.category(letter).startswith("M")


def _cut(text: str) -> str:
    kept = text.strip(" -").encode()[:_MOST_BYTES].decode(errors="ignore").rstrip(" -")
    return kept or "chat"
