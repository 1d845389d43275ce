"""Fits the classifier by which the reader quotes or says "not found", and prints its constants for calibration.py.

    python -m tests.bench.calibrate_reader [--questions N] [--homes FOLDER]

Uses the first half of the articles of SQuAD, COVID-QA and XQuAD-zh; the other half is left to retrieval_quality.
Positive examples are questions that the files answer. Negative examples are the unanswerable questions of SQuAD 2.0,
and every answerable question once more with its own article hidden, which is the usual case of "not in your files". The
threshold keeps the quotes of 95 of 100 positives. Takes about 20 minutes on two cores, most of it for indexing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Engine
from engine.catalog.scopes import Located
from engine.config import Home
from engine.retrieval.calibration import Calibration
from engine.retrieval.query import Query
from engine.retrieval.reader import Reader, signs
from engine.retrieval.search import Searcher
from engine.retrieval.sentence_vectors import SentenceVectors
from tests.bench import ending
from tests.bench.question_sets import QuestionSet, SetQuestion, read_paragraphs, sample, unanswered
from tests.helpers.shared_data import SHARED_DATA

QA = SHARED_DATA / "qa"
SEED = 20_250_415
KEPT_SHARE = 0.95
# SQuAD 2.0's unanswerable questions were written to look answerable; with full weight they would dominate the fit.
ADVERSARIAL_WEIGHT = 0.5
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    values: tuple[float, ...]
    is_answered: bool
    weight: float = 1.0


class Hiding:
    """The catalogue without the documents of one article."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self.hidden: Collection[str] = ()

    def located(self, document_ids: Iterable[int]) -> Mapping[int, Located]:
        found = self._catalog.located(document_ids)
        return {id_: one for id_, one in found.items() if Path(one.path).name not in self.hidden}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.calibrate_reader",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--questions", type=int, default=500, metavar="N", help="questions per kind and set")
    parser.add_argument("--homes", type=Path, metavar="FOLDER", help="keep the indexed libraries there and reuse them")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        homes = options.homes or Path(folder)
        squad = read_paragraphs("squad", QA / "squad" / "dev-v1.1.json")
        covid = read_paragraphs("covid", QA / "covid-qa/data/question-answering/200423_covidQA.json").first(40)
        meaning = examples(squad, homes, options.questions, unanswered(squad, QA / "squad" / "dev-v2.0.json"))
        meaning += examples(covid, homes, options.questions)
        _tell("BY_MEANING", fitted(meaning), meaning)
        words = examples(read_paragraphs("zh", QA / "xquad" / "xquad.zh.json"), homes, options.questions)
        _tell("BY_WORDS", fitted(words), words)
    return 0


def examples(of: QuestionSet, homes: Path, count: int, misleading: QuestionSet | None = None) -> list[Example]:
    """Returns our search's and reader's features of answerable and other questions about the first half."""
    folder = homes / f"home-{of.name}"
    of.write(folder / "documents")
    with Engine(Home.under(folder)) as engine:
        engine.add([folder / "documents"])
        catalog = Hiding(engine._catalog)
        searcher = engine._parts.searching()
        searcher._documents = catalog
        answered = sample(of.of_half("first"), count, SEED)
        found = [Example(values, True) for values in _signs(searcher, catalog, of, answered, hide=False)]
        found += [Example(values, False) for values in _signs(searcher, catalog, of, answered, hide=True)]
        if misleading is not None:
            asked = sample(misleading.of_half("first"), count, SEED)
            values_of_asked = _signs(searcher, catalog, of, asked, hide=False)
            found += [Example(values, False, ADVERSARIAL_WEIGHT) for values in values_of_asked]
    return found


def _signs(
    searcher: Searcher, catalog: Hiding, of: QuestionSet, asked: Sequence[SetQuestion], *, hide: bool
) -> list[tuple[float, ...]]:
    from engine.memory.ledger import Ledger

    reader = Reader(searcher.embedder, SentenceVectors(Ledger()))
    values: list[tuple[float, ...]] = []
    for one in asked:
        groups = {of.groups[number] for number in one.gains} if hide else set()
        catalog.hidden = {f"{number:04}.txt" for number, group in enumerate(of.groups) if group in groups}
        [result] = searcher.search([Query(one.text)])
        ranked = sorted(reader.scored(one.text, result.passages), key=lambda candidate: -candidate.score)
        if ranked:
            values.append(signs(one.text, ranked[0], result.passages, result.strength).values())
    return values


def fitted(of: Sequence[Example], ridge: float = 1.0) -> Calibration:
    """Fits a logistic regression by Newton's method, and the threshold that keeps 95 of 100 answerable questions.

    Features that never vary (no cosine where nothing is embedded) get no weight.
    """
    features, answered, weight = _arrays(of)
    columns = np.c_[features, np.ones(len(features))]
    penalty = ridge * np.eye(columns.shape[1])
    # The bias is not penalised, apart from what keeps the equations solvable when all probabilities are near 0 or 1.
    penalty[-1, -1] = 1e-6
    model = np.zeros(columns.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-columns @ model))
        slope = columns.T @ (weight * (chance - answered)) + penalty @ model
        curvature = (columns.T * (weight * chance * (1.0 - chance))) @ columns + penalty
        step = np.linalg.solve(curvature, slope)
        # Limits the step: Newton's method may otherwise jump to where the gradient vanishes.
        model -= step * min(1.0, 2.0 / max(float(np.linalg.norm(step)), 1e-9))
    chances = np.sort(1.0 / (1.0 + np.exp(-columns[answered == 1.0] @ model)))
    threshold = float(chances[int((1.0 - KEPT_SHARE) * len(chances))])
    return Calibration(tuple(float(value) for value in model[:-1]), float(model[-1]), threshold)


def _arrays(of: Sequence[Example]) -> tuple[Matrix, Matrix, Matrix]:
    return (
        np.array([one.values for one in of], dtype=np.float64),
        np.array([one.is_answered for one in of], dtype=np.float64),
        np.array([one.weight for one in of], dtype=np.float64),
    )


def _tell(name: str, calibration: Calibration, of: Sequence[Example]) -> None:
    features, answered, weight = _arrays(of)
    chance = 1.0 / (1.0 + np.exp(-(features @ np.array(calibration.weights) + calibration.bias)))
    quoted = chance >= calibration.threshold
    shown = ", ".join(f"{value:.2f}" for value in calibration.weights)
    print(f"{name} = Calibration(({shown}), {calibration.bias:.2f}, {calibration.threshold:.2f})")
    for what, which in (
        ("answerable, quoted", answered == 1.0),
        ("article hidden, quoted", (answered == 0.0) & (weight == 1.0)),
        ("unanswerable (SQuAD 2.0), quoted", weight < 1.0),
    ):
        if which.any():
            print(f"    {what}: {quoted[which].mean():.3f} of {int(which.sum())}", flush=True)


if __name__ == "__main__":
    sys.exit(ending.run(main))
