"""Follow-ups: whether a question stands alone, or depends on what was asked before it.

"And in case of fire?" is searched for together with the question that it follows, "When did she write it?" with the
answer to that as well, which may say who she is. "Shorter, please" is not searched for at all: it works on the answer
above, with its passages. Deliberately cautious, because topics change: a question that says what it is about stands
alone, and in an apparent follow-up its own words count as much as all of them together (rank.py). A model that told
them apart would delay each search. Of 186 questions of SQuAD that point back, with one of the same
page before them, the right page is among the first five for 80 of 100 by themselves, for 95 with the question before
and for 99 with its answer; of all its questions 2 of 100 are taken for follow-ups, nearly all of which are. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.core import Passage, Question
from engine.partitions.searchable import composed
from engine.retrieval.followup_words import (
    AUXILIARIES,
    EMPTY_CHINESE,
    EMPTY_WORDS,
    ENGLISH_EMPTY_WORDS,
    FURTHER,
    INTERROGATIVES,
    NUMBERED,
    ON_ANSWER_CHINESE,
    PHRASES_ON_ANSWER,
    PREPOSITIONS,
    SEEKS,
    SEEKS_CHINESE,
    WORDS_ON_ANSWER,
    folded,
)
from engine.retrieval.pointers import points_back

Kind = Literal["alone", "follows", "on the answer"]

ABOUT_THE_ANSWER = "about the answer above, so nothing new was searched"
AS_BEFORE = "as the question before"

# A longer question says what it is about.
_MAX_CHARACTERS = 200
_MAX_ON_ANSWER_WORDS = 14
# With at most this many searchable words, a question that begins like this continues another.
_MAX_AFTER_AND, _MAX_AFTER_ABOUT = 4, 6
# And with at most this many it keeps the files that the other one named.
_MAX_INHERITING = 2
# Sentence fragments, in words and in searchable ones: "The deposit?", "Who pays?", "For students under 12?".
_MOST_OF_NOUNS, _MOST_ASKED, _MOST_PREPOSITIONAL = (5, 2), (3, 1), (8, 3)
_MAX_CHINESE_PIECE = 6
# The beginning of an answer names its subject; more of it would dilute that.
_MIN_SENTENCE, _MAX_SENTENCE, _MAX_BEGINNING = 20, 120, 1000

_WORD = re.compile(r"[^\W_]+")
_AROUND = "¿¡\"“”„«»‘'()-–—… \t\n"
_ABOUT = re.compile(
    r"(?:(?:and|und|y|et)\s+)?(?:what\s+(?:about|if)|how\s+about|was\s+ist\s+mit|was\s+wenn"
    r"|wie\s+(?:ist\s+es|sieht\s+es|steht\s+es)(?:\s+(?:aus\s+)?(?:mit|bei|um|in))?|qué\s+(?:hay|pasa)\s+(?:de|con)"
    r"|qué\s+tal|y\s+si|et\s+si|qu'en\s+est-il(?:\s+d[eu]s?)?|quid\s+de)(?!\w)\s*"
)
_AND = re.compile(
    r"(?:and|but|or|also|plus|then|so|und|aber|oder|auch|sonst|y(?!\s+a-t)|o|pero|también|et|ou|mais|aussi|alors)\b\s*,?\s*"
)
# "What is a list?" asks about lists.
_DEFINES = re.compile(
    r"(?:what(?:'s|\s+is|\s+are)|was\s+(?:ist|sind)|qué\s+(?:es|son)|qu'est-ce\s+qu(?:e|'))\s*(?:an?|eine?|une?|una)\b"
)

_MARKER = re.compile(r"\s*[\[【][\d\s,;]+[\]】]|[*_#>“”\"]+")
_FIRST_SENTENCE = re.compile(rf".{{{_MIN_SENTENCE},{_MAX_SENTENCE}}}?(?:[.!?](?=\s|$)|[。！？])")

_HAN = re.compile(r"[\u3400-\u9fff]")
_OTHER_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\uac00-\ud7af]")
_GOES_ON_CHINESE = re.compile(r"^(?:那[么麼]?|[还還]有|另外|以及|而且|但是?|可是|如果|要是)|呢[?？。!！]*$")
_POINTER_CHINESE = re.compile(
    r"[它他她]|[这這](?![年月周週天次])|那(?![么麼年天])|前者|[后後]者|第[一二三四五六七八九十]+[点點个個条條项項]"
)
_IS_SENTENCE_CHINESE = re.compile(r"[是有会會能在]|可以")


@dataclass(frozen=True, slots=True)
class Subject:
    """What to search for: `text`, and `together`, which is `text` with the questions before, "" if it stands alone.

    If `together` contains an answer, `questions` is the same without it: only questions set filters.
    `inherits`: if it names no files itself, those of the earlier questions apply. `above` are passages of earlier turns
    that are used instead of a search. `told` describes for users how the question was understood. `own` is the
    question as it was asked, if `text` is an earlier one.
    """

    text: str
    together: str = ""
    inherits: bool = False
    above: tuple[Passage, ...] = ()
    told: str = ""
    own: str = ""
    questions: str = ""


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a question depends on earlier ones; `rest` is it without a leading "and", and has `num_own` searchable words.

    `points`: a word of it refers to something named before, perhaps in the answer. `is_noun`: only its shortness
    suggests that it depends on them.
    """

    kind: Kind
    rest: str
    num_own: int
    points: bool = False
    is_noun: bool = False


