"""Names: which files and folders a question seems to mention, and which of them the library has.

A name with a document's ending ("lease 2024.pdf") is recognised anywhere. An ending that programs use as well
("notes.txt") counts only if a single file has that name, and even then may not mean it ("How do I open notes.txt in
Python?"). Endings that are common in questions about programs (".toml", ".py"), and names that every project has
(README.md), count only after a word for a file ("in the file Cargo.toml"). A file that is to be written ("Save it to
todo.md") is not searched. Chinese has no spaces, so there a name may begin after any character, and ends with its
ending. A name without an ending must be quoted, introduced ("called …"), or look like a name ("im Ordner Verträge",
"the document lease 2024"): "the file format" and "How do I file a complaint?" name nothing.
"""

from __future__ import annotations

import os
import re
import string
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from engine.catalog.scopes import Named, file_names, folded_name
from engine.retrieval.everyday import EVERYDAY_WORDS

MAX_WORDS = 8
# If more files or folders have a name, it does not say which one is meant.
MAX_FILES, MAX_FOLDERS = 50, 8
MAX_MENTIONS = 64
# File systems have no longer names.
MAX_CHARACTERS = 255

Kind = Literal["file", "folder"]

_ENDINGS = "pdf|docx?|odt|rtf|xlsx?|ods|pptx?|od[pg]|epub|eml|mbox|msg"
_PLAIN_ENDINGS = "txt|md|csv|tsv|html?"
_IN_EVERY_PROJECT = re.compile(
    r"(?:readme|license|changelog|contributing|security)\.\w+|index\.(?:html?|md)|(?:requirements|robots|cmakelists|llms)\.txt",
    re.IGNORECASE,
)
_FILE_WORD = r"(?:(?P<english>file|document)|datei|dokument|dokuments|archivo|documento|fichero)"
_FOLDER_WORD = r"(?:(?P<english>folder|directory)|ordner|ordners|verzeichnis|carpeta|directorio)"
_LEAD = (
    r"(?P<lead>(?:(?:in|inside|from|within|of|according\s+to|im|in\s+der|in\s+dem|aus|laut|en|de|según|dentro\s+de)\s+)?"
    r"(?:(?:the|my|our|die|das|der|den|dem|meiner|meinem|el|la|mi|del)\s+)?)"
)
_CALLED = r"(?P<called>\s+(?:called|named|namens|llamad[oa]))?"
_QUOTED = r"[\"“„«‘](?P<quoted>[^\"“”„«»‘’]{1,120})[\"”“»’]"
_WORDS = rf"(?P<words>\S+(?:\s+\S+){{0,{MAX_WORDS - 1}}})"
_AFTER_WORD = {
    kind: re.compile(rf"\b{_LEAD}{word}{_CALLED}\s+(?:{_QUOTED}|{_WORDS})", re.IGNORECASE)
    for kind, word in (("file", _FILE_WORD), ("folder", _FOLDER_WORD))
}
_BEFORE_FOLDER = re.compile(
    rf"\b(?:in|inside|from|within)\s+(?:the|my|our)\s+(?:{_QUOTED}|(?P<words>\S+(?:\s+\S+){{0,3}}))\s+(?:folder|directory)\b",
    re.IGNORECASE,
)
_UNBROKEN = re.compile(r"[^\s\"“”„«»]+")
_HAN = "\u3400-\u9fff"
# Chinese characters and punctuation, such as 《》 around a title.
_CHINESE = rf"{_HAN}\u3001-\u303f\uff00-\uff65"
_ENDING = re.compile(
    rf"(?<=[^\s\"“”„«»])\.(?:{_ENDINGS}|(?P<plain>{_PLAIN_ENDINGS}))(?P<more>(?=[{_CHINESE}]))?(?![^\W{_HAN}])",
    re.IGNORECASE,
)
# Where a name may begin that directly follows other words.
_INNER_START = re.compile(rf"(?<=[{_CHINESE}])|(?=[{_HAN}])")
# At most this many characters before its ending.
_INNER_CHARACTERS = 40
_IS_WRITTEN_TO = re.compile(
    r"\b(?:(?:save|write|store|export|append|print|copy|put|add)\b(?:(?![.!?]\s).)*\b(?:to|into|as)"
    r"|(?:ab|auf)?(?:ge)?(?:speicher|schreib)\w*(?:(?![.!?]\s).)*\b(?:in|nach|unter|als)"
    r"|(?:gu[aá]rda|escr[ií]be)\w*(?:(?![.!?]\s).)*\b(?:en|como))\s+$"
    r"|(?:存|写|寫|导出|導出|输出|輸出|复制|複製|添加)[^。！？]{0,30}?(?:到|为|為|成|入|进|進|至)[\s《「『“]*$",
    re.IGNORECASE | re.DOTALL,
)
# The words for writing must be within this many characters before the name.
_WRITTEN_CHARACTERS = 120
_HAS_ENDING = re.compile(r"[^\s.]\.\w{1,8}")
_MIN_LETTERS = 3
# A match of this many words of a name is not a coincidence.
_MANY_WORDS = 3
_EDGES = f".,;:!?()[]{{}}\"“”„«»‘’'{string.whitespace}\u00a0\u3000"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name that `question[start:end]` may mention; the span includes the words that introduce it."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a question that may name a file or folder: possible names, longest first.

    A name that more than `most` files have is ambiguous. Unless it `is_sure`, it may not mean a file at all.
    """

    kind: Kind
    candidates: tuple[Candidate, ...]
    most: int
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files or folders that a mention means."""

    kind: Kind
    name: str
    paths: tuple[str, ...]
    start: int
    end: int
    is_sure: bool


