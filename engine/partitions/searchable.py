"""A text as it is searched for: the same word is one sequence of characters, however a program wrote or typeset it."""

from __future__ import annotations

import re
import unicodedata

from engine.partitions.stop_words import STOP_WORDS

# Soft hyphens, and signs without width: where a line may end, what is joined, which way to read.
# A space without width stays in the scripts of Thai, Lao, Burmese and Khmer, where it is what parts the words.
_UNSEEN = re.compile(
    r"(?<![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b"
    r"|[\u00ad\u200c-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
# All but the signs that would become letters and digits of the word before them ("word¹", "Lamp™", "1½", "step②",
# "№5", "5㎞"), and two vowels of Thai and Lao, without which the words of the dictionary are not recognized.
_UNFOLDED = (
    r"\u00aa\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u0e33\u0eb3\u2070-\u207f\u2100-\u2117\u2120\u2122"
    r"\u2150-\u215f\u2189\u2460-\u2473\u3371-\u337f\u3380-\u33df"
)
_FOLDED = re.compile(rf"[^{_UNFOLDED}]+")
_MARKS = re.compile(r"(?<=[A-Za-z])[\u0300-\u036f]+")
_WORD = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*")


def searchable(text: str) -> str:
    """The text without what nobody sees, composed, with ligatures and wide or narrow letters as plain ones.

    Latin letters lose their accents, which many leave out as they type. The word index folds them as well, but behind
    its stemmer, which takes an "e" or an "es" from "ecole" and leaves it with "école", and behind its stop words, one
    of which "thé" must not become. Its places are not those of the text.
    """
    return text if text.isascii() else _WORD.sub(_without_accents, composed(text))


def composed(text: str) -> str:
    """The same with all accents."""
    if text.isascii():
        return text
    return _FOLDED.sub(lambda part: unicodedata.normalize("NFKC", part.group()), _UNSEEN.sub("", text))


def _without_accents(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii():
        return word
    # "ø" and "ß" are letters of their own.
    bare = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", word)))
    return word if bare.casefold() in STOP_WORDS else bare
