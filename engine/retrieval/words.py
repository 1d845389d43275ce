"""Words as the reader compares them: folded and lightly stemmed; scripts without spaces in pairs of characters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from engine.partitions.searchable import searchable
from engine.partitions.stop_words import STOP_WORDS

# Han, kana, hangul, Thai, Lao, Khmer and Burmese: written without spaces, or with glued particles.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af"
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
# Signs count if they change the meaning: before and after numbers, in C++ and C#, in comparisons. Bullets, quotation
# and heading marks, hyphens, paths ("Home > Rent") and the plus of a telephone number do not.
_COMPARES = r"[ \t]*(?:!=|[<>=≤≥≠]+)"
_WORD_OR_SIGN = re.compile(
    r"[^\W_]+|(?!^)(?<!\w)(?<!\d[ \t])-(?=[.,]?\d)|(?<!\w)±(?=[.,]?\d)"
    r"|(?<!\w)\+(?=[.,]?\d)(?!\d{1,3}(?:[ (/]+\d\d|-\d{3})|\d{8})"
    r"|(?<=\w)[+#]+|(?<=[\w)])[ \t]+\+(?=\s+[\w(-])|(?<=\d)[ \t]?[%‰$€£¥]"
    rf"|(?:(?<=\d)|(?<=\b\w)){_COMPARES}(?=\s*[\w(-])|(?<=[\w)]){_COMPARES}(?=\s*-?(?:\d|\w\b))",
    re.MULTILINE,
)
_SUM = re.compile(r"(?<!\d)(?<!\d[ \t])([$€£¥])[ \t]?(\d+(?:[.,]\d+)*)")
_MINUS = str.maketrans("−–", "--")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_LATIN = re.compile(r"[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff]")


def is_mostly_latin(text: str) -> bool:
    """Returns whether at least half of the letters are Latin; text without letters counts as Latin."""
    letters = sum(character.isalpha() for character in text)
    return 2 * len(_LATIN.findall(text)) >= letters


def bare(text: str) -> str:
    """Returns words and meaningful signs, in order, as copies of a text often differ in the other characters."""
    plain = _SUM.sub(r"\2 \1", text.casefold().translate(_MINUS))
    return " ".join(map(str.strip, _WORD_OR_SIGN.findall(plain))) or text


def terms(text: str) -> frozenset[str]:
    """Returns the stemmed words without stop words; pairs of characters for scripts without spaces."""
    found: set[str] = set()
    for run in _RUN.findall(_folded(text)):
        if _IS_UNSPACED.match(run):
            found.update(run[i : i + 2] for i in range(len(run) - 1)) if len(run) > 1 else found.add(run)
        elif run not in STOP_WORDS:
            found.add(_stem(run))
    return frozenset(found)


def rarity(texts: Iterable[Collection[str]]) -> dict[str, float]:
    """Returns how well each term distinguishes texts: ln(1 + n / number of texts that contain it)."""
    counts: dict[str, int] = {}
    total = 0
    for text in texts:
        total += 1
        for term in set(text):
            counts[term] = counts.get(term, 0) + 1
    return {term: math.log1p(total / count) for term, count in counts.items()}


def overlap(wanted: Collection[str], present: Collection[str], weights: Mapping[str, float], unseen: float) -> float:
    """Returns the weighted share of wanted terms that are present, 0 to 1; `unseen` weighs unknown terms."""
    total = sum(weights.get(term, unseen) for term in wanted)
    held = sum(weights.get(term, unseen) for term in wanted if term in present)
    return held / total if total else 0.0


def _folded(text: str) -> str:
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFKD", searchable(text).casefold())
    # Composed again, so that Hangul syllables and kana stay whole; accents are gone.
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not _is_latin_accent(c)))


def _is_latin_accent(character: str) -> bool:
    return "\u0300" <= character <= "\u036f"


def _stem(word: str) -> str:
    """Removes the most common English endings: "threads" and "threading" become "thread"."""
    if not word.isascii() or len(word) < 4 or not word.isalpha():
        return word
    for ending, rest in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return _undoubled(word.removesuffix(ending) + rest)
    return word.removesuffix("e") if len(word) > 4 else word


def _undoubled(stem: str) -> str:
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiouls":
        return stem[:-1]
    return stem.removesuffix("e") if len(stem) > 4 else stem