def subject_of(question: Question) -> Subject:
    """What to search for, by the question's words and the questions before it."""
    asked = questions_of(question.transcript) if question.filters.reads_question else []
    if not asked or _read(question.text).kind != "on the answer":
        return _subject(question.text, asked, _beginning_of_answer(question.transcript))
    if not _was_searched(list(filter(_begins_turn, question.transcript))[-1]):
        # What the model said without a search is not based on files.
        return Subject(question.text)
    while len(asked) > 1 and _read(asked[-1]).kind == "on the answer":
        asked.pop()
    last = _subject(asked[-1], asked[:-1])
    return replace(last, above=passages_above(question.transcript), told=AS_BEFORE, own=question.text)


def _subject(text: str, asked: Sequence[str], answer: str = "") -> Subject:
    reading = _read(text) if asked else None
    if reading is None or reading.kind == "alone":
        return Subject(text)
    before = _gone_on_with(asked)
    answers = [answer] if answer and (reading.points or not reading.num_own) else []
    questions, and_answer = "questions" if len(before) > 1 else "question", " and the answer" if answers else ""
    told = f"together with the {questions}{and_answer} before"
    together = _joined([*before, *answers, reading.rest])
    alone = _joined([*before, reading.rest]) if answers else ""
    if not reading.num_own:
        return Subject(together, told=told, questions=alone)
    inherits = reading.num_own <= _MAX_INHERITING and not reading.is_noun
    return Subject(text, together, inherits, told=told, questions=alone)


def kind_of(text: str) -> Kind:
    """How a question depends on those before it, if there are any."""
    return _read(text).kind


def questions_of(transcript: Sequence[Mapping[str, Any]]) -> list[str]:
    """The earlier questions of a conversation for which files were searched; none for an invalid transcript."""
    return [piece["question"] for piece in transcript if _was_searched(piece)]


def passages_above(transcript: Sequence[Mapping[str, Any]]) -> tuple[Passage, ...]:
    """What the last answer is based on: passages found for its question, and those of earlier turns found again."""
    numbered, last, number = dict[int, Mapping[str, Any]](), list[int](), 1
    try:
        for piece in filter(_is_question, transcript):
            if not piece.get("goes_on"):
                number, last = int(piece.get("first_number", 1)), list(map(int, piece.get("also", ())))
            for told in piece["passages"]:
                numbered[number] = told
                last.append(number)
                number += 1
        return tuple(_passage(numbered[one]) for one in last if "stands" in numbered.get(one, ()))
    except (AttributeError, KeyError, TypeError, ValueError):
        # The prompt reports an invalid transcript.
        return ()


