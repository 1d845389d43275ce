"""The question sets of the retrieval bench in one form: documents as files with neutral names, questions with gold.

Sources, from the shared data: SQuAD 1.1 (Rajpurkar et al., CC BY-SA 4.0), XQuAD (Artetxe et al., CC BY-SA 4.0),
COVID-QA (Möller et al., Apache-2.0), Cranfield 1400 (Cleverdon).
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tests.bench.squad import DEPTHS, figures

# Cranfield's judgements range from 1 (a complete answer) to 4 (minimal interest).
_CRANFIELD_GAIN = {1: 4, 2: 3, 3: 2, 4: 1}


@dataclass(frozen=True, slots=True)
class SetQuestion:
    """`gains` maps relevant documents to their relevance grade, 1 in ungraded sets; `answers` are gold answers."""

    text: str
    gains: Mapping[int, int]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """`groups[i]` is the article that document i belongs to."""

    name: str
    documents: tuple[str, ...]
    groups: tuple[int, ...]
    questions: tuple[SetQuestion, ...]
    is_graded: bool = False

    def first(self, count: int) -> QuestionSet:
        """Returns the first `count` documents and the questions about them."""
        return self._of(range(min(count, len(self.documents))))

    def last(self, count: int) -> QuestionSet:
        """Returns the last `count` documents and the questions about them."""
        return self._of(range(max(0, len(self.documents) - count), len(self.documents)))

    def of_half(self, which: Literal["first", "second"]) -> tuple[SetQuestion, ...]:
        """Returns the questions about one half of the articles: the first is for fitting, the second for reporting."""
        middle = (self.groups[-1] + 1) / 2
        is_first = [all(self.groups[number] < middle for number in one.gains) for one in self.questions]
        return tuple(
            one for one, of_first in zip(self.questions, is_first, strict=True) if of_first == (which == "first")
        )

    def _of(self, kept: range) -> QuestionSet:
        questions = [
            replace(one, gains={number - kept.start: gain for number, gain in one.gains.items() if number in kept})
            for one in self.questions
        ]
        return replace(
            self,
            documents=self.documents[kept.start : kept.stop],
            groups=self.groups[kept.start : kept.stop],
            questions=tuple(one for one in questions if one.gains),
        )

    def write(self, folder: Path) -> list[Path]:
        """Writes one text file per document, with a name that gives no hint."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{number:04}.txt" for number in range(len(self.documents))]
        for file, text in zip(files, self.documents, strict=True):
            file.write_text(text, encoding="utf-8")
        return files


def read_paragraphs(name: str, file: Path) -> QuestionSet:
    """Reads a set in SQuAD's format: each distinct paragraph is a document, its article is its group."""
    index: dict[str, int] = {}
    groups: list[int] = []
    questions: list[SetQuestion] = []
    for article, content in enumerate(json.loads(file.read_text(encoding="utf-8"))["data"]):
        for paragraph in content["paragraphs"]:
            number = index.setdefault(paragraph["context"], len(index))
            groups += [article] * (len(index) - len(groups))
            for asked in paragraph["qas"]:
                answers = tuple(answer["text"].strip() for answer in asked["answers"])
                questions.append(SetQuestion(asked["question"], {number: 1}, answers))
    return QuestionSet(name, tuple(index), tuple(groups), tuple(questions))


def unanswered(squad: QuestionSet, file: Path) -> QuestionSet:
    """Returns SQuAD 2.0's unanswerable questions about the same paragraphs."""
    second = read_paragraphs("SQuAD 2.0", file)
    number_of = {text: number for number, text in enumerate(squad.documents)}
    moved = []
    for one in second.questions:
        number = number_of.get(second.documents[next(iter(one.gains))])
        if number is not None and not one.answers:
            moved.append(replace(one, gains={number: 1}))
    return replace(squad, questions=tuple(moved))


def sample(questions: Sequence[SetQuestion], count: int, seed: int) -> list[SetQuestion]:
    return random.Random(seed).sample(questions, min(count, len(questions)))


def read_cranfield(folder: Path) -> QuestionSet:
    """Reads abstracts and queries, without empty abstracts and queries that have no relevant abstract."""
    text = (folder / "cran.all.1400.xml").read_text(encoding="utf-8")
    documents: list[str] = []
    number_of: dict[str, int] = {}
    for entry in re.findall(r"<doc>(.*?)</doc>", text, re.DOTALL):
        found = re.search(r"<text>(.*?)</text>", entry, re.DOTALL)
        if found and found[1].strip():
            number_of[re.findall(r"<docno>\s*(\d+)", entry)[0]] = len(documents)
            documents.append(found[1].strip())
    gains: dict[int, dict[int, int]] = {}
    for line in (folder / "cranqrel.trec.txt").read_text(encoding="utf-8").splitlines():
        query, _, document, grade = line.split()[:4]
        if document in number_of and int(grade) in _CRANFIELD_GAIN:
            gains.setdefault(int(query), {})[number_of[document]] = _CRANFIELD_GAIN[int(grade)]
    titles = re.findall(r"<title>(.*?)</title>", (folder / "cran.qry.xml").read_text(encoding="utf-8"), re.DOTALL)
    # Judgements number the queries by their order in the file, not by the number in it.
    questions = tuple(
        SetQuestion(" ".join(title.split()), gains[order]) for order, title in enumerate(titles, 1) if gains.get(order)
    )
    return QuestionSet("Cranfield", tuple(documents), tuple(range(len(documents))), questions, is_graded=True)


def ranking_figures(rankings: Sequence[Sequence[int]], asked: Sequence[SetQuestion]) -> dict[str, float]:
    """Returns R@1, R@5, R@10 and MRR of the first relevant document, and nDCG@10; duplicates take one place."""
    first_right = [
        [0 if number in one.gains else 1 for number in dict.fromkeys(found)]
        for found, one in zip(rankings, asked, strict=True)
    ]
    result = figures(
        [[place + 1 if miss else 0 for place, miss in enumerate(row)] for row in first_right], [0] * len(asked)
    )
    ndcg = [_ndcg(list(dict.fromkeys(found)), one.gains) for found, one in zip(rankings, asked, strict=True)]
    return result | {"nDCG@10": sum(ndcg) / len(ndcg)}


def _ndcg(ranking: Sequence[int], gains: Mapping[int, int]) -> float:
    """Returns nDCG@10: the discounted gain of the first ten ÷ the ideal one."""
    depth = max(DEPTHS)
    ideal = sorted(gains.values(), reverse=True)[:depth]
    best = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(ideal, start=1))
    got = sum(gains.get(number, 0) / math.log2(rank + 1) for rank, number in enumerate(ranking[:depth], start=1))
    return got / best if best else 0.0
