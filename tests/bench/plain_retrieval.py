"""Typical retrieval and prompt of small applications: sentence-transformers, LanceDB's nearest neighbours, a template.

It searches the application's own table, with LanceDB's index of the vectors where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import resources
from engine.config import EmbedderSettings
from engine.embedder import resolve
from engine.partitions.opening import TABLE

# The index's codes select candidates, which are rescored by their vectors, as LanceDB recommends.
_REFINE_FACTOR = 10


class PlainRetrieval:
    """An embedding model and a table, both open for the lifetime of the process."""

    def __init__(self, table_folder: Path, num_threads: int) -> None:
        import lancedb
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(num_threads)
        self._embedder: Any = SentenceTransformer(str(resolve(EmbedderSettings()).folder), device="cpu")
        self._table: Any = lancedb.connect(table_folder).open_table(TABLE)
        self._has_index = any("vector" in index.columns for index in self._table.list_indices())

    def passages(self, question: str, count: int) -> list[str]:
        """Returns the nearest chunks, nearest first."""
        vector = self._embedder.encode(question, normalize_embeddings=True, show_progress_bar=False)
        query = self._table.search(vector, "vector", query_type="vector").distance_type("dot")
        if self._has_index:
            query = query.refine_factor(_REFINE_FACTOR)
        found: list[str] = query.select(["text", "_distance"]).limit(count).to_arrow()["text"].to_pylist()
        return found


def plain_prompt(question: str, passages: Sequence[str]) -> str:
    """Returns a prompt with our side's instructions and form, in the chat template of the bench models."""
    instructions = resources.text("prompts/answer.txt").strip()
    evidence = "".join(f"[{number}] {text}\n\n" for number, text in enumerate(passages, start=1))
    return (
        f"<|im_start|>system\n{instructions}<|im_end|>\n"
        f"<|im_start|>user\n{evidence}Question: {question}<|im_end|>\n<|im_start|>assistant\n"
    )
