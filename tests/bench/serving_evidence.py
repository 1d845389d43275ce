"""Evidence for the serving bench: passages that our search finds, read by the models of all sides.

The bench compares latencies, and reading is most of them. A peer's own search would find other passages of other
lengths, so that search is timed as it is, but the peer's model reads our passages.
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

# The context size on every side; words of a question that look like file names would restrict its search.
CONTEXT_TOKENS = 2048
SEARCH_SETTINGS: Mapping[str, Any] = {"generation.max_context": CONTEXT_TOKENS, "retrieval.reads_filters": False}


def with_evidence(asked: Sequence[Asked], home: Path) -> list[Asked]:
    """Returns the questions with the passages that our side finds; no other engine may have that home open."""
    found: dict[tuple[int, str], tuple[str, ...]] = {}
    with in_force(WAYS["ours"], index_share=1.0), Engine(Home.under(home)) as engine:
        engine.change_settings(SEARCH_SETTINGS)
        for count in dict.fromkeys(one.passages for one in asked):
            texts = list(dict.fromkeys(one.text for one in asked if one.passages == count))
            for text, evidence in zip(texts, engine.search_many(texts, count), strict=True):
                found[count, text] = as_read(evidence.passages)
    return [replace(one, evidence=found[one.passages, one.text]) for one in asked]


def as_read(passages: Iterable[Passage]) -> tuple[str, ...]:
    """Returns passages as our model reads them, with file name and page but without their numbers."""
    blocks = (EvidencePassage.of(passage).block(1).text for passage in passages)
    return tuple(block.removeprefix("[1] ").removesuffix("\n\n") for block in blocks)
