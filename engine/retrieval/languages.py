"""Languages: which one most texts of a library are in, by their letters and by the words that every text has.

Only accurate enough for a suggestion that the user may decline. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

ENGLISH, SEVERAL = "en", "mul"

# A text with fewer or rarer common words may be a table, code, or in another language.
_MIN_WORDS, _MIN_SHARE = 3, 0.08
# Fewer texts are not enough to decide.
_MIN_TEXTS = 3

_WORD = re.compile(r"[^\W\d_]+")
# Letters that identify a language; the first match counts. Other languages may use the same letters.
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("uk", re.compile(r"[іїєґ]")),
    ("ru", re.compile(r"[ыэё]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("fa", re.compile(r"[پچژگ]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
_LATIN = re.compile(r"[a-z\u00aa\u00ba\u00df-\u024f\u1e00-\u1eff]")
_LETTER = re.compile(r"[^\W\d_]")

# The most common words of each language, mostly not shared with others.
_COMMON = {
    ENGLISH: "the of and to is that for it was with as on are this be by not have from or which you they were has an",
    "de": "der die das und ist den von zu mit sich des auf für nicht ein eine dem im auch als an werden wird oder bei",
    "fr": "le la les des et est du une dans que pour qui par sur au il pas ne ce avec sont aux vous plus cette être",
    "es": "el la los las de que y en un una es por con para se del no su al lo como más pero sus este fue son está",
    "it": "il lo gli di che è e un una per con non del della dei si sono da nel alla più come anche le questo delle",
    "pt": "o os as de que e do da em um uma para com não por dos das na no é se mais como ao foi são pela à também",
    "nl": "de het een van en is dat op te in zijn voor met niet aan er door ook wordt bij naar deze werd om u uit",
    "sv": "och att det som en på är av för med den till inte om har ett var jag från kan vid ska också men",
    "da": "og at det som en på er af for med den til ikke har et de var jeg fra kan ved skal også men blev",
    "nb": "og at det som en på er av for med den til ikke har et de var jeg fra kan ved skal også men ble",
    "fi": "ja on ei se että oli mutta ovat kun joka sen tai myös hän niin mukaan ole voi jos jotka tämä siitä",
    "pl": "i w na z się nie do jest że o jak to po od za dla przez są ale lub oraz który było może tego jego",
    "cs": "a v na se je že s z do o k i jako za pro by podle jsou ale nebo také byl který může jeho tím při",
    "hu": "a az és hogy nem is egy meg van ez azt csak volt vagy mint de el már ki még kell lehet amely ha",
    "ro": "și de la în a cu că pe nu o din un este pentru care mai se sau sunt au prin dar fost ca această",
    "tr": "ve bir bu da de için ile olarak çok daha olan gibi sonra kadar ne o var en ya değil veya her olduğu",
    "vi": "và của là các có được cho trong không một những người với để này khi đã về từ theo",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga ke adalah saya atau oleh bahwa",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}


def language_of(text: str) -> str | None:
    """Returns the code of the language of a text; None if it is unknown."""
    plain = text.casefold()
    letters = len(_LETTER.findall(plain))
    if 2 * len(_LATIN.findall(plain)) < letters:
        return next((language for language, of_it in _SCRIPTS if of_it.search(plain)), SEVERAL)
    words = _WORD.findall(plain)
    if not words:
        return None
    counts = {language: sum(word in common for word in words) for language, common in _WORDS.items()}
    # English comes first and so wins a tie: then nothing is suggested.
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] >= max(_MIN_WORDS, _MIN_SHARE * len(words)) else None


def foreign_language(texts: Iterable[str]) -> str:
    """Returns the language of most texts, if that is not English.

    "mul" if they are in several languages and mostly not in English; "" if they are mostly English, or it is unknown.
    """
    found = Counter(language for text in texts if (language := language_of(text)) is not None)
    others = {language: count for language, count in found.items() if language != ENGLISH}
    num_foreign = sum(others.values())
    if found.total() < _MIN_TEXTS or 2 * num_foreign <= found.total():
        return ""
    language = max(sorted(others), key=lambda one: others[one])
    return language if 2 * others[language] > num_foreign else SEVERAL
