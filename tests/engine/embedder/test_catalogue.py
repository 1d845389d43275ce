"""Tests for engine.embedder.catalogue."""

from __future__ import annotations

import pytest

from engine.embedder.catalogue import CATALOGUE, known, prompts_of
from engine.embedder.known import named_in

PERMISSIVE = {"MIT", "Apache-2.0"}


def test_what_is_offered_may_be_used_by_everybody():
    assert {one.licence for one in CATALOGUE} <= PERMISSIVE
    assert len({one.name for one in CATALOGUE}) == len(CATALOGUE)


def test_a_model_is_found_by_its_name_whatever_its_capitals():
    assert named_in(CATALOGUE, "BGE-M3") == "BAAI/bge-m3"
    assert known(named_in(CATALOGUE, "bge-m3")) in CATALOGUE
    assert named_in(CATALOGUE, "owner/name") == "owner/name"
    assert known("owner/name") is None


@pytest.mark.parametrize("repo", ["intfloat/multilingual-e5-small", "intfloat/e5-base-v2"])
def test_models_of_the_e5_family_want_a_word_before_each_text(repo: str):
    assert prompts_of(repo) == {"query": "query: ", "document": "passage: "}


@pytest.mark.parametrize("repo", ["BAAI/bge-m3", "intfloat/e5-mistral-7b-instruct", "owner/e5-small"])
def test_others_want_nothing_or_say_it_themselves(repo: str):
    assert prompts_of(repo) == {}
