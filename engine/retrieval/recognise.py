"""Recognising filters in a question's own words, in English, German and Spanish.

"What do the PDFs changed in 2024 say about rent?" is limited to PDFs changed then. Deliberately cautious, because a
wrong filter hides the answer. So a type needs an article ("in PDFs" may ask about PDFs in general), a date must refer
to files ("files changed in 2024"; "documents of 1945" may be about that year), a name must exist in the library, and
sentences with a negation are ignored. Pure except for looking up names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property

from engine.catalog.scopes import Named
from engine.retrieval.dates import DATE, RELATIVE_DATE, Period, is_bare, period, plain_words
from engine.retrieval.kinds import FORMATS_OF_KIND, KIND_OF_WORD
from engine.retrieval.names import Chosen, chosen, mentions
from engine.retrieval.words import terms

FindPaths = Callable[[Collection[str]], Named]

# The question without the recognised words must have at least this many terms.
_MIN_TERMS_LEFT = 2

_PREPOSITION = r"(?:in|inside|from|within|across|among|of|aus|von|unter|innerhalb(?:\s+von)?|en|de|entre|dentro\s+de)"
_ARTICLE = (
    r"(?:all\s+(?:of\s+)?(?:the|my|our)|the|my|our|your|these|those|all"
    r"|allen\s+(?:meinen|unseren)|den|meinen|unseren|diesen|allen"
    r"|tod[oa]s\s+(?:los|las|mis)|los|las|mis|nuestros|nuestras|estos|estas)"
)
_KIND = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(KIND_OF_WORD, key=len, reverse=True))
_FILES = "files|documents|docs|notes|dateien|dokumenten|dokumente|unterlagen|notizen|archivos|documentos|ficheros|notas"
_PLACE = r"(?:in|inside|from|within|across|among|aus|innerhalb|en|entre|dentro\s+de)"
# "The deadline of the presentations" is about presentations in general; with one of these words it is about files.
_SOME = (
    r"(?:which|how\s+(?:many|much)|each|every|any|ones?|two|three|\d+|all|most|many|some|several|few|half|both"
    r"|out|inside|latest|newest|oldest|first|last|list|summary|overview|contents?|pages?|sheets?|slides?|parts?|titles?"
    r"|text|rest|total|sum|average|(?:which|welche[nrs]?)\s+\w+"
    r"|welche[nrs]?|wie\s*viele|jede[mnrs]?|eine[mnrs]?|eins|zwei|drei|alle[mnrs]?|(?:die|den)\s+meisten|viele|einige"
    r"|manche|(?:neu|jüng|ält)este[mnrs]?|(?:erst|letzt)e[mnrs]?|liste|zusammenfassung|übersicht|inhalte?|summe|seiten?"
    r"|cu[áa]l(?:es)?|cu[áa]nt[oa]s|cada\s+un[oa]|algun[oa]s?|un[oa]|dos|tres|tod[oa]s|mayor[íi]a|much[oa]s"
    r"|vari[oa]s|[úu]ltim[oa]s?|recientes?|lista|resumen|contenidos?|total|suma|páginas?|hojas?)"
)
_AMONG = r"(?:gibt\s+es|such(?:e|st)?|finde|schaue?)"
_TYPES = re.compile(
    rf"\b(?:(?:{_SOME}\s+(?=(?:of|von|de|unter)\b)|{_AMONG}\s+(?=unter\b)|(?={_PLACE}\b))"
    rf"(?P<said>{_PREPOSITION}\s+{_ARTICLE}\s+(?P<kind>{_KIND})))(?!\w)",
    re.IGNORECASE,
)
# Any negation in the sentence disables filters, because searching everywhere is never wrong.
_DENIED = re.compile(
    r"不[要看用在包含查搜]|(?<!是)不是|没有?[在用看]|沒有?[在用看]|勿|[别別][看用查搜管]|无视|無視|忽略|除[了去非]|[以之除]外|n['’]t\b"
    r"|\b(?:not|cannot|never|no|none|neither|nor|except|exclud\w+|besides|without|other\s+than|rather\s+than"
    r"|instead|ignor\w+|skip\w*|omit\w*|avoid\w*|outside"
    r"|nicht|nie|niemals|kein\w*|weder|außer|ausser|außerhalb|ohne|statt|anstatt|überspring\w*"
    r"|sin|nunca|ni|ning[uú]n\w*|tampoco|excepto|salvo|menos|fuera|excluy\w+|omit\w+|en\s+(?:vez|lugar)\s+de)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]")

_CHANGED = (
    r"(?:(?:that|which|die|que)\s+)?(?:(?:were|was|have\s+been|i|we|fueron)\s+)?"
    r"(?:changed|modified|edited|updated|saved|geändert|bearbeitet|gespeichert|modificad[oa]s|cambiad[oa]s)\s+"
)
_RELATIONS = {
    **dict.fromkeys(("since", "seit", "desde"), "since"),
    **dict.fromkeys(("after", "nach", "después de", "despues de"), "after"),
    **dict.fromkeys(("before", "vor", "antes de"), "before"),
    **dict.fromkeys(("until", "till", "up to", "bis", "hasta"), "until"),
    **dict.fromkeys(("from", "of", "in", "on", "during", "von", "vom", "aus", "im", "am", "de", "del", "en"), "in"),
}
_FROM = frozenset({"from", "of", "von", "vom", "aus", "de", "del"})
_RELATION = "|".join(word.replace(" ", r"\s+") for word in sorted(_RELATIONS, key=len, reverse=True))
# "From 2024 on" reaches to today, but not in "from 2024 on taxes" and "von letzter Woche an Anna".
_ONWARDS = (
    r"(?:(?:(?:and|und|y)\s+)?(?:onwards?|upwards|en\s+adelante)\b"
    r"|(?:on|an|ab)(?=\s*(?:[,.;:?!)]|$)"
    r"|\s+(?:say|mention|tell|talk|speak|show|that|which|über|zu[rm]?|sagen|steht)\b)"
    r"|(?:to|up\s+to|through|until|till|bis|hasta)\s+"
    r"(?:now|today|date|(?:the\s+)?present|jetzt|heute|ahora|hoy|la\s+fecha)\b)"
)
# Additions to a date that we do not understand ("of last year", "and later"); the date is ignored then.
_ELSEWHEN = (
    r"(?:(?:of|in|de|del|des|der)\s+)?(?:(?:the|el|la)\s+)?(?:"
    r"last|next|previous|past|(?:letzt|nächst|vergangen|vorig|kommend)e[mnrs]?|pasad[oa]|[úu]ltim[oa]|próxim[oa]"
    r"|anterior"
    r"|(?:(?!(?:about|on|über|sobre)\b)\w+\s+)?(?:year|jahr(?:e?s)?|vorjahr(?:e?s)?|año)"
    r"|\w+\s+years?\s+ago|vor\s+\w+\s+jahr(?:en)?|hace\s+\w+\s+años?|q[1-4])\b"
    r"|(?:and|or|und|oder|y|o)\s+(?:earlier|later|older|newer|before|after|since|früher|später|älter|neuer|davor|danach"
    r"|antes|después|anterior(?:es)?|posterior(?:es)?)\b"
)
_DATED = re.compile(
    rf"(?P<lead>\b{_PREPOSITION}\s+(?:{_ARTICLE}\s+)?)?\b(?P<noun>(?P<kind>{_KIND})|{_FILES})\s+(?P<when>"
    rf"(?P<changed>{_CHANGED})?(?P<relation>{_RELATION})\s+(?P<date>{DATE})|(?:{_CHANGED})(?P<bare>{RELATIVE_DATE}))"
    rf"(?P<onwards>\s+{_ONWARDS})?(?!\s+(?:{_ONWARDS}|{_ELSEWHEN}))"
    # Not in "from March to June", which has two dates, nor in "March 5", of which only a part would match.
    rf"(?!\.\d|\s*(?:,|-|–|/|\b(?:to|through|until|till|bis|hasta|and|or|und|oder|y|o|al?)\b)\s*(?:['’‘]?\d|{DATE}))"
    r"(?!\s+(?:(?:de|del|of)\s+)?['’‘]?\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """The recognised filters, empty if there are none; `text` is the question without the words for them.

    The `…_told` fields describe them for users: "only PDF files", "changed since 2025-03-01". `names_file`: at least
    one of the paths is certain.
    """

    text: str
    collection: str | None = None
    paths: tuple[str, ...] = ()
    paths_told: str = ""
    names_file: bool = False
    formats: tuple[str, ...] = ()
    formats_told: str = ""
    changed_since: str = ""
    changed_until: str = ""
    dates_told: str = ""

    @property
    def surely(self) -> Recognised:
        """Only the filters that are hardly misread: names that exist, but neither types nor dates."""
        names = Recognised(self.text, self.collection)
        return replace(names, paths=self.paths, paths_told=self.paths_told) if self.names_file else names


@dataclass
class _Reading:
    """The state of reading one question: the filters that were found, and the spans of their words."""

    question: str
    found: dict[str, object] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def note(self, start: int, end: int, **fields: object) -> None:
        self.found |= fields
        self.spans.append((start, end))

    def is_denied(self, start: int, end: int) -> bool:
        """Returns whether the sentence around a span has a negation outside of the span, which may be a name."""
        ends, denials = self._sentences
        last, following = bisect_left(ends, start) - 1, bisect_left(ends, end)
        begin = ends[last] if last >= 0 else 0
        stop = ends[following] if following < len(ends) else len(self.question)
        near = denials[bisect_left(denials, (begin, 0)) : bisect_left(denials, (stop, 0))]
        return any(at >= end or past <= start for at, past in near)

    @cached_property
    def _sentences(self) -> tuple[list[int], list[tuple[int, int]]]:
        """The ends of sentences, and the spans of negations; cached, because a question may be long."""
        ends = [match.start() for match in _SENTENCE_END.finditer(self.question)]
        return ends, [match.span() for match in _DENIED.finditer(self.question)]

    def rest(self) -> str:
        """Returns the question without the spans; unchanged if too little would be left."""
        said = {index for start, end in self.spans for index in range(start, end)}
        left = "".join(" " if index in said else character for index, character in enumerate(self.question))
        rest = re.sub(r"\s+([?.!,;:])", r"\1", " ".join(left.split())).lstrip(",;: ")
        return rest if len(terms(rest)) >= _MIN_TERMS_LEFT else self.question


def recognise(question: str, collections: Iterable[str], find_paths: FindPaths, today: date) -> Recognised:
    """Returns the filters in the question's own words.

    Args:
        question: The question as it was typed.
        collections: The names of all collections.
        find_paths: Returns files and folders of the library with given names.
        today: The date that "last week" is relative to.
    """
    reading = _Reading(question)
    _read_names(reading, find_paths)
    _read_collection(reading, collections)
    _read_dates(reading, today)
    _read_types(reading)
    return Recognised(reading.rest(), **reading.found)  # type: ignore[arg-type]


def _read_names(reading: _Reading, find_paths: FindPaths) -> None:
    possible = mentions(reading.question)
    names = {candidate.name for mention in possible for candidate in mention.candidates}
    for one in chosen(possible, find_paths(names)) if names else ():
        if not reading.is_denied(one.start, one.end):
            paths = (*_paths(reading), *(path for path in one.paths if path not in _paths(reading)))
            told = " and ".join(filter(None, (str(reading.found.get("paths_told", "")), _told(one))))
            names_file = one.is_sure or bool(reading.found.get("names_file"))
            reading.note(one.start, one.end, paths=paths, paths_told=told, names_file=names_file)


def _paths(reading: _Reading) -> tuple[str, ...]:
    paths = reading.found.get("paths", ())
    return paths if isinstance(paths, tuple) else ()


def _told(one: Chosen) -> str:
    shown = one.name.encode("utf-8", "replace").decode()
    return f"only the folder “{shown}”" if one.kind == "folder" else f"only “{shown}”"


def _read_collection(reading: _Reading, collections: Iterable[str]) -> None:
    """Recognises a collection by its name next to the word "collection"; none if several match."""
    matches = {name: match for name in collections if (match := _collection_pattern(name).search(reading.question))}
    longest = max(matches, key=len, default=None)
    # "Rust" within "Rust book" is not a second match.
    if longest is None or any(name.casefold() not in longest.casefold() for name in matches):
        return
    match = matches[longest]
    if not reading.is_denied(*match.span()):
        reading.note(match.start(), match.end(), collection=longest)


def _collection_pattern(name: str) -> re.Pattern[str]:
    exact = rf"(?-i:{re.escape(name)})"
    quoted = rf"[\"“„«‘']{re.escape(name)}[\"”“»’']"
    word = r"(?:collection|sammlung|colecci[oó]n)"
    place = r"\b(?:in|from|within|aus|en|de)\s+(?:\b(?:the|my|our|der|meiner|la|mi)\s+)?"
    named = rf"{word}\s+{exact}(?!\w)|{exact}[\s-]+{word}\b"
    return re.compile(
        # "Collection of …" is something in the world, not in the library.
        rf"(?:{place})?\b{word}\s+{quoted}|(?:{place})?(?<!\w){quoted}\s+{word}\b"
        rf"|{place}(?:{named})(?!\s+(?:of|by|von|vom|der|des|del?)\b)",
        re.IGNORECASE,
    )


def _bounds(relation: str, days: Period) -> tuple[date | None, date | None]:
    """Returns the first and the last day, None for no limit. Raises OverflowError outside of the calendar."""
    match relation:
        case "since":
            return days.first, None
        case "after":
            return days.last + timedelta(days=1), None
        case "before":
            return None, days.first - timedelta(days=1)
        case "until":
            return None, days.last
        case _:
            return days.first, days.last


def _read_dates(reading: _Reading, today: date) -> None:
    """Recognises one date that refers to files; none if there are several."""
    matches = list(_DATED.finditer(reading.question))
    if len(matches) != 1 or reading.is_denied(*matches[0].span()) or not _is_of_file(matches[0]):
        return
    match = matches[0]
    days = period(match["date"] or match["bare"], today)
    if days is None:
        return
    relation = _RELATIONS[plain_words(match["relation"])] if match["relation"] else "in"
    if match["onwards"]:
        if relation in ("before", "until"):
            return
        relation = "since" if relation == "in" else relation
    try:
        since, until = _bounds(relation, days)
    except OverflowError:
        # After the last day of the calendar, or before the first: no filter.
        return
    span = (match.start() if match["lead"] else match.start("when"), match.end())
    reading.note(
        *span,
        changed_since=since.isoformat() if since else "",
        changed_until=until.isoformat() if until else "",
        dates_told=" ".join(
            [
                "changed",
                *(["since", since.isoformat()] if since else ()),
                *(["until", until.isoformat()] if until else ()),
            ]
        ),
    )
    if match["kind"]:
        _note_kinds(reading, *span, [match["kind"]])


def _is_of_file(match: re.Match[str]) -> bool:
    """Returns whether a date refers to a file's last change, and not to its content.

    "Changed in 2024" does, and so do "since 3 May 2024" and "from last week", because people search for files in this
    way. "Of 1945" and "in May" do not, nor does a year or month alone after any word.
    """
    if match["changed"] or match["bare"]:
        return True
    if is_bare(match["date"]):
        return False
    relation = plain_words(match["relation"])
    if _RELATIONS[relation] != "in":
        return True
    return relation in _FROM and re.fullmatch(RELATIVE_DATE, match["date"], re.IGNORECASE) is not None


def _read_types(reading: _Reading) -> None:
    if "formats" in reading.found:
        return
    matches = [match for match in _TYPES.finditer(reading.question) if not reading.is_denied(*match.span("said"))]
    if matches:
        _note_kinds(reading, *matches[0].span("said"), [match["kind"] for match in matches])
        reading.spans += [match.span("said") for match in matches[1:]]


def _note_kinds(reading: _Reading, start: int, end: int, words: Iterable[str]) -> None:
    kinds = list(dict.fromkeys(KIND_OF_WORD[plain_words(word)] for word in words))
    formats = tuple(dict.fromkeys(format_ for kind in kinds for format_ in FORMATS_OF_KIND[kind]))
    reading.note(start, end, formats=formats, formats_told=f"only {' and '.join(kinds)}")
