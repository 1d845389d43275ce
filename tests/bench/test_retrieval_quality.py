"""Tests for the entries of tests.bench.retrieval_quality."""

from __future__ import annotations

from tests.bench.retrieval_quality import entries


def test_there_is_one_entry_for_each_set_and_metric():
    ours = {
        "SQuAD R@5": 0.9,
        "SQuAD quotes hold gold answer": 0.8,
        "SQuAD search_s_per_question": 0.1,
        "XQuAD-zh MRR": 0.5,
    }
    peers = {"dense": {"SQuAD R@5": 0.45, "XQuAD-zh MRR": 0.25}, "BM25": {"SQuAD R@5": 0.6, "XQuAD-zh MRR": 0.0}}
    assert entries(ours, peers) == {"squad_r@5": 1.5, "squad_quotes_hold_gold_answer": 0.8, "xquad-zh_mrr": 2.0}
