"""Remarks: what people wrote beside an Office file's text, comments and the words that stand for a picture."""

from __future__ import annotations

import re

from lxml import etree

from engine.library.parsers.elements import attribute

# Descriptions that programs write: the picture's file, "Picture 4", and notes that a program wrote it.
_FILE_NAME = re.compile(r".*\.(?:png|jpe?g|jfif|gif|bmp|tiff?|emf|wmf|svg|webp|heic)", re.I | re.S)
_NUMBERED = re.compile(r"(?:picture|image|graphic|photo|grafik|bild|abbildung|imagen|imagem|immagine)?\s*\d*", re.I)
_GENERATED = re.compile(
    r"(?<!\s)\s*+(?:(?:Description )?automatically generated(?: with \w+ confidence)?\.?"
    r"|AI-generated content may be incorrect\.?"
    r"|Automatisch generierte Beschreibung\.?|KI-generierte Inhalte können fehlerhaft sein\.?"
    r"|AI ?生成的内容可能不正确。?|描述已自动生成)",
    re.I,
)
# Authors that Office writes when the author is unknown or removed.
_NOBODY = {"", "author", "unknown author"}


def comment(author: str, text: str, on: str = "") -> str:
    """Returns a comment as text; "" if it is empty. `on` is its cell."""
    said = " ".join(text.split())
    # Excel repeats the author's name at the beginning, in bold.
    said = said.removeprefix(f"{author}:").strip() if author else said
    if not said:
        return ""
    where = f" on {on}" if on else ""
    who = f" by {author}" if author.strip().lower() not in _NOBODY else ""
    return f"Comment{where}{who}: {said}"


def picture(properties: etree._Element | None) -> str:
    """Returns the description in a drawing's properties (`docPr`, `cNvPr`); "" if there is none."""
    return shown(attribute(properties, "descr") or attribute(properties, "title"))


def shown(alternative: str) -> str:
    """Returns a picture's description as text; "" if a program wrote it."""
    said = " ".join(_GENERATED.sub("", alternative).split())
    return "" if _FILE_NAME.fullmatch(said) or _NUMBERED.fullmatch(said) else f"Picture: {said}"
