"""The catalogue of rerankers: which of the hub are worth getting, what for, and in which languages they read.

All of them have free licences, and can be loaded by sentence-transformers without code of their own. Sizes of weights
and tokenizers are approximate; exact ones and checksums come from the hub.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.embedder.known import KnownModel, known_in


@dataclass(frozen=True, slots=True)
class KnownReranker(KnownModel):
    """A cross-encoder of the hub; `languages` is what it reads, in words."""

    languages: str


CATALOGUE = (
    KnownReranker(
        "cross-encoder/ms-marco-MiniLM-L6-v2",
        "English only. The smallest and fastest of these: the first to try where files and questions are in English.",
        "Apache-2.0", num_bytes=92_000_000, languages="English",
    ),
    KnownReranker(
        "cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
        "Trained on questions and passages in fourteen languages, German, French, Spanish, Chinese and Japanese among "
        "them. Small enough for a computer without a graphics card.",
        "Apache-2.0", num_bytes=493_000_000, languages="many languages",
    ),
    KnownReranker(
        "mixedbread-ai/mxbai-rerank-xsmall-v1",
        "English only. Trained on what people type into search engines; larger and slower than the smallest.",
        "Apache-2.0", num_bytes=153_000_000, languages="English",
    ),
    KnownReranker(
        "BAAI/bge-reranker-base",
        "English and Chinese. It holds over 1 GB of memory, and takes its time without a graphics card.",
        "MIT", num_bytes=1_135_000_000, languages="English and Chinese",
    ),
    KnownReranker(
        "BAAI/bge-reranker-v2-m3",
        "Many languages. The largest and slowest of these: it holds over 2 GB of memory.",
        "Apache-2.0", num_bytes=2_290_000_000, languages="many languages",
    ),
)  # fmt: skip


def known(repo: str) -> KnownReranker | None:
    return known_in(CATALOGUE, repo)
