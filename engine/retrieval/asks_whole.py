"""Asking for the whole: whether a question wants all of a document, as "Summarise the lease" does, and in what way.

Such a question is equally similar to all passages, so ranking would choose by chance. English, German, Spanish, French
and Chinese are recognised. Deliberately cautious: "Summarise the clause about rent" asks for a part, which ranking
finds. So a sentence asks for the gist only if its other words are all in a list, or are the document's name. What to
focus on ("focusing on risks") may be anything but a part. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath
from typing import Literal

from engine.retrieval.whole_words import (
    ASKS_EACH,
    ASKS_GIST,
    CHINESE_FOCUS,
    CHINESE_GIST,
    CHINESE_KNOWN,
    FOCUS,
    KNOWN,
    PARTS,
    POINTED_AT,
    SHAPE,
)

# "gist": a summary. "each": all items of a kind ("list every date").
Wanted = Literal["gist", "each"]

_WORD = re.compile(r"[^\W\d_]+|\d+")
_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*")
_MARKS = ".!?。！？ "
_HAN = re.compile(r"[\u3400-\u9fff]")
# A longer sentence asks for something more specific.
_MAX_CHARACTERS = 300


def asks_whole(question: str, name: str) -> Wanted | None:
    """Returns what a question about the document `name` wants of all of it; None if it wants only a part."""
    asked = _plain(question)
    if any(_asks_gist(said, name) for said in _without_name(asked, name)):
        return "gist"
    sentences = (sentence for sentence in _sentences(asked) if len(sentence) <= _MAX_CHARACTERS)
    return "each" if any(map(ASKS_EACH.search, sentences)) else None


def _asks_gist(asked: str, name: str) -> bool:
    sentences = _sentences(asked)
    asking = [sentence for sentence in sentences if _is_gist(sentence.rstrip(_MARKS), name)]
    # If there is another question as well, it has to be answered, too.
    return bool(asking) and not any(one.endswith(("?", "？")) for one in sentences if one not in set(asking))


def _sentences(asked: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.findall(asked)]


def _is_gist(sentence: str, name: str) -> bool:
    if len(sentence) > _MAX_CHARACTERS:
        return False
    sentence = _without_focus(sentence)
    if _HAN.search(sentence):
        rest = CHINESE_GIST.sub("", sentence)
        return rest != sentence and not CHINESE_KNOWN.sub("", rest)
    plain = SHAPE.sub(" ", sentence).strip(" ,;:")
    rest = ASKS_GIST.sub(" ", plain).strip(" ,;:")
    if rest == plain:
        return False
    known = KNOWN.union(_WORD.findall(_plain(PurePath(name).stem)))
    if (pointed_at := POINTED_AT.search(rest)) is not None:
        known = known.union(_WORD.findall(pointed_at["noun"]))
    return all(word in known and word not in PARTS for word in _WORD.findall(rest))


def _without_focus(sentence: str) -> str:
    """Removes what to focus on, unless that is a part of the document."""
    pattern = CHINESE_FOCUS if _HAN.search(sentence) else FOCUS
    focus = pattern.search(sentence)
    # The parties of a contract are parts in French only.
    if focus is None or any(word in PARTS and word != "parties" for word in _WORD.findall(focus["on"])):
        return sentence
    return f"{sentence[: focus.start()]}{sentence[focus.end() :]}"


def _without_name(asked: str, name: str) -> tuple[str, str]:
    """Replaces the name by "document": in the first result with its ending, in the second also without it."""
    without = _named(_plain(name)).sub(" document ", asked)
    return without, _named(_plain(PurePath(name).stem)).sub(" document ", without)


def _named(name: str) -> re.Pattern[str]:
    # Between Han characters there are no spaces.
    letter = r"[^\W\u3400-\u9fff]"
    return re.compile(rf"[\"“”„«»‘’'《「]?(?<!{letter}){re.escape(name)}(?!{letter})[\"“”„«»‘’'》」]?")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()
