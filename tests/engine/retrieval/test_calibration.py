"""Tests for engine.retrieval.calibration."""

from __future__ import annotations

import pytest

from engine.retrieval.calibration import (
    BY_MEANING,
    BY_WORDS,
    Calibration,
    Signs,
    Strength,
    lacks_what_is_asked,
    names_of,
    share_of_names,
)


def test_strength_does_not_depend_on_the_length_of_the_question_or_the_size_of_the_library():
    assert Strength.of(8.0, 0.5, num_terms=2, num_chunks=100).words == pytest.approx(
        Strength.of(16.0, 0.5, num_terms=4, num_chunks=100).words
    )
    assert Strength.of(1e9, 0.5, 3, 10) == Strength(1.0, 0.5)
    assert Strength.of(0.0, 0.0, 0, 0) == Strength(0.0, 0.0)


def test_confidence_is_a_probability_and_grows_with_what_speaks_for_it():
    model = Calibration((1.0, 1.0, 1.0, 1.0, 1.0), bias=-2.5, threshold=0.5)
    assert model.confidence(Signs(0.5, 0.5, 0.5, Strength(0.5, 0.5))) == pytest.approx(0.5)
    assert model.confidence(Signs(1.0, 1.0, 1.0, Strength(1.0, 1.0))) > 0.9


@pytest.mark.parametrize("model", [BY_MEANING, BY_WORDS], ids=["meaning", "words"])
def test_what_fits_in_every_way_is_quoted_and_what_fits_in_none_is_not(model: Calibration):
    good, bad = Signs(0.8, 0.9, 1.0, Strength(0.6, 0.75)), Signs(0.1, 0.05, 0.0, Strength(0.05, 0.15))
    assert model.confidence(good) >= model.threshold > model.confidence(bad)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("When did Ada Lovelace meet Babbage in 1833?", {"ada", "lovelace", "babbage", "1833"}),
        ("What do I do with a mutex?", set()),
        ("", set()),
    ],
)
def test_names_and_numbers_of_a_question(question: str, names: set[str]):
    assert names_of(question) == names


def test_the_share_of_names_that_a_text_has():
    assert share_of_names(frozenset({"ada", "1833"}), "ADA was born in 1815.") == 0.5
    assert share_of_names(frozenset(), "Anything.") == 0.5


@pytest.mark.parametrize(
    ("question", "sentence", "lacks"),
    [
        ("How many people live there?", "Some 900 people live there.", False),
        ("How many people live there?", "Many people live there.", True),
        ("How many people lived there in 1900?", "People lived there in 1900.", True),
        ("Who wrote it?", "It was written by Ada.", False),
        ("Who wrote it?", "It was written long ago.", True),
        ("Wann begann der Krieg?", "Der Krieg begann im Mai.", True),
        ("What is it?", "It is long.", False),
    ],
)
def test_a_sentence_may_lack_the_number_or_name_that_is_asked_for(question: str, sentence: str, lacks: bool):
    assert lacks_what_is_asked(question, names_of(question), sentence) is lacks
