"""Tests for tests.bench.squad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.squad import Squad, SquadQuestion, contains_answer, figures, read_squad, write_paragraphs


def test_a_document_that_comes_twice_takes_one_place() -> None:
    found = figures([[7, 7, 7, 7, 7, 3]], [3])
    assert found == {"R@1": 0.0, "R@5": 1.0, "R@10": 1.0, "MRR": 0.5}


def test_what_is_not_found_counts_nothing() -> None:
    assert figures([[1], [2, 1], []], [1, 1, 1]) == pytest.approx(
        {"R@1": 1 / 3, "R@5": 2 / 3, "R@10": 2 / 3, "MRR": 0.5}
    )


def test_an_answer_counts_letter_by_letter() -> None:
    assert contains_answer(["It was in May 1889.", "Later."], ["May 1889", "1889"])
    assert not contains_answer(["It was in may."], ["May"])
    assert not contains_answer([], ["May"])
    assert not contains_answer(["May"], [])


def test_equal_paragraphs_are_one_file_and_samples_repeat(tmp_path: Path) -> None:
    ask = {"question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}
    articles = [{"paragraphs": [{"context": text, "qas": [ask]} for text in ("Ada.", "Bob.", "Ada.")]}]
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}))
    squad = read_squad(tmp_path / "squad.json")
    assert squad.paragraphs == ("Ada.", "Bob.")
    assert [one.paragraph for one in squad.questions] == [0, 1, 0]
    assert squad.sample(2, seed=5) == squad.sample(2, seed=5)
    files = write_paragraphs(squad, tmp_path / "files")
    assert [file.read_text() for file in files] == ["Ada.", "Bob."]


def test_a_sample_is_never_larger_than_what_there_is() -> None:
    squad = Squad(("Ada.",), (SquadQuestion("Who?", 0, ("Ada",)),))
    assert len(squad.sample(500, seed=1)) == 1
