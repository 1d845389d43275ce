"""LangChain and Chroma at the same work, as their documentation writes it; run in an environment of its own.

    python -m tests.bench.indexing_peers WHAT TASK.json

WHAT is `chunks` (Chroma.from_texts of our chunks with HuggingFaceEmbeddings at its defaults), `chunks_tuned` (the
same with our embedder handed in) or `files` (loaders, RecursiveCharacterTextSplitter, Chroma). Libraries and weights
are loaded and warm before the time is taken. One JSON object on the last line of stdout.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

CHUNK_CHARACTERS, OVERLAP_CHARACTERS = 1000, 200
WARM_UP = ["A few words to wake the libraries up. " * 20] * 8


class OurEmbeddings(Embeddings):
    """Our embedder, run as the self-test found best."""

    def __init__(self, cache: str) -> None:
        from engine.config import EmbedderSettings
        from engine.embedder import Embedder, resolve
        from engine.memory.ledger import Ledger

        settings = EmbedderSettings()
        self._embedder = Embedder(resolve(settings), settings, Ledger(), cache=Path(cache))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._embedder.embed_questions([text])[0].tolist()
        return vector


def default_embeddings(model: str) -> Embeddings:
    from langchain_huggingface import HuggingFaceEmbeddings

    made: Embeddings = HuggingFaceEmbeddings(model_name=model, model_kwargs={"device": "cpu"})
    return made


def index_chunks(task: dict[str, Any], embeddings: Embeddings, folder: str) -> int:
    Chroma.from_texts(texts=task["chunks"], embedding=embeddings, persist_directory=folder)
    return sum(map(len, task["chunks"]))


def index_files(task: dict[str, Any], embeddings: Embeddings, folder: str) -> int:
    """Loads, splits and stores the files; returns the characters of text that were loaded."""
    from langchain_community.document_loaders import DirectoryLoader, PyPDFLoader, TextLoader
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    loaders = [
        DirectoryLoader(task["folder"], glob="**/*.pdf", loader_cls=PyPDFLoader),
        *(DirectoryLoader(task["folder"], glob=glob, loader_cls=TextLoader) for glob in ("**/*.md", "**/*.txt")),
    ]
    documents = [document for loader in loaders for document in loader.load()]
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS)
    Chroma.from_documents(splitter.split_documents(documents), embeddings, persist_directory=folder)
    return sum(len(document.page_content) for document in documents)


KINDS: dict[str, Callable[[dict[str, Any], Embeddings, str], int]] = {
    "chunks": index_chunks,
    "chunks_tuned": index_chunks,
    "files": index_files,
}


def main(what: str, task_file: Path) -> None:
    warnings.simplefilter("ignore")
    task = json.loads(task_file.read_text(encoding="utf-8"))
    embeddings = OurEmbeddings(task["cache"]) if what == "chunks_tuned" else default_embeddings(task["model"])
    embeddings.embed_documents(WARM_UP)
    with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as folder:
        Chroma.from_texts(texts=WARM_UP[:1], embedding=embeddings, persist_directory=warm)
        begun = time.perf_counter()
        characters = KINDS[what](task, embeddings, folder)
        seconds = time.perf_counter() - begun
    print(json.dumps({"seconds": seconds, "characters": characters}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