def _beginning_of_answer(transcript: Sequence[Mapping[str, Any]]) -> str:
    """The first sentence of the last answer for which files were searched, "" where that is long."""
    pairs = zip(transcript[::2], transcript[1::2], strict=False)
    texts = [
        str(answered.get("text", ""))
        for asked, answered in pairs
        if _was_searched(asked) and isinstance(answered, Mapping)
    ]
    plain = " ".join(_MARKER.sub("", texts[-1][:_MAX_BEGINNING]).split()) if texts else ""
    if len(plain) <= _MAX_SENTENCE:
        return plain
    sentence = _FIRST_SENTENCE.match(plain)
    return sentence[0] if sentence else ""


def _passage(told: Mapping[str, Any]) -> Passage:
    return Passage(document_id=told["document_id"], page=told["page"], text=told["text"], **told["stands"])


def _is_question(piece: object) -> bool:
    return isinstance(piece, Mapping) and isinstance(piece.get("question"), str)


def _begins_turn(piece: Mapping[str, Any]) -> bool:
    return _is_question(piece) and not piece.get("goes_on")


def _was_searched(piece: Mapping[str, Any]) -> bool:
    return _begins_turn(piece) and bool(piece.get("searches", True))


def _gone_on_with(asked: Sequence[str]) -> list[str]:
    """The last question that stands alone, and the last one that follows it; the first of all stands alone."""
    following = list[str]()
    for text in reversed(asked[1:]):
        reading = _read(text)
        if reading.kind == "alone":
            return [text, *following]
        if reading.kind == "follows" and reading.num_own and not following:
            following = [reading.rest]
    return [asked[0], *following]


def _joined(texts: Sequence[str]) -> str:
    """The texts in one line; capitals of sentence beginnings are lowered, because they would be taken for names."""
    first, *others = (text.strip() for text in texts)
    return " ".join([first, *(_begun_small(text) for text in others if _WORD.search(text))])


def _begun_small(text: str) -> str:
    word = _WORD.match(text)
    is_empty = word is not None and _is_empty(folded(word[0]))
    return text[0].lower() + text[1:] if is_empty else text


def _read(text: str) -> _Reading:
    if len(text) > _MAX_CHARACTERS or _OTHER_UNSPACED.search(text):
        return _Reading("alone", text, 0)
    plain = composed(text).replace("’", "'").strip(_AROUND)
    return _read_chinese(plain) if _HAN.search(plain) else _read_words(plain)


