"""The evidence of the bench of serving: what our search finds for each question, for the models of all sides to read.

What is compared is who answers sooner, and reading is most of that. A peer's own search finds other passages, of other
lengths, so it is timed as it is, and then its model reads what ours does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.config import Home
from engine.core import Passage
from engine.engine import Engine
from engine.generation.evidence import EvidencePassage
from tests.bench.serving_load import Asked
from tests.bench.serving_ways import WAYS, in_force

# How much a model reads, on every side; what words of a question say of files would confine its search.
CONTEXT_TOKENS = 2048
SEARCH_SETTINGS: Mapping[str, Any] = {"generation.max_context": CONTEXT_TOKENS, "retrieval.reads_filters": False}


def with_evidence(asked: Sequence[Asked], home: Path) -> list[Asked]:
    """The questions, each with the passages that our side finds for it; nobody else has that home open."""
    found: dict[tuple[int, str], tuple[str, ...]] = {}
    with in_force(WAYS["ours"], index_share=1.0), Engine(Home.under(home)) as engine:
        engine.change_settings(SEARCH_SETTINGS)
        for count in dict.fromkeys(one.passages for one in asked):
            texts = list(dict.fromkeys(one.text for one in asked if one.passages == count))
            for text, evidence in zip(texts, engine.search_many(texts, count), strict=True):
                found[count, text] = as_read(evidence.passages)
    return [replace(one, evidence=found[one.passages, one.text]) for one in asked]


def as_read(passages: Iterable[Passage]) -> tuple[str, ...]:
    """Passages as our model reads them, each under the name of its file and its page, but for their numbers."""
    blocks = (EvidencePassage.of(passage).block(1).text for passage in passages)
    return tuple(block.removeprefix("[1] ").removesuffix("\n\n") for block in blocks)
