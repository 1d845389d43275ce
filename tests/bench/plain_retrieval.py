"""Retrieval and prompt as people put them together: sentence-transformers, LanceDB's nearest neighbours, a template.

The table is the application's own, with LanceDB's own index of the vectors where they are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import resources
from engine.config import EmbedderSettings
from engine.embedder import resolve
from engine.partitions.opening import TABLE

# The codes of the index find candidates, and their vectors say which are the best, as LanceDB recommends it.
_REFINE_FACTOR = 10


class PlainRetrieval:
    """An embedding model and a table, both open as long as the process lives."""

    def __init__(self, table_folder: Path, num_threads: int) -> None:
        import lancedb
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(num_threads)
        self._embedder: Any = SentenceTransformer(str(resolve(EmbedderSettings()).folder), device="cpu")
        self._table: Any = lancedb.connect(table_folder).open_table(TABLE)
        self._has_index = any("vector" in index.columns for index in self._table.list_indices())

    def passages(self, question: str, count: int) -> list[str]:
        """The nearest chunks, the nearest first."""
        vector = self._embedder.encode(question, normalize_embeddings=True, show_progress_bar=False)
        query = self._table.search(vector, "vector", query_type="vector").distance_type("dot")
        if self._has_index:
            query = query.refine_factor(_REFINE_FACTOR)
        found: list[str] = query.select(["text", "_distance"]).limit(count).to_arrow()["text"].to_pylist()
        return found


def plain_prompt(question: str, passages: Sequence[str]) -> str:
    """The instructions and the form that our side has, in the markup of the bench models."""
    instructions = resources.text("prompts/answer.txt").strip()
    evidence = "".join(f"[{number}] {text}\n\n" for number, text in enumerate(passages, start=1))
    return (
        f"<|im_start|>system\n{instructions}<|im_end|>\n"
        f"<|im_start|>user\n{evidence}Question: {question}<|im_end|>\n<|im_start|>assistant\n"
    )