def mentions(question: str) -> list[Mention]:
    """Finds the places where a question may name files or folders.

    Returns none if there are too many: a pasted list of files is not a question about each.
    """
    found = chain(_introduced(question), _folders_before(question), _with_endings(question))
    some = list(islice((mention for mention in found if mention.candidates), MAX_MENTIONS + 1))
    return some if len(some) <= MAX_MENTIONS else []


def chosen(found: Collection[Mention], named: Named) -> list[Chosen]:
    """Returns, for each mention, its longest name that exists in the library and is not ambiguous."""
    picked: list[Chosen] = []
    by_name = _by_name(named)
    for mention in found:
        one = next(_there(mention, by_name), None)
        if one is not None and not any(one.start < other.end and other.start < one.end for other in picked):
            picked.append(one)
    return picked


def _by_name(named: Named) -> dict[tuple[Kind, str], list[str]]:
    """Maps possible names of files and folders to their paths."""
    found: dict[tuple[Kind, str], list[str]] = {}
    for path in sorted(named.files):
        for name in file_names(path):
            found.setdefault(("file", name), []).append(path)
    for path in sorted(named.folders):
        found.setdefault(("folder", folded_name(os.path.basename(path))), []).append(path)
    return found


def _there(mention: Mention, by_name: Mapping[tuple[Kind, str], list[str]]) -> Iterator[Chosen]:
    for candidate in mention.candidates:
        paths = by_name.get((mention.kind, folded_name(candidate.name)), [])
        if 0 < len(paths) <= mention.most:
            shown = os.path.basename(paths[0])
            yield Chosen(mention.kind, shown, tuple(paths), candidate.start, candidate.end, mention.is_sure)


