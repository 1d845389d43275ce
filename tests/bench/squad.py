"""SQuAD as a retrieval task: paragraphs as files with neutral names, and questions with one relevant file each.

Data: the dev sets of SQuAD 1.1 and 2.0 (Rajpurkar et al., CC BY-SA 4.0), from the shared data.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class SquadQuestion:
    """`paragraph` is the index of the relevant one; `answers` is empty if the paragraph contains none."""

    text: str
    paragraph: int
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Squad:
    paragraphs: tuple[str, ...]
    questions: tuple[SquadQuestion, ...]

    def sample(self, count: int, seed: int) -> list[SquadQuestion]:
        return random.Random(seed).sample(self.questions, min(count, len(self.questions)))


def read_squad(file: Path) -> Squad:
    """Reads all distinct paragraphs in order, and all questions."""
    index: dict[str, int] = {}
    questions: list[SquadQuestion] = []
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            number = index.setdefault(paragraph["context"], len(index))
            for asked in paragraph["qas"]:
                answers = tuple(answer["text"] for answer in asked["answers"])
                questions.append(SquadQuestion(asked["question"], number, answers))
    return Squad(tuple(index), tuple(questions))


def write_paragraphs(squad: Squad, folder: Path) -> list[Path]:
    """Writes one text file per paragraph, with a name that gives no hint and without titles."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:04}.txt" for number in range(len(squad.paragraphs))]
    for file, text in zip(files, squad.paragraphs, strict=True):
        file.write_text(text, encoding="utf-8")
    return files


def figures(rankings: Sequence[Sequence[int]], right: Sequence[int]) -> dict[str, float]:
    """Returns R@1, R@5, R@10 and MRR over distinct documents: duplicates take one place."""
    ranks = [_rank(ranking, paragraph) for ranking, paragraph in zip(rankings, right, strict=True)]
    recall = {f"R@{depth}": sum(rank is not None and rank <= depth for rank in ranks) for depth in DEPTHS}
    reciprocal = sum(1.0 / rank for rank in ranks if rank is not None)
    return {name: value / len(ranks) for name, value in {**recall, "MRR": reciprocal}.items()}


def contains_answer(quotes: Sequence[str], answers: Sequence[str]) -> bool:
    """Returns whether a quote contains a gold answer verbatim."""
    return any(answer in quote for quote in quotes for answer in answers)


def _rank(ranking: Sequence[int], paragraph: int) -> int | None:
    distinct = list(dict.fromkeys(ranking))
    return distinct.index(paragraph) + 1 if paragraph in distinct else None