def _read_words(text: str) -> _Reading:
    words = _Words.of(text)
    if words.defines:
        return _Reading("alone", text, 0)
    about = _ABOUT.match(words.small)
    opening = about or _AND.match(words.small)
    rest = text[opening.end() :] if opening else text
    seeks = words.works_on_answer and SEEKS.match(rest.lower()) is not None
    if words.works_on_answer and not seeks and words.num_words <= _MAX_ON_ANSWER_WORDS:
        return _Reading("on the answer", text, 0)
    own = words.on_answer if seeks else words.own
    goes_on = opening is not None and len(own) <= (_MAX_AFTER_ABOUT if about else _MAX_AFTER_AND)
    points = points_back(text, own)
    if seeks or goes_on or points or words.asks_further or words.numbers.issuperset(own):
        return _Reading("follows", rest, len(own), points)
    all_words = words.without_names()
    if _is_piece(text, all_words, len(own)):
        return _Reading("follows", rest, len(own), is_noun=all_words[0] not in PREPOSITIONS | INTERROGATIVES)
    return _Reading("alone", rest, len(own))


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a question, by where they begin in `text`.

    `own` can be searched for; `on_answer` name what is to be done with the answer above, as a phrase may do as well
    (`is_on_answer`). `numbers` belong to a word such as "page": they say where to look, and not in what.
    `asks_further`: it asks for more of the same, as "what else" does.
    """

    text: str
    small: str
    num_words: int
    own: list[int]
    on_answer: list[int]
    numbers: set[int]
    names: frozenset[int]
    is_on_answer: bool
    asks_further: bool

    @classmethod
    def of(cls, text: str) -> _Words:
        small = text.lower()
        asking = FURTHER.sub(_blank, small)
        # "In Italien" does not name a language then.
        said = PHRASES_ON_ANSWER.sub(_blank, asking) if asking == small else asking
        words = [(match.start(), folded(match[0])) for match in _WORD.finditer(said)]
        on_answer = [start for start, word in words if word in WORDS_ON_ANSWER]
        is_on_answer = said != asking or bool(on_answer)
        numbers = {match.start(match.lastgroup or 0) for match in NUMBERED.finditer(small)}
        names = _names(text, [start for start, word in words if word in ENGLISH_EMPTY_WORDS], is_on_answer)
        own = [
            start
            for start, word in words
            if not _is_empty(word) or start in numbers or start in names or _is_letter(text, start, word)
        ]
        return cls(text, small, len(words), own, on_answer, numbers, names, is_on_answer, asking != small)

    @property
    def defines(self) -> bool:
        """Whether it asks what something is in general, with no word that can be searched for."""
        return not self.own and _DEFINES.match(self.small) is not None

    @property
    def works_on_answer(self) -> bool:
        """Whether it says what to do with the answer above, and nothing that can be searched for."""
        return not self.own and self.is_on_answer

    def without_names(self) -> list[str]:
        return [folded(match[0]) for match in _WORD.finditer(self.small) if match.start() not in self.names]


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _is_empty(word: str) -> bool:
    is_small_number = word.isdigit() and len(word) <= 2
    return word in EMPTY_WORDS or word in WORDS_ON_ANSWER or len(word) == 1 or is_small_number


def _names(text: str, starts: Sequence[int], is_on_answer: bool) -> frozenset[int]:
    """The positions of empty words that are names by their capitals, such as "May", "Will" and "WHO".

    In a question that works on the answer, words in capitals are only emphasised, so they are no names.
    """
    if not any(word[0].islower() for word in _WORD.findall(text)):
        return frozenset()
    names = list[int]()
    for match in _WORD.finditer(text):
        word, is_inside = match[0], text[: match.start()].rstrip(" ")[-1:].isalnum()
        is_capital = is_inside and word.istitle() and folded(word) not in INTERROGATIVES
        is_short_for = word.isupper() and not is_on_answer
        if match.start() in starts and len(word) > 1 and (is_capital or is_short_for):
            names.append(match.start())
    return frozenset(names)


def _is_letter(text: str, start: int, word: str) -> bool:
    """Whether a single letter is a name, such as the language R, and not an elided article ("L'école")."""
    return (
        len(word) == 1
        and word not in EMPTY_WORDS
        and text[start : start + 1].isupper()
        and text[start + 1 : start + 2] != "'"
    )


def _is_piece(text: str, words: Sequence[str], num_own: int) -> bool:
    """Whether it is only a fragment of a sentence."""
    if any(word in AUXILIARIES for word in words):
        return False
    asks = any(word in INTERROGATIVES for word in words)
    if words[0] in PREPOSITIONS and not asks:
        most_words, most_own = _MOST_PREPOSITIONAL
    elif text.endswith(("?", "？")):
        most_words, most_own = _MOST_ASKED if asks else _MOST_OF_NOUNS
    else:
        return False
    return len(words) <= most_words and num_own <= most_own


def _read_chinese(text: str) -> _Reading:
    left = EMPTY_CHINESE.sub("", ON_ANSWER_CHINESE.sub("", text))
    # Most words have two characters.
    num_own = -(-len(_HAN.findall(left)) // 2) + len(_WORD.findall(_HAN.sub(" ", left)))
    if not num_own:
        is_on_answer = ON_ANSWER_CHINESE.search(text) and not SEEKS_CHINESE.search(text)
        return _Reading("on the answer" if is_on_answer else "follows", text, 0)
    is_piece = len(text) <= _MAX_CHINESE_PIECE and text.endswith(("?", "？")) and not _IS_SENTENCE_CHINESE.search(text)
    points = _POINTER_CHINESE.search(text) is not None
    goes_on = num_own <= _MAX_AFTER_AND and (points or _GOES_ON_CHINESE.search(text))
    return _Reading("follows" if is_piece or goes_on else "alone", text, num_own, points)
