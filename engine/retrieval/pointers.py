"""Pointers: words that stand for something named before, "it", "the second one", "dafür", "eso", "celui-ci", "它".

Many of them may also refer to something in the question itself ("Does the guard drop the lock it holds?") or to nothing
("Is there a deposit?"): then they do not count. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# A question with more searchable words names what it refers to itself, unless the pointer comes before all of them.
_MAX_OWN = 3
# With a single searchable word, which is a verb then, "he" cannot refer to the question itself: "Wo wohnt er?".
_MAX_OWN_OF_OWNER = 1

_TIMES = (
    r"(?:year|week|weekend|month|morning|evening|afternoon|night|time|days?|century|decade|season|summer|winter|spring"
    r"|autumn|quarter|jahre?s?|woche|monat|mal|tage?n?|sommer|año|semana|mes|mañana|tarde|noche|vez|días?|siglo"
    r"|année|an|semaine|mois|matin|soir|fois|jours?|siècle)"
)
_LIBRARY = r"(?:files|documents|docs|pdfs|notes|dateien|dokumenten?|unterlagen|archivos|documentos|fichiers)"
_JUDGED = (
    r"(?:possible|allowed|permitted|legal|illegal|true|necessary|required|important|safe|worth|better|best|mandatory"
    r"|forbidden|prohibited|known|said|clear|möglich|erlaubt|verboten|wahr|nötig|notwendig|wichtig|richtig|sinnvoll)"
)
# Expressions that look like pointers but refer to nothing.
_EXPLETIVE = re.compile(
    rf"\b(?:is|was|be|would|will)\s+it\s+(?:(?:be|not|also|still)\s+)*{_JUDGED}\b|\bit\s+(?:is|was)\s+\w+\s+(?:to|that)\b"
    r"|\bit\s+(?:takes?|costs?|means?)\s+(?:an?|for|to|if|when)\b|\bit\s+called\b"
    r"|\b(?:is|are|was|were|be|been|will|would|can|could|should|must|may|might|has|have|had)\s+there\b"
    r"|\bthere(?:'s|\s+(?:is|are|was|were|will|would|has|have|had|be|any|an?|must|should|may|can))\b"
    rf"|\b(?:th(?:is|ese|at|ose)|diese[rnms]?|est[aeo]s?|es[ae]s?|ce(?:t|tte|s)?)\s+{_TIMES}\b"
    rf"|\b(?:these|those|diese[rn]?|est[oa]s|es[oa]s|ces)\s+{_LIBRARY}\b"
    rf"|\b(?:ist|war|wäre)\s+es\s+(?:auch\s+|nicht\s+)*{_JUDGED}\b|\b(?:gibt|geht)\s+es\b|\bdel\s+este\b"
    r"|\bil\s+(?:y|faut|s'agit|existe|est\s+(?:possible|interdit|permis|nécessaire))\b|\b(?:y\s+a-t|faut|existe-t)-il\b"
)
_END = r"\s*[?.!…]*$"
_OF_ANSWER = (
    r"(?:ones?|points?|items?|options?|case|part|sentence|passage|source|step|punkte?|fall|satz|teil|schritt|quelle"
    r"|punto|caso|parte|frase|paso|cas|partie|phrase|étape)"
)
_ORDINALS = (
    r"the\s+(?:first|second|third|fourth|fifth|last|other|next|previous)",
    r"(?:der|die|das|den|dem)\s+(?:erste|zweite|dritte|vierte|letzte|andere)[nrs]?",
    r"(?:el|la|los|las)\s+(?:primer[oa]?|segund[oa]|tercer[oa]?|últim[oa]|otr[oa])",
    r"(?:le\s+|la\s+|l')(?:premier|première|deuxième|seconde?|troisième|dernier|dernière|autre)",
)
_POINTERS = (
    r"\b(?:it|them|him|ones|this|these|those|there)\b|\bthe\s+(?:former|latter|same|above)\b",
    r"(?:^|\b(?:about|of|for|with|from|to|by|on|in|at|after|before|since|is|was|does|do|did|can|could|will|would|should"
    r"|must|has|than|like|why|how|when|where|who|what"
    r"|explain|translate|repeat|summari[sz]e|shorten|describe)\s+)that\b(?!\s+(?:the|an?|there|all|is|are)\b)",
    r"\b(?:ihn|ihm|diese[rnms]?|jene[rnms]?|dort|davon|dafür|dazu|darin|daran|darauf|darüber|dabei|dadurch|daraus"
    r"|danach|dagegen|damit|deren|dessen|dasselbe|derselben?|letztere[rsn]?)\b",
    r"(?:^|\b(?:ist|gilt|wird|kann|muss|darf|soll|für|wie|wann|was|wo|wer|ob|warum)\s+)dies\b",
    r"\b(?:\w+t|wird|kann|muss|darf|soll|wurde|wann|wie|wo)\s+es\b",
    r"\b(?:eso|esto|ello|aquello|est[aeo]s?|es[ae]s?|esos|aquell?[ao]?s?|allí|ahí|l[oa]\s+mism[oa])\b",
    r"\w{3}(?:ar|er|ir)l[oae]s?\b",
    r"\b(?:cela|ça|ceci|cet|cette|ces|ce(?:lui|lle|ux|lles)-(?:ci|là)|ce\s+dernier|(?:le|la|les)\s+mêmes?)\b",
    r"\w-(?:le|la|les|lui|leur)\b",
    *(rf"\b{ordinal}(?:\s+{_OF_ANSWER}\b|{_END})" for ordinal in _ORDINALS),
)
_POINTER = re.compile("|".join(_POINTERS))
# Pronouns that may also refer to something named earlier in the question.
_OWNER = re.compile(
    r"\b(?:he|she|they|his|her|hers|theirs?|its|er|sein(?!\s*[?.!]*$)|seine[rnms]?|él|ella|ellos|ellas|sus?|il|ils|elles?|lui|leurs?)\b"
)
# German capitalises "Sie" ("you") and nouns, before which "das" is an article; before words in "e" it mostly is, too.
_POINTER_BY_CASE = re.compile(r"(?:\bdas|^Das)(?=\s*[?.!,]|\s*$|\s+[a-zäöüß]*[a-df-zäöüß][?.!,]?(?:\s|$))")
_OWNER_BY_CASE = re.compile(r"(?<=[a-zäöüß]\s)(?:sie|ihr|ihre[rnms]?)\b")


def points_back(text: str, own: Sequence[int]) -> bool:
    """Returns whether the question refers to something unnamed; `own` has the offsets of its searchable words."""
    small = _EXPLETIVE.sub(lambda said: " " * len(said[0]), text.lower())
    pointers = _starts(_POINTER, small) + _starts(_POINTER_BY_CASE, text)
    owners = _starts(_OWNER, small) + _starts(_OWNER_BY_CASE, text)
    if (pointers and len(own) <= _MAX_OWN) or (owners and len(own) <= _MAX_OWN_OF_OWNER):
        return True
    return min((*pointers, *owners), default=len(text)) < min(own, default=len(text))


def _starts(pattern: re.Pattern[str], text: str) -> list[int]:
    return [match.start() for match in pattern.finditer(text)]
