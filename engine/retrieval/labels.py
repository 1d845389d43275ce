"""Labels: the names of files and of the folders around them, as words that a question may contain.

A scanned document can often only be identified by its name ("telekom-2024-03.pdf"). Words are weighted by how rare they
are among the library's names; question words, and words in more than half of the names, have no weight. Numbers only
add to matching words, because "03" may mean anything. Pure.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.partitions.searchable import searchable
from engine.retrieval.everyday import EVERYDAY_WORDS
from engine.retrieval.followup_words import EMPTY_WORDS
from engine.retrieval.words import terms

# The most folders above a file, up to the one that the user added, whose names count.
_MOST_FOLDERS = 2
# The most terms of a label.
_MOST_TERMS = 24
_FOLDER_WEIGHT, _NUMBER_WEIGHT = 0.5, 0.3
# Shorter numbers are days, months, years and counts; longer ones are usually identifiers.
_MIN_DIGITS = 5
# A term in more names than this finds no files, and only adds to those that rarer words have found.
_MOST_HOLDERS = 2000
# A longer text may share words with a name by chance, so its matches count less.
_FULL_TERMS = 12

_TOKEN = re.compile(r"[^\W_]+")
_PIECE = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])")
_SAYS_NOTHING = EMPTY_WORDS | EVERYDAY_WORDS

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float32]


class LabelTerm(NamedTuple):
    """A term of a label: its weight, and its share of the file's own name.

    A term that cannot find the file only adds to the others.
    """

    weight: float
    share: float = 0.0
    can_find: bool = True


_NUMBER = LabelTerm(_NUMBER_WEIGHT, can_find=False)
_OF_FOLDER = LabelTerm(_FOLDER_WEIGHT, share=_FOLDER_WEIGHT)
_NUMBER_OF_FOLDER = LabelTerm(_FOLDER_WEIGHT * _NUMBER_WEIGHT, can_find=False)


class Words(NamedTuple):
    """The words of a text: `parts` are single words, `wholes` are several written together ("iphone13").

    `wholes` maps to the number of words that each consists of; `numbers` have no leading zeros.
    """

    parts: frozenset[str]
    wholes: Mapping[str, int]
    numbers: frozenset[str]


def words_of(text: str) -> Words:
    """Splits a text at other characters than letters and digits, between these two, and at capitals within words."""
    parts, wholes, numbers = set[str](), dict[str, int](), set[str]()
    for token in _TOKEN.findall(searchable(text)):
        some_parts, some_wholes, num_words, some_numbers = _split(token)
        parts.update(some_parts)
        if some_numbers:
            numbers.update(some_numbers)
        if some_wholes:
            wholes.update(dict.fromkeys(some_wholes, num_words))
    return Words(frozenset(parts), wholes, frozenset(numbers))


# Cached, because the same words occur in many names and questions.
@lru_cache(maxsize=16384)
def _split(token: str) -> tuple[frozenset[str], frozenset[str], int, tuple[str, ...]]:
    """Returns the terms of its words, those of the whole if it has several, the number of words, and its numbers."""
    pieces = [word for piece in _PIECE.findall(token) for word in _CAMEL.split(piece)]
    words = [_terms_of(piece) for piece in pieces if not piece[0].isdigit()]
    numbers = (piece.lstrip("0") for piece in pieces if piece[0].isdigit())
    wholes = _terms_of(token) if len(pieces) > 1 and words else frozenset[str]()
    return frozenset[str]().union(*words), wholes, max(1, len(words)), tuple(filter(None, numbers))


def _terms_of(word: str) -> frozenset[str]:
    """Returns the terms of a word: none for an empty word; pairs of characters in scripts without spaces."""
    folded = word.casefold()
    if folded in _SAYS_NOTHING or (len(folded) < 2 and folded.isascii()):
        return frozenset()
    return terms(folded)


def label_of(name: str, around: Mapping[str, LabelTerm]) -> dict[str, LabelTerm]:
    """Returns the terms of a file's name without ending, and those of the folders around it."""
    own = words_of(name)
    each = 1.0 / max(1, len(own.parts))
    label = dict.fromkeys(sorted(own.parts), LabelTerm(1.0, each))
    for term, count in sorted(own.wholes.items()):
        label.setdefault(term, LabelTerm(1.0, each * count))
    for number in sorted(own.numbers):
        is_long = len(number) >= _MIN_DIGITS
        label.setdefault(number, LabelTerm(1.0, float(not own.parts)) if is_long else _NUMBER)
    # The terms of the file come first, because those of a folder are common to many files.
    label |= {term: of_folder for term, of_folder in around.items() if term not in label}
    return label if len(label) <= _MOST_TERMS else dict(list(label.items())[:_MOST_TERMS])


def folders_label(names: Iterable[str]) -> dict[str, LabelTerm]:
    """Returns the terms of folders, for the files in them."""
    label: dict[str, LabelTerm] = {}
    for words in map(words_of, names):
        label |= dict.fromkeys(sorted((*words.parts, *words.wholes)), _OF_FOLDER)
        label |= {number: _NUMBER_OF_FOLDER for number in sorted(words.numbers) if number not in label}
    return label


def labels_of(paths: Mapping[int, str], root_folders: Collection[str]) -> Iterator[tuple[int, dict[str, LabelTerm]]]:
    """Yields the label of each document; folders above those that the user added do not count."""
    known: dict[str, dict[str, LabelTerm]] = {}
    for document_id, path in paths.items():
        folder, _, name = path.rpartition("/")
        if folder not in known:
            known[folder] = folders_label(_names_around(folder, root_folders))
        yield document_id, label_of(name.rpartition(".")[0] or name, known[folder])


