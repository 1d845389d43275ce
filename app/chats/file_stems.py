"""The name of an exported file: the title of what it holds, limited to what every file system accepts."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

# A name may have 255 bytes; the rest is for a number, the suffix, and the marks of an unfinished file.
_MOST_BYTES = 180
_KEPT = " -_,()"
# Names that Windows reserves, with any suffix.
_TAKEN_BY_WINDOWS = frozenset(
    ("con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(1, 10)))
)


def file_stem(title: str, taken: Collection[str] = (), *, instead: str = "chat") -> str:
    """Returns a file name without suffix, by `title`; none of those `taken`, which are in the form of `compared`.

    A title without letters and figures gives `instead`.
    """
    words = " ".join(title.split())
    kept = "".join(letter if letter.isalnum() or letter in _KEPT or _is_mark(letter) else "-" for letter in words)
    stem = _cut(kept) or instead
    if compared(stem) in _TAKEN_BY_WINDOWS:
        stem = f"{stem}-"
    number, made = 1, stem
    while compared(made) in taken:
        number += 1
        made = f"{stem} ({number})"
    return made


def compared(stem: str) -> str:
    """Returns a form that is equal for two names that some file system treats as the same."""
    return unicodedata.normalize("NFC", stem).casefold()


def _is_mark(letter: str) -> bool:
    # Vowel signs of Indic scripts, and combining accents.
    return unicodedata.category(letter).startswith("M")


def _cut(text: str) -> str:
    return text.strip(" -").encode()[:_MOST_BYTES].decode(errors="ignore").rstrip(" -")
