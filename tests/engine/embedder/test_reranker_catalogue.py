"""Tests for engine.embedder.reranker_catalogue."""

from __future__ import annotations

from engine.embedder.known import named_in
from engine.embedder.reranker_catalogue import CATALOGUE, known

PERMISSIVE = {"MIT", "Apache-2.0"}


def test_what_is_offered_may_be_used_by_everybody():
    assert {one.licence for one in CATALOGUE} <= PERMISSIVE
    assert len({one.name for one in CATALOGUE}) == len(CATALOGUE)
    assert all(one.good_for and one.languages and one.num_bytes for one in CATALOGUE)
    assert {"English", "many languages"} <= {one.languages for one in CATALOGUE}


def test_a_reranker_is_found_by_its_name_whatever_its_capitals():
    assert named_in(CATALOGUE, "BGE-Reranker-v2-M3") == "BAAI/bge-reranker-v2-m3"
    assert known(named_in(CATALOGUE, "bge-reranker-v2-m3")) in CATALOGUE
    assert named_in(CATALOGUE, "owner/name") == "owner/name"
    assert known("owner/name") is None
