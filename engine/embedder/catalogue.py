"""The catalogue of embedding models: recommended models of the hub, their purpose, and the prompts they need.

Sizes are approximate; exact ones and checksums come from the hub at download. How much longer indexing takes is
estimated from the computation in their layers, relative to the built-in model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.embedder.known import KnownModel, known_in

# Their cards say that these models were trained with prompts. Without them results are worse, but no file that a
# library reads contains them.
_FOR_PASSAGES = {"query": "Represent this sentence for searching relevant passages: ", "document": ""}
_PROMPTS: Mapping[str, Mapping[str, str]] = {
    r"(intfloat/)?(multilingual-)?e5-(small|base|large)(-v2)?": {"query": "query: ", "document": "passage: "},
    r"(intfloat/)?multilingual-e5-large-instruct": {
        "query": "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
        "document": "",
    },
    r"(BAAI/)?bge-(small|base|large)-en(-v1\.5)?": _FOR_PASSAGES,
    r"(BAAI/)?bge-(small|base|large)-zh(-v1\.5)?": {
        "query": "为这个句子生成表示以用于检索相关文章：",
        "document": "",
    },
    r"(WhereIsAI/)?UAE-Large-V1": _FOR_PASSAGES,
}


@dataclass(frozen=True, slots=True)
class KnownEmbedder(KnownModel):
    """An embedding model of the hub."""

    dimensions: int
    is_multilingual: bool


CATALOGUE = (
    KnownEmbedder(
        "intfloat/multilingual-e5-small",
        "About a hundred languages, also a question in one and files in another: the first to try. Indexing takes "
        "about twice as long as with the built-in one.",
        "MIT", dimensions=384, num_bytes=490_000_000, is_multilingual=True,
    ),
    KnownEmbedder(
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "About fifty languages. Made for short texts: it reads 128 tokens at a time. Indexing takes about twice as "
        "long.",
        "Apache-2.0", dimensions=384, num_bytes=485_000_000, is_multilingual=True,
    ),
    KnownEmbedder(
        "BAAI/bge-m3",
        "About a hundred languages, and finds better. Large: it holds over 2 GB of memory, and without a graphics "
        "card indexing takes about thirty times as long.",
        "MIT", dimensions=1024, num_bytes=2_300_000_000, is_multilingual=True,
    ),
    KnownEmbedder(
        "sentence-transformers/all-mpnet-base-v2",
        "English only, and finds better than the built-in one. Indexing takes about eight times as long.",
        "Apache-2.0", dimensions=768, num_bytes=440_000_000, is_multilingual=False,
    ),
)  # fmt: skip


def known(repo: str) -> KnownEmbedder | None:
    return known_in(CATALOGUE, repo)


def prompts_of(name: str) -> Mapping[str, str]:
    """Returns the prompts before questions ("query") and passages ("document") that a model's files do not state.

    `name` is OWNER/NAME as on the hub, or NAME. The result is empty for most models; "" means no prompt.
    """
    return next((wanted for form, wanted in _PROMPTS.items() if re.fullmatch(form, name, re.IGNORECASE)), {})
