"""Tests for tests.bench.question_sets and the fit of tests.bench.calibrate_reader."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.bench.calibrate_reader import KEPT_SHARE, Example, fitted
from tests.bench.question_sets import QuestionSet, SetQuestion, ranking_figures, read_paragraphs, unanswered

OF = QuestionSet(
    "four",
    ("a", "b", "c", "d"),
    (0, 0, 1, 1),
    (SetQuestion("about a", {0: 1}), SetQuestion("about d", {3: 2}), SetQuestion("about b and c", {1: 4, 2: 1})),
)


def test_parts_of_a_set_keep_the_questions_about_them():
    last = OF.last(2)
    assert (last.documents, last.groups) == (("c", "d"), (1, 1))
    assert [(one.text, one.gains) for one in last.questions] == [("about d", {1: 2}), ("about b and c", {0: 1})]
    assert [one.text for one in OF.first(1).questions] == ["about a"]


def test_the_halves_of_a_set_share_no_question():
    assert [one.text for one in OF.of_half("first")] == ["about a"]
    assert [one.text for one in OF.of_half("second")] == ["about d", "about b and c"]


def test_gains_are_discounted_by_their_rank():
    figures = ranking_figures([[1, 2], [2, 2, 1]], [OF.questions[2], OF.questions[2]])
    assert figures["R@1"] == 1.0
    assert 0.5 < figures["nDCG@10"] < 1.0
    assert ranking_figures([[0]], [OF.questions[2]])["nDCG@10"] == 0.0


def test_paragraphs_of_one_article_belong_together_and_questions_without_answers_are_told_apart(tmp_path: Path):
    def article(*texts: str, answers: bool = True) -> dict[str, object]:
        asked = [{"question": "Who?", "answers": [{"text": " Ada ", "answer_start": 0}] if answers else []}]
        return {"paragraphs": [{"context": text, "qas": asked} for text in texts]}

    (tmp_path / "one.json").write_text(json.dumps({"data": [article("A.", "B."), article("C.")]}))
    (tmp_path / "two.json").write_text(json.dumps({"data": [article("X.", "C.", answers=False)]}))
    of = read_paragraphs("one", tmp_path / "one.json")
    assert (of.documents, of.groups) == (("A.", "B.", "C."), (0, 0, 1))
    assert of.questions[0].answers == ("Ada",)
    assert [one.gains for one in unanswered(of, tmp_path / "two.json").questions] == [{2: 1}]


def test_the_fit_separates_what_can_be_separated_and_keeps_its_share():
    rng = random.Random(1)
    examples = [
        Example(tuple(rng.gauss(0.7 if answered else 0.3, 0.15) for _ in range(5)), answered)
        for answered in (True, False)
        for _ in range(300)
    ]
    model = fitted(examples)

    def chance(one: Example) -> float:
        return model.bias + sum(w * v for w, v in zip(model.weights, one.values, strict=True))

    scores = sorted(chance(one) for one in examples if one.is_answered)
    assert min(model.weights) > 0
    assert max(chance(one) for one in examples if not one.is_answered) < scores[-1]
    kept = sum(1 for one in examples if one.is_answered and 1 / (1 + 2.718281828 ** -chance(one)) >= model.threshold)
    assert kept / 300 == pytest.approx(KEPT_SHARE, abs=0.01)
