"""Tests for engine.retrieval.pointers."""

from __future__ import annotations

import pytest

from engine.retrieval.pointers import points_back


def own(text: str, *words: str) -> list[int]:
    return sorted(text.index(word) for word in words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("When does it begin?", ["begin"]),
        ("What did she write in Vienna about numbers and music?", ["write", "Vienna", "numbers", "music"]),
        ("Who signed for them?", ["signed"]),
        ("How is it sold there?", ["sold"]),
        ("Wann gilt das nicht?", ["gilt"]),
        ("Wo wohnt er?", ["wohnt"]),
        ("¿Dónde vive ella?", ["vive"]),
        ("Que dit celui-ci du loyer ?", ["loyer"]),
    ],
)
def test_a_word_for_something_named_before_points_back(text: str, words: list[str]):
    assert points_back(text, own(text, *words))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Does the guard of a mutex drop the lock it holds?", ["guard", "mutex", "drop", "lock", "holds"]),
        ("Do birds lose their feathers?", ["birds", "lose", "feathers"]),
        ("Is there a deposit?", ["deposit"]),
        ("How many people are there in Vienna?", ["people", "Vienna"]),
        ("Is it possible to leave early?", ["leave", "early"]),
        ("What was sold this year?", ["sold"]),
        ("Was kostet das Rad?", ["kostet", "Rad"]),
        ("Wo liegt das alte Haus?", ["liegt", "alte", "Haus"]),
        ("Können Sie schwimmen?", ["schwimmen"]),
        ("¿Qué pasó esta semana?", ["pasó"]),
        ("Il y a une caution ?", ["caution"]),
    ],
)
def test_a_word_for_what_the_question_names_or_for_nothing_does_not(text: str, words: list[str]):
    assert not points_back(text, own(text, *words))