def _names_around(folder: str, root_folders: Collection[str]) -> Iterator[str]:
    for _ in range(_MOST_FOLDERS):
        above, _, name = folder.rpartition("/")
        if name:
            yield name
        if folder in root_folders or not above:
            return
        folder = above


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """The terms of labels, sorted by hash and document, for binary search: a few bytes per term."""

    hashes: _Ints
    document_ids: _Ints
    weights: _Floats
    shares: _Floats
    can_find: NDArray[np.bool_]
    num_documents: int

    @classmethod
    def of(cls, labels: Iterable[tuple[int, Mapping[str, LabelTerm]]]) -> LabelTable:
        hashes, ids, weights, shares, can_find = array("q"), array("q"), array("f"), array("f"), array("b")
        num_documents = 0
        for document_id, label in labels:
            num_documents += 1
            for term, (weight, share, finds) in label.items():
                hashes.append(hash(term))
                ids.append(document_id)
                weights.append(weight)
                shares.append(share)
                can_find.append(finds)
        columns = (np.array(hashes, np.int64), np.array(ids, np.int64), np.array(weights, np.float32))
        return cls(
            *columns, np.array(shares, np.float32), np.array(can_find, np.bool_), num_documents=num_documents
        )._taken(np.lexsort((columns[1], columns[0])))

    def without(self, document_ids: Collection[int]) -> LabelTable:
        if not document_ids:
            return self
        gone = np.isin(self.document_ids, np.fromiter(document_ids, np.int64, len(document_ids)))
        # Documents without terms are still counted, which hardly matters.
        left = self.num_documents - len(np.unique(self.document_ids[gone]))
        return self._taken(np.flatnonzero(~gone), num_documents=left)

    def with_(self, other: LabelTable) -> LabelTable:
        """Merges both; no document may be in both."""
        both = LabelTable(
            np.concatenate((self.hashes, other.hashes)),
            np.concatenate((self.document_ids, other.document_ids)),
            np.concatenate((self.weights, other.weights)),
            np.concatenate((self.shares, other.shares)),
            np.concatenate((self.can_find, other.can_find)),
            self.num_documents + other.num_documents,
        )
        return both._taken(np.lexsort((both.document_ids, both.hashes)))

    def spans(self, hashes: _Ints) -> list[slice]:
        """Returns the slices of the terms with these hashes."""
        starts, stops = (np.searchsorted(self.hashes, hashes, side) for side in ("left", "right"))
        return [slice(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def _taken(self, rows: NDArray[np.intp], num_documents: int | None = None) -> LabelTable:
        return LabelTable(
            self.hashes[rows],
            self.document_ids[rows],
            self.weights[rows],
            self.shares[rows],
            self.can_find[rows],
            self.num_documents if num_documents is None else num_documents,
        )


def strengths(text: str, tables: Sequence[tuple[LabelTable, Callable[[int], bool]]], limit: int) -> dict[int, float]:
    """Scores how well the names of documents match a text, 0 to 1; returns the `limit` best, best first.

    Each of `tables` comes with a predicate for its documents; no document may be found in two tables.
    """
    said = words_of(text)
    hashes = np.array(sorted(map(hash, {*said.parts, *said.wholes, *said.numbers})), np.int64)
    num_documents = sum(table.num_documents for table, _ in tables)
    spans = [table.spans(hashes) for table, _ in tables]
    counts = [sum(span.stop - span.start for span in each) for each in zip(*spans, strict=True)]
    telling = [index for index, count in enumerate(counts) if 0 < 2 * count <= num_documents]
    rarity = {index: math.log1p(num_documents / counts[index]) / math.log1p(num_documents) for index in telling}
    finding = [index for index in telling if counts[index] <= _MOST_HOLDERS]
    focus = min(1.0, _FULL_TERMS / max(1, len(said.parts)))
    found: dict[int, float] = {}
    for (table, is_wanted), of_table in zip(tables, spans, strict=True):
        some = [table.document_ids[span][table.can_find[span]] for span in map(of_table.__getitem__, finding)]
        candidates = np.array([one for one in _distinct(some) if is_wanted(one)], np.int64)
        if len(candidates):
            each = focus * _strengths(table, candidates, [(of_table[index], rarity[index]) for index in telling])
            found.update(zip(candidates.tolist(), each.tolist(), strict=True))
    best = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return dict(best[:limit])


def _distinct(ids: Sequence[_Ints]) -> list[int]:
    found: list[int] = np.unique(np.concatenate(ids)).tolist() if ids else []
    return found


def _strengths(table: LabelTable, candidates: _Ints, spans: Iterable[tuple[slice, float]]) -> NDArray[np.float64]:
    """Scores candidates: a rare word gives 0.5, several give more; half of that if little of the name matches."""
    total, covered = np.zeros(len(candidates)), np.zeros(len(candidates))
    for span, rarity in spans:
        holders = table.document_ids[span]
        if len(holders):
            at = np.minimum(np.searchsorted(holders, candidates), len(holders) - 1)
            has = holders[at] == candidates
            total += has * rarity * table.weights[span][at]
            covered += has * table.shares[span][at]
    result: NDArray[np.float64] = total / (total + 1.0) * (0.5 + 0.5 * np.minimum(1.0, covered))
    return result


NO_LABELS = LabelTable.of(())