def _introduced(question: str) -> Iterator[Mention]:
    """Yields mentions after "the file …" and "the folder …": a quoted name, or the following words."""
    for kind, pattern in _AFTER_WORD.items():
        for match in pattern.finditer(question):
            if match["quoted"] is not None:
                spans = [(match.start("quoted"), match.end("quoted"), match.end())]
            else:
                can_be_bare = bool(match["lead"].strip()) or match["called"] is not None
                must_stand_out = match["english"] is not None and match["called"] is None
                ends = [match.start("words") + word.end() for word in re.finditer(r"\S+", match["words"])]
                spans = [(match.start("words"), end, end) for end in reversed(ends)]
            found = filter(
                None, (_candidate(question, start, end, match.start(), after) for start, end, after in spans)
            )
            candidates = tuple(
                one
                for one in found
                if match["quoted"] is not None
                or _HAS_ENDING.search(one.name)
                or (can_be_bare and _may_be_name(one.name, must_stand_out=must_stand_out))
            )
            yield (
                Mention("folder", candidates, MAX_FOLDERS)
                if kind == "folder"
                else Mention("file", candidates, MAX_FILES)
            )


def _folders_before(question: str) -> Iterator[Mention]:
    """Yields mentions before the word, as in "my tax folder" and "the “Rust book” folder"."""
    for match in _BEFORE_FOLDER.finditer(question):
        group = "quoted" if match["quoted"] is not None else "words"
        candidate = _candidate(question, match.start(group), match.end(group), match.start(), match.end())
        is_name = candidate is not None and (group == "quoted" or _may_be_name(candidate.name, must_stand_out=False))
        yield Mention("folder", (candidate,) if candidate and is_name else (), MAX_FOLDERS)


def _with_endings(question: str) -> Iterator[Mention]:
    """Yields names with a document's ending, alone or with words before it, because file names may have spaces."""
    words = [word.start() for word in re.finditer(r"\S+", question)]
    for begin, end, is_plain in _endings(question):
        last = (begin, *_inner_starts(question, begin, end))
        if is_plain and any(_IN_EVERY_PROJECT.fullmatch(question[at:end].strip(_EDGES)) for at in last):
            continue
        following = bisect_left(words, end)
        some = words[max(0, following - MAX_WORDS) : following]
        inner = _inner_starts(question, some[0], end)
        starts = [start for start in sorted({*some, *inner}) if not _is_written_to(question, start)]
        candidates = [_candidate(question, start, end, start, end) for start in starts]
        yield Mention("file", tuple(filter(None, candidates)), 1 if is_plain else MAX_FILES, is_sure=not is_plain)


def _endings(question: str) -> Iterator[tuple[int, int, bool]]:
    """Yields start and end of each word with an ending, and whether programs use that ending as well.

    Without spaces, the last ending ends the name, and also each ending that Chinese characters follow.
    """
    for unbroken in _UNBROKEN.finditer(question):
        begin = unbroken.start()
        found = list(_ENDING.finditer(question, begin, unbroken.end()))
        for number, ending in enumerate(found, start=1):
            if ending["more"] is not None or number == len(found):
                yield begin, ending.end(), ending["plain"] is not None
                begin = ending.end()


def _inner_starts(question: str, begin: int, end: int) -> list[int]:
    first = max(begin + 1, end - _INNER_CHARACTERS)
    return [at for at in range(first, end) if _INNER_START.match(question, at)]


def _is_written_to(question: str, start: int) -> bool:
    return _IS_WRITTEN_TO.search(question[max(0, start - _WRITTEN_CHARACTERS) : start]) is not None


def _may_be_name(name: str, *, must_stand_out: bool) -> bool:
    """Returns whether a name without quotes and ending can be distinguished from the words of a sentence.

    In English, "file" forms compounds ("the file format"), so there a name must stand out by a capital, a digit or its
    length.
    """
    words = name.casefold().split()
    if sum(map(str.isalpha, name)) < _MIN_LETTERS or words[0] in EVERYDAY_WORDS:
        return False
    return (
        not must_stand_out
        or len(words) >= _MANY_WORDS
        or any(mark.isupper() or not mark.isalpha() for mark in name.replace(" ", ""))
    )


def _candidate(question: str, start: int, end: int, whole_start: int, whole_end: int) -> Candidate | None:
    name = question[start:end].strip(_EDGES)
    return Candidate(name, whole_start, whole_end) if 0 < len(name) <= MAX_CHARACTERS else None
