"""A text as it is searched for: the same word is one sequence of characters, however a program wrote or typeset it."""

from __future__ import annotations

import re
import unicodedata

from engine.partitions.stop_words import STOP_WORDS

# Soft hyphens and zero-width characters: line-break opportunities, joiners, directional marks. Zero-width spaces are
# kept after Thai, Lao, Burmese and Khmer letters, where they separate words.
_UNSEEN = re.compile(
    r"(?<![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b"
    r"|[\u00ad\u200c-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
# These characters are not normalised: signs that would become letters or digits of the word before them ("word¹",
# "Lamp™", "1½", "step②", "№5", "5㎞"), and two vowels of Thai and Lao that the tokenizer's dictionary needs.
_UNFOLDED = (
    r"\u00aa\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u0e33\u0eb3\u2070-\u207f\u2100-\u2117\u2120\u2122"
    r"\u2150-\u215f\u2189\u2460-\u2473\u3371-\u337f\u3380-\u33df"
)
_FOLDED = re.compile(rf"[^{_UNFOLDED}]+")
_MARKS = re.compile(r"(?<=[A-Za-z])[\u0300-\u036f]+")
_WORD = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*")


def searchable(text: str) -> str:
    """Normalises a text for the word index: no invisible characters, NFKC, Latin letters without accents.

    People often omit accents when they type. The word index removes accents as well, but only after its stemmer, which
    removes the "e" of "ecole" but not of "école", and after its stop words. A word that would become a stop word keeps
    its accents ("thé"). Offsets in the result differ from those in the text.
    """
    return text if text.isascii() else _WORD.sub(_without_accents, composed(text))


def composed(text: str) -> str:
    """Normalises a text like `searchable`, but keeps accents."""
    if text.isascii():
        return text
    return _FOLDED.sub(lambda part: unicodedata.normalize("NFKC", part.group()), _UNSEEN.sub("", text))


def _without_accents(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii():
        return word
    # "ø" and "ß" are separate letters and do not change.
    bare = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", word)))
    return word if bare.casefold() in STOP_WORDS else bare
